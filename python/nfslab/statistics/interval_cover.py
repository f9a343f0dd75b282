"""How much of each window intervals cover: of a sync's time, how long WRITEs were under way.

Intervals may overlap each other, and windows may: every window is judged by itself, and each of its
nanoseconds is covered or not. With the intervals in the order of their starts and the latest end of
all before each, what an interval adds to a window is what of it lies behind that end; the sum over
the intervals that begin within the window, and the part that earlier ones reach into it, are exact.
All numbers are whole nanoseconds, so covers of growing sets of intervals subtract exactly.

Cost: one entry for each pair of a window and an interval that begins in it, `PAIRS_MOST` at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Integers = NDArray[np.int64]

PAIRS_MOST: Final = 4_000_000


def cover(
    starts: ArrayLike, ends: ArrayLike, window_starts: ArrayLike, window_ends: ArrayLike
) -> Integers:
    """Nanoseconds of each window in which at least one interval lasts."""
    begin, over = np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)
    low, high = np.asarray(window_starts, dtype=np.int64), np.asarray(window_ends, dtype=np.int64)
    found = np.zeros(low.size, dtype=np.int64)
    if not begin.size or not low.size:
        return found
    order = np.argsort(begin, kind="stable")
    begin, over = begin[order], over[order]
    latest = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(over)])
    first = np.searchsorted(begin, low, side="left")
    last = np.searchsorted(begin, high, side="left")
    found += np.maximum(np.minimum(latest[first], high), low) - low
    for piece in _pieces(last - first):
        counts = (last - first)[piece]
        which = np.repeat(np.arange(piece.start, piece.stop), counts)
        if not which.size:
            continue
        place = np.arange(which.size) - np.repeat(np.cumsum(counts) - counts, counts)
        at = first[which] + place
        added = np.minimum(over[at], high[which]) - np.maximum(begin[at], latest[at])
        np.add.at(found, which, np.maximum(added, 0))
    return found


def began_within(
    starts: ArrayLike, window_starts: ArrayLike, window_ends: ArrayLike
) -> tuple[Integers, Integers]:
    """For each window the range [first, last) of those that begin in it, by sorted `starts`."""
    begin = np.asarray(starts, dtype=np.int64)
    return (
        np.searchsorted(begin, np.asarray(window_starts), side="left").astype(np.int64),
        np.searchsorted(begin, np.asarray(window_ends), side="left").astype(np.int64),
    )


def _pieces(counts: Integers) -> list[slice]:
    """Windows in a row with not too many pairs together."""
    total = np.cumsum(counts)
    pieces, at = [], 0
    while at < counts.size:
        before = int(total[at - 1]) if at else 0
        end = int(np.searchsorted(total, before + PAIRS_MOST, side="right"))
        end = max(end, at + 1)
        pieces.append(slice(at, end))
        at = end
    return pieces
