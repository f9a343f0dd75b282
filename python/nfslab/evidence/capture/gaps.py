"""Stalls, pauses and losses of a capture: named, numbered, ready for a closer look.

The core's lens `stalls` finds and names the gaps; here each gets a key (S1, S2, ... in the
order of time) under which figures shade it, and tables and sentences name it.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from nfslab.display.numbers import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nfslab._core import GapRow
    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.display.figures import Band

    class Gap(GapRow):
        """A gap with its key; times from the first packet."""

        key: str
        kind_name: str
        from_s: float
        to_s: float


NS = 1_000_000_000
# kind: (letter, name, its meaning)
KINDS = {
    "server_stalled": ("S", "server stalled", "calls were in flight, and none was answered"),
    "server_restarted": ("R", "server restarted", "it refused connections"),
    "connection_reset": ("C", "connection reset", "it was reset or closed, and begun again"),
    "network_loss": ("N", "network loss", "data was lost, and came when it was retransmitted"),
    "client_waited": ("W", "client waited", "the server answered others, but not this client"),
    "connection_waited": (
        "K",
        "connection waited",
        "the server answered the client on others, but not on this connection",
    ),
    "server_full": ("F", "server took no bytes", "its window was zero: calls waited for it"),
    "client_full": ("Z", "client took no bytes", "its window was zero: answers waited for it"),
    "told_to_wait": ("T", "client told to wait", "the server asked to be asked again later"),
    "capture_loss": ("L", "lost by the capture", "the capture lacks bytes here"),
    "client_paused": ("P", "client paused", "nothing was in flight"),
    "unknown": ("U", "cannot be told", "slow, lost or paused: not to be told from here"),
}
BANDS = frozenset({"server", "client"})
"""Scopes drawn as bands: what held up one call only is in the table."""


def gaps(analysis: CaptureAnalysis) -> list[Gap]:
    """The gaps in the order of time."""
    section = analysis.content.get("stalls")
    if not section:
        return []
    numbers = dict.fromkeys(KINDS, 0)
    found: list[Gap] = []
    for gap in sorted(section["gaps"], key=lambda gap: (gap["begin_ns"], gap["end_ns"])):
        letter, name, _ = KINDS.get(gap["kind"], ("G", gap["kind"].replace("_", " "), ""))
        numbers[gap["kind"]] = numbers.get(gap["kind"], 0) + 1
        found.append(
            {
                **gap,
                "key": f"{letter}{numbers[gap['kind']]}",
                "kind_name": name,
                "from_s": (gap["begin_ns"] - analysis.first_ns) / NS,
                "to_s": (gap["end_ns"] - analysis.first_ns) / NS,
            }
        )
    return found


def bands(found: Iterable[Gap]) -> list[Band]:
    """What the figures shade."""
    from nfslab.display.figures import Band  # a text needs no figures: 20 ms of a short trace

    return [
        Band(gap["from_s"], gap["to_s"], f"{gap['key']} {gap['kind_name']}")
        for gap in found
        if gap["scope"] in BANDS
    ]


def of_kind(found: Iterable[Gap], kind: str) -> list[Gap]:
    """Gaps of one kind that held up a whole client or server."""
    return [gap for gap in found if gap["kind"] == kind and gap["scope"] in BANDS]


def closer_looks(analysis: CaptureAnalysis) -> list[str]:
    """Stretches worth it, with the command that analyses them alone (a stream has none)."""
    section = analysis.content.get("stalls")
    looks = []
    for look in section["closer_look"] if section else ():
        from_s, to_s = look["from_ns"] / NS, look["to_ns"] / NS
        span = f"{from_s:.3f} s to {to_s:.3f} s"
        how = command(analysis.names, from_s, to_s) if analysis.from_files else span
        looks.append(f"{look['what']}: {how}")
    return looks


def command(names: Sequence[str], from_s: float, to_s: float) -> str:
    """The command line that looks at one stretch only."""
    return shlex.join(["nfslab", "trace", *names, "--from", f"{from_s:.6f}", "--to", f"{to_s:.6f}"])


def lengths(found: Sequence[Gap], most: int = 5) -> str:
    """ "2.510 s at 4.2 s (S2), ...", the longest first."""
    ordered = sorted(found, key=lambda gap: -gap["length_ns"])
    parts = [
        f"{quantity(gap['length_ns'], 'ns')} at {gap['from_s']:.2f} s ({gap['key']})"
        for gap in ordered[:most]
    ]
    if len(ordered) > most:
        parts.append(f"{len(ordered) - most} shorter ones")
    return ", ".join(parts)
