"""Plans of any engine: what of one is compared with the intended one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def difference(
    wanted: Sequence[str], nodes: Sequence[str], scans: Sequence[str], found: Sequence[str]
) -> str:
    """In which way a plan is another one; empty: it is not.

    `wanted` are all its reads of tables and indexes, outer ones first; `nodes` others that it has
    to have. `scans` and `found` are those of a plan as it is.
    """
    if tuple(scans) != tuple(wanted):
        return f"it reads by {listed(scans)}, not by {listed(wanted)}"
    absent = [name for name in nodes if name not in found]
    return f"there is no {listed(absent)} in it" if absent else ""


def listed(names: Any) -> str:
    """For a sentence."""
    return ", ".join(names) or "nothing"
