"""A latency taken apart: two records of the same calls joined, and the shares of each stretch.

A call has one whole number of nanoseconds at each of several instants (taken by the client,
sent, received by the server, ...). The parts are the differences of neighbours: they sum to
the whole exactly, for each call and for any set of calls. A part below zero (two clocks that
are not one) stays what it is: it is counted and stays in every sum.

Shares are of the summed time, so that a long call weighs as much as it lasted. What the slow
calls wait for is another question than what most do: the largest part is looked up among the
calls at or above the quantile `SLOW` too. Everything is vectorised: two million calls take
seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from nfslab.statistics.quantile_estimator import quantiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    Integers = NDArray[np.int64]

SLOW = 0.99
"""The slowest calls are those at or above this quantile of the whole."""
READ_APART_NS = 1_000
"""Between an instant and the reading of a clock for it."""
LONGER = "of kinds that were longer at the server than their round trip"
"""Calls that no clock which is off explains."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Rows of two tables that belong together, and how many do not."""

    left: Integers
    right: Integers
    repeated: int
    """Left rows whose key is there more than once, on either side."""
    unmatched: int
    """Left rows whose key is not there on the right."""


def join_unique(left: ArrayLike, right: ArrayLike) -> Joined:
    """Row numbers of equal keys that are there exactly once on each side, by left row."""
    ours, theirs = np.asarray(left), np.asarray(right)
    keys, first, times = np.unique(theirs, return_index=True, return_counts=True)
    own_keys, own_place, own_times = np.unique(ours, return_inverse=True, return_counts=True)
    place = np.searchsorted(keys, own_keys)
    found = place < keys.size
    found[found] = keys[place[found]] == own_keys[found]
    at = np.minimum(place, max(keys.size - 1, 0))
    once = found & (own_times == 1)
    if keys.size:
        once &= times[at] == 1
    rows = np.flatnonzero(once[own_place])
    unmatched = int((~found[own_place]).sum())
    return Joined(
        left=rows,
        right=first[at[own_place[rows]]] if keys.size else rows,
        repeated=int(ours.size) - unmatched - int(rows.size),
        unmatched=unmatched,
    )


@dataclass(frozen=True, slots=True)
class PartsSummary:
    """The calls of one group; lists have one entry a part, in order. Nanoseconds."""

    calls: int
    whole_mean_ns: float
    whole_p50_ns: int
    whole_p99_ns: int
    mean_ns: list[float]
    share: list[float | None]
    """Of the summed time; they sum to 1. None where the sum is not above zero."""
    negative: list[int]
    """Calls whose part is below zero (they are in all sums)."""
    slow_calls: int
    """Calls at or above the quantile `SLOW` of the whole."""
    slow_share: list[float | None]
    """Shares among those."""

    @property
    def sum_ns(self) -> float:
        """All their time."""
        return self.whole_mean_ns * self.calls


def parts_of(instants: Sequence[ArrayLike]) -> Integers:
    """A row for each part, a column for each call, from instants in their order."""
    rows = np.stack([np.asarray(at, dtype=np.int64) for at in instants])
    found: Integers = rows[1:] - rows[:-1]
    return found


def below_zero(parts_ns: Integers, groups: ArrayLike, error_ns: int = 0) -> NDArray[np.bool_]:
    """Of each call: is its group's mean below zero, by more than it may be off?"""
    which = np.asarray(groups)
    sums, calls = np.bincount(which, parts_ns), np.bincount(which)
    found: NDArray[np.bool_] = (sums < -(error_ns + READ_APART_NS) * calls)[which]
    return found


def summarise_parts(parts: Integers, groups: ArrayLike, n_groups: int) -> list[PartsSummary | None]:
    """One summary a group (None where it has no call); `groups` is each call's group."""
    which = np.asarray(groups)
    order = np.argsort(which, kind="stable")
    bounds = np.searchsorted(which[order], np.arange(n_groups + 1))
    return [
        _summary(parts[:, order[low:high]]) if high > low else None
        for low, high in pairwise(bounds.tolist())
    ]


def _summary(parts: Integers) -> PartsSummary:
    whole = parts.sum(axis=0)
    middle, slow = (int(found.value) for found in quantiles(whole, [0.5, SLOW]))
    slowest = parts[:, whole >= slow]
    calls = int(whole.size)
    sums = parts.sum(axis=1)
    return PartsSummary(
        calls=calls,
        whole_mean_ns=int(sums.sum()) / calls,
        whole_p50_ns=middle,
        whole_p99_ns=slow,
        mean_ns=[int(total) / calls for total in sums],
        share=_shares(sums),
        negative=[int(count) for count in (parts < 0).sum(axis=1)],
        slow_calls=int(slowest.shape[1]),
        slow_share=_shares(slowest.sum(axis=1)),
    )


def _shares(sums: Integers) -> list[float | None]:
    whole = int(sums.sum())
    return [int(total) / whole if whole > 0 else None for total in sums]
