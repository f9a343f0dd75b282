"""Pauses: work was under way, and none of it ended, for far longer than is usual there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.statistics.interval_cover import cover

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from nfslab.statistics.shared_time import SharedTime

    Integers = NDArray[np.int64]

LEAST_NS: Final = 50_000_000
"""No shorter one is a pause: schedulers and disks make such by themselves."""
FACTOR: Final = 10.0
USUAL: Final = 0.9
"""Times this quantile of all stretches between two ends in which work was under way."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Stretches without an end, in ns on the clock of what was given; they do not overlap."""

    begins: Integers
    ends: Integers

    def within(self, begins: ArrayLike, ends: ArrayLike, clock: SharedTime | None = None) -> float:
        """How much of all these intervals lies within pauses, in ns; of shared time, if given."""
        from_ns, to_ns = np.asarray(begins, np.int64), np.asarray(ends, np.int64)
        total = 0.0
        for low, high in zip(self.begins.tolist(), self.ends.tolist(), strict=True):
            first, last = np.maximum(from_ns, low), np.minimum(to_ns, high)
            inside = last - first if clock is None else clock.between(first, last)
            total += float(inside[last > first].sum())
        return total


def pauses(begins: ArrayLike, ends: ArrayLike) -> Pauses:
    """Of pieces of work with their instants in ns: where at least one was under way and none ended
    for `LEAST_NS`, and for `FACTOR` times what nine in ten such stretches take."""
    begun = np.sort(np.asarray(begins, np.int64))
    ended = np.sort(np.asarray(ends, np.int64))
    nothing = np.zeros(0, np.int64)
    if ended.size < 2:
        return Pauses(nothing, nothing)
    # After each end but the last: since then, or since the next beginning where all was done.
    after = np.searchsorted(begun, ended[:-1], side="right")
    idle = after - np.arange(1, ended.size) <= 0
    following = begun[np.minimum(after, begun.size - 1)]
    since = np.where(idle, np.maximum(following, ended[:-1]), ended[:-1])
    lengths = ended[1:] - since
    limit = max(float(LEAST_NS), FACTOR * float(np.quantile(lengths, USUAL)))
    long = lengths >= limit
    return Pauses(since[long], ended[1:][long])


def covered(begins: ArrayLike, ends: ArrayLike) -> int:
    """How long at least one of these intervals was open, ns."""
    from_ns, to_ns = np.asarray(begins, np.int64), np.asarray(ends, np.int64)
    if not from_ns.size:
        return 0
    return int(cover(from_ns, to_ns, [from_ns.min()], [to_ns.max()])[0])
