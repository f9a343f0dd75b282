"""Which lenses each of several processes makes, by what they take: alone, and what several share.

Costs are the core's (`trace_lenses`), beside the lens: a new one needs no line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

Share = tuple[str, ...]
"""Lenses that one process makes."""
_Kinds = Mapping[str, tuple[int, Mapping[str, int]]]
"""What each takes by itself, and what of it is done once for several."""

TABLE: Final = "operations"
"""The lens that always runs: every process has it."""
ROWS: Final = "rows of the calls"
ROWS_COST: Final = (600, {"files": 100})
"""What they take beside the reading, as lenses tell; some of it is another thread's."""


def shares(lenses: Sequence[str], workers: int, *, rows: bool) -> list[Share]:
    """What at most so many processes make; with `rows` the first one has those, too.

    Of all ways the one with the least `_cost`: lenses that share work stay together if that is not
    for long.
    """
    from nfslab._core import trace_lenses

    kinds = {name: (ms, shared) for name, ms, shared in trace_lenses() if name in lenses}
    kinds.pop(TABLE, None)
    if rows:
        kinds[ROWS] = ROWS_COST
    due = sorted(kinds, key=lambda name: (name != ROWS, -_load([name], kinds)))
    best = _best(due, [], min(workers, len(due)), kinds, None)
    return [(TABLE, *(name for name in share if name != ROWS)) for share in best or [[]]]


def _best(
    due: Sequence[str],
    so_far: list[list[str]],
    most: int,
    kinds: _Kinds,
    best: list[list[str]] | None,
) -> list[list[str]]:
    """All ways to go on are tried that are not worse already."""
    if best is not None and _cost(so_far, kinds) >= _cost(best, kinds):
        return best
    if not due:
        return so_far
    for number in range(min(len(so_far) + 1, most)):
        more = [*map(list, so_far), []]
        more[number].append(due[0])
        best = _best(due[1:], [share for share in more if share], most, kinds, best)
    assert best is not None
    return best


def _cost(some: Sequence[Sequence[str]], kinds: _Kinds) -> float:
    """The longest one's time, and a tenth of what all take: processors are of use to others."""
    loads = [_load(share, kinds) for share in some]
    return max(loads, default=0) + sum(loads) / 10


def _load(share: Sequence[str], kinds: _Kinds) -> int:
    """What a process takes beside the reading; what several want is done once."""
    shared: dict[str, int] = {}
    for name in share:
        shared |= kinds[name][1]
    return sum(kinds[name][0] for name in share) + sum(shared.values())
