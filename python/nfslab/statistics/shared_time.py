"""Time shared among all that is under way: at each instant each of k pieces of work has a k-th.

Who waits for several calls at once waits for all of them together: the shared times of all sum to
the time in which any was under way, while their own times sum to more. So a call that has the time
for itself counts for as much of the wait as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SharedTime:
    """Of pieces of work with their instants in ns."""

    instants: NDArray[np.int64]
    """At which one begins or ends, in order."""
    until_ns: Floats
    """What one that was under way all the time has had of it by then."""

    @classmethod
    def of(cls, begins: ArrayLike, ends: ArrayLike) -> SharedTime:
        """Pieces that end before they begin count as none."""
        from_ns, to_ns = np.asarray(begins, np.int64), np.asarray(ends, np.int64)
        known = to_ns > from_ns
        from_ns, to_ns = from_ns[known], to_ns[known]
        steps = np.concatenate((np.ones(from_ns.size, np.int64), -np.ones(to_ns.size, np.int64)))
        instants = np.concatenate((from_ns, to_ns))
        order = np.argsort(instants, kind="stable")
        instants, under_way = instants[order], np.cumsum(steps[order])
        lengths = np.diff(instants, prepend=instants[:1]).astype(np.float64)
        number = np.concatenate(([0], under_way[:-1]))[: instants.size]
        shares = np.divide(lengths, number, out=np.zeros(instants.size), where=number > 0)
        return cls(instants, np.cumsum(shares))

    def between(self, from_ns: ArrayLike, to_ns: ArrayLike) -> Floats:
        """Shared time of each of these intervals, of pieces that were under way in them; ns."""
        if not self.instants.size:
            return np.zeros(np.shape(from_ns))
        ends = (np.asarray(at, np.int64) - self.instants[0] for at in (from_ns, to_ns))
        places = (self.instants - self.instants[0]).astype(np.float64)
        low, high = (np.interp(at.astype(np.float64), places, self.until_ns) for at in ends)
        return np.asarray(high - low, np.float64)
