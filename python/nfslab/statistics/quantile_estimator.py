"""Quantiles: the one estimator of this project, for raw samples and for histograms.

The quantile q of n values is the value of rank ceil(q n), counted from 1: the smallest value
v with at least q n values <= v ("inverted CDF", Hyndman and Fan's type 1, nearest rank). It
is always a value that was measured, it keeps integers, and it is what HdrHistogram and fio
report. The median of a few runs is the exception that everybody expects (the mean of the
two middle values when n is even): `median`, used by the point summaries.

q n is computed with the decimal that was written, not with its binary neighbour: 0.07 of
100 values is rank 7, though the float 0.07 lies a little above 7/100.

Every quantile carries its bounds: the raw value itself, or the edges of the bucket that
holds it. `low` and `high` say where the quantile of *these* samples lies; how far another
run's would lie is a question to several runs, not to one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

MAX_QUANTILES = 10_000
"""More quantiles than this are a distribution: draw its histogram."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """One quantile with the bounds of its error, in the unit of the samples."""

    q: float
    value: float | int
    """Raw samples: the sample. Histogram: the bucket's upper edge (never too small)."""
    low: float | int
    high: float | int
    n: int
    """Number of samples."""
    n_above: int
    """Samples of a higher rank: 0 means that this quantile is just the largest sample."""


@lru_cache(maxsize=1024)
def _exactly(q: float) -> Fraction:
    """The decimal number that was written, not its binary neighbour: 0.9 is 9/10."""
    return Fraction(repr(q))


def rank(q: float, n: int) -> int:
    """The rank (1 to n) of the quantile `q` among `n` values, in exact arithmetic."""
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"a quantile is 0 to 1, not {q}")
    if n < 1:
        raise ValueError("there is no quantile of no values")
    return max(1, math.ceil(_exactly(float(q)) * n))


def samples_needed(q: float) -> int:
    """How many samples there must be for a value above the quantile `q` to exist."""
    if not 0.0 <= q < 1.0:
        raise ValueError(f"a quantile below 1 is needed, not {q}")
    return math.floor(1 / (1 - Fraction(repr(float(q))))) + 1


def quantiles(samples: ArrayLike, qs: Sequence[float]) -> list[Quantile]:
    """Quantiles of raw samples (any order, one dimension), each a sample itself.

    Takes linear time. Raises `ValueError` for no samples and for NaN, which has no rank.
    """
    values = np.asarray(samples).ravel()
    if len(qs) > MAX_QUANTILES:
        raise ValueError(f"more than {MAX_QUANTILES} quantiles were asked for")
    if values.dtype.kind == "f" and np.any(np.isnan(values)):
        raise ValueError("NaN has no rank: count such samples apart")
    ranks = [rank(q, values.size) for q in qs]
    if not ranks:
        return []
    ordered = np.partition(values, sorted({r - 1 for r in ranks}))
    return [
        Quantile(float(q), v := ordered[r - 1].item(), v, v, values.size, values.size - r)
        for q, r in zip(qs, ranks, strict=True)
    ]


def histogram_quantiles(
    counts: ArrayLike, low: ArrayLike, high: ArrayLike, qs: Sequence[float]
) -> list[Quantile]:
    """Quantiles of a histogram: `counts[i]` samples lie in [low[i], high[i]], ascending.

    The value is the bucket's upper edge, as HdrHistogram reports it; the edges bound it.
    Raises `ValueError` for an empty histogram, negative counts or edges out of order.
    """
    numbers = np.asarray(counts)
    lows, highs = np.asarray(low), np.asarray(high)
    if not numbers.shape == lows.shape == highs.shape or numbers.ndim != 1:
        raise ValueError("counts, low and high must be vectors of one length")
    if numbers.dtype.kind not in "iu" or np.any(numbers < 0):
        raise ValueError("counts are whole numbers, not negative")
    if np.any(lows > highs) or np.any(np.diff(lows) <= 0):
        raise ValueError("buckets must ascend, each with low <= high")
    cumulative: NDArray[np.int64] = np.cumsum(numbers, dtype=np.int64)
    total = int(cumulative[-1]) if cumulative.size else 0
    found = []
    for q in qs:
        r = rank(q, total)
        i = int(np.searchsorted(cumulative, r, side="left"))
        upper = highs[i].item()
        found.append(Quantile(float(q), upper, lows[i].item(), upper, total, total - r))
    return found


@dataclass(frozen=True, slots=True)
class Buckets:
    """A histogram as arrays: `count[i]` samples lie in [low[i], high[i]], ascending."""

    low: NDArray[np.int64]
    high: NDArray[np.int64]
    count: NDArray[np.int64]

    @classmethod
    def none(cls) -> Buckets:
        """The histogram of no samples."""
        return cls(*(np.empty(0, np.int64) for _ in range(3)))

    @property
    def total(self) -> int:
        """Number of samples."""
        return int(self.count.sum())


def summed(parts: Sequence[Buckets]) -> Buckets:
    """Several histograms as one: what one histogram of all their samples would be.

    Raises `ValueError` when their buckets are not of one kind: a sum would be of no known error.
    """
    low, high, count = (
        np.concatenate([getattr(part, name) for part in parts] or [np.empty(0, np.int64)])
        for name in ("low", "high", "count")
    )
    lows, first, place = np.unique(low, return_index=True, return_inverse=True)
    highs = high[first]
    if np.any(highs[place] != high) or np.any(lows[1:] <= highs[:-1]):
        raise ValueError("the histograms have different buckets")
    counts = np.zeros(lows.size, np.int64)
    np.add.at(counts, place, count)
    return Buckets(lows, highs, counts)


def median(samples: ArrayLike) -> float:
    """The median of a few values: the mean of the two middle ones when n is even."""
    values = np.asarray(samples, dtype=np.float64).ravel()
    if values.size == 0:
        raise ValueError("there is no median of no values")
    return float(np.median(values))


FINEST_NINES = 6
NINE_STEPS = 8
"""Quantiles a nine, as HdrHistogram's plots have them."""


def quantile_grid() -> list[float]:
    """Quantiles from 0 to 1: even steps to 0.9, then `NINE_STEPS` a nine; 1 at the end."""
    even = [round(0.05 * k, 2) for k in range(19)]
    fine = {
        round(1 - 10 ** -(1 + k / NINE_STEPS), 9)
        for k in range(1, NINE_STEPS * (FINEST_NINES - 1) + 1)
    }
    exact = {round(1 - 10**-nines, 9) for nines in range(1, FINEST_NINES + 1)}
    return [*sorted({0.01, *even, *fine, *exact}), 1.0]
