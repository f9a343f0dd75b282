"""Calls of each operation in the timed part, from totals that were read again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.results.coded_texts import coded_texts

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Integers = npt.NDArray[np.int64]

APART_MOST: Final = 5
"""Intervals between the readings around an end of the timed part: further apart, what was counted
between them may lie on either side."""
DOUBT_MOST: Final = 0.05
"""Of an operation's calls in the timed part that may do so."""


def timed_calls(
    table: pa.Table, start_ns: int, end_ns: int, interval_ns: float
) -> tuple[dict[str, float], bool]:
    """By operation: what was counted at the timed part's ends, from the readings beside them; and
    are these all? Operations of which too much may lie outside are left out.

    `table`: at_ns, operation, calls (totals), an operation's rows from its first call on.
    """
    at_ns = table["at_ns"].to_numpy().astype(np.int64)
    calls = table["calls"].to_numpy().astype(np.int64)
    names, which = coded_texts(table["operation"])
    gaps = [_around(at_ns, edge_ns) for edge_ns in (start_ns, end_ns)]
    wide = [gap for gap in gaps if gap[1] - gap[0] > APART_MOST * interval_ns]
    read = (int(at_ns.min()), int(at_ns.max()))
    if any(gap[0] < read[0] or gap[1] > read[1] for gap in wide):
        return {}, False
    found: dict[str, float] = {}
    every = True
    for number, name in enumerate(names):
        mine = which == number
        if not mine.any():
            continue
        counted = _from_zero(at_ns, mine, calls[mine])
        begin, end = np.interp((start_ns, end_ns), *counted)
        doubt = sum(float(np.diff(np.interp(gap, *counted))[0]) for gap in wide)
        if doubt > DOUBT_MOST * (end - begin):
            every = False
        else:
            found[name] = float(end - begin)
    return found, every


def _around(at_ns: Integers, edge_ns: int) -> tuple[int, int]:
    """The readings before and behind an instant; the instant itself where there is none."""
    before, behind = at_ns[at_ns <= edge_ns], at_ns[at_ns >= edge_ns]
    return (
        int(before.max()) if before.size else edge_ns,
        int(behind.min()) if behind.size else edge_ns,
    )


def _from_zero(at_ns: Integers, mine: npt.NDArray[np.bool_], calls: Integers) -> Any:
    """Instants and totals; it was called first behind the reading before its own."""
    own = at_ns[mine]
    before = at_ns[at_ns < own[0]]
    if not before.size:
        return own, calls
    return np.append(before[-1], own), np.append(0, calls)
