"""Stalls, pauses and losses of a capture: named, numbered, ready for a closer look.

The core's lens `stalls` finds and names the gaps; here each gets a key (S1, S2, ... in the
order of time) under which figures shade it, and tables and sentences name it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from nfslab.display.figures import Band
from nfslab.display.numbers import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nfslab.captures.analysis import CaptureAnalysis

NS = 1_000_000_000
# kind: (letter, name, its meaning)
KINDS = {
    "server_stalled": ("S", "server stalled", "calls were outstanding, and none was answered"),
    "server_restarted": ("R", "server restarted", "it refused connections, or forgot them"),
    "connection_reset": ("C", "connection reset", "it was reset or closed, and begun again"),
    "network_loss": ("N", "network loss", "data was lost, and came when it was sent again"),
    "client_waited": ("W", "client waited", "the server answered others, but not this client"),
    "capture_loss": ("L", "lost by the capture", "the capture lacks bytes here"),
    "client_paused": ("P", "client paused", "nothing was outstanding"),
    "unknown": ("U", "cannot be told", "slow, lost or paused: not to be told from here"),
}
BANDS = frozenset({"server", "client"})
"""Scopes drawn as bands: what held up one call only is in the table."""


def gaps(analysis: CaptureAnalysis) -> list[dict[str, Any]]:
    """The gaps in the order of time, with keys and times from the first packet, seconds."""
    section = analysis.content.get("stalls")
    if not section:
        return []
    first_ns = analysis.content["first_ns"]
    numbers = dict.fromkeys(KINDS, 0)
    found = []
    for gap in sorted(section["gaps"], key=lambda gap: (gap["begin_ns"], gap["end_ns"])):
        letter, name, _ = KINDS.get(gap["kind"], ("G", gap["kind"].replace("_", " "), ""))
        numbers[gap["kind"]] = numbers.get(gap["kind"], 0) + 1
        found.append(
            {
                **gap,
                "key": f"{letter}{numbers[gap['kind']]}",
                "kind_name": name,
                "from_s": (gap["begin_ns"] - first_ns) / NS,
                "to_s": (gap["end_ns"] - first_ns) / NS,
            }
        )
    return found


def bands(found: Iterable[Mapping[str, Any]]) -> list[Band]:
    """What the figures shade."""
    return [
        Band(gap["from_s"], gap["to_s"], f"{gap['key']} {gap['kind_name']}")
        for gap in found
        if gap["scope"] in BANDS
    ]


def of_kind(found: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Gaps of one kind that held up a whole client or server."""
    return [gap for gap in found if gap["kind"] == kind and gap["scope"] in BANDS]


def closer_looks(analysis: CaptureAnalysis) -> list[dict[str, Any]]:
    """Ready stretches with the command that analyses them alone (a stream has none)."""
    section = analysis.content.get("stalls") or {}
    looks = []
    for look in section.get("closer_look", []):
        from_s, to_s = look["from_ns"] / NS, look["to_ns"] / NS
        looks.append(
            {
                "what": look["what"],
                "from_s": from_s,
                "to_s": to_s,
                "command": command(analysis.names, from_s, to_s) if analysis.from_files else "",
            }
        )
    return looks


def closer_look(look: Mapping[str, Any]) -> str:
    """One of them, in words."""
    span = f"{look['from_s']:.3f} s to {look['to_s']:.3f} s"
    return f"{look['what']}: {look['command'] or span}"


def command(names: Sequence[str], from_s: float, to_s: float) -> str:
    """The command line that looks at one stretch only."""
    return shlex.join(["nfslab", "trace", *names, "--from", f"{from_s:.6f}", "--to", f"{to_s:.6f}"])


def lengths(found: Sequence[Mapping[str, Any]], most: int = 5) -> str:
    """ "2.510 s at 4.2 s (S2), ...", the longest first."""
    ordered = sorted(found, key=lambda gap: -gap["length_ns"])
    parts = [
        f"{quantity(gap['length_ns'], 'ns')} at {gap['from_s']:.2f} s ({gap['key']})"
        for gap in ordered[:most]
    ]
    if len(ordered) > most:
        parts.append(f"{len(ordered) - most} shorter ones")
    return ", ".join(parts)
