"""Percentile bootstrap intervals of the mean and the median, for many points at once.

The interval that benchmark reports usually show. Its weakness with few repetitions is
large and measured: at a stated 95 % it covers the mean in 82 % of the cases with n = 5 and
75 % with n = 3 (docs/decisions/statistics.md). It is given because it is expected, and
beside the intervals of `intervals`, which keep what they state.

Bias correction (BCa) does not mend this at small n: the resamples of five values simply
do not spread as far as the truth does.

The resamples depend on (n, seed, number of resamples) only: the same point gives the same
interval whatever else is in the report, and points with the same n share one matrix. The
mean of all resamples of all points is then one matrix product.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

METHOD = "percentile bootstrap"
RESAMPLES = 2000
"""Enough for the percentiles 2.5 and 97.5: their own error is then 0.35 percentage points."""
MAX_VALUES = 2_000_000
"""Doubles that a block of work may hold (16 MB): points are taken in blocks of that size."""
MAX_N = 1000
"""Above this n the bootstrap is left out: Student's t is exact enough, and it would be slow."""


def bootstrap_intervals(
    rows: Floats, confidence: float, seed: int, resamples: int = RESAMPLES
) -> tuple[Floats, Floats]:
    """Intervals of the mean and of the median of every row: two arrays of shape (rows, 2).

    Raises `ValueError` for fewer than 2 or more than `MAX_N` columns.
    """
    count, n = rows.shape
    if not 2 <= n <= MAX_N:
        raise ValueError(f"the bootstrap takes 2 to {MAX_N} values, not {n}")
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    means, medians = np.empty((count, 2)), np.empty((count, 2))
    ordered = np.sort(rows, axis=1)
    weights, middle = _resampling(n, seed, resamples)
    step = max(1, MAX_VALUES // resamples)
    for start in range(0, count, step):
        block = ordered[start : start + step]
        # Means relative to the smallest value: no cancellation when all are nearly alike.
        base = block[:, :1]
        spread = (block - base) @ weights.T
        means[start : start + step] = base + np.quantile(spread, tails, axis=1).T
        both = (block[:, middle[0]] + block[:, middle[1]]) / 2
        medians[start : start + step] = np.quantile(both, tails, axis=1).T
    return means, medians


@lru_cache(maxsize=8)
def _resampling(n: int, seed: int, resamples: int) -> tuple[Floats, NDArray[np.int64]]:
    """Weights of every resample (resamples, n), and the ranks of its two middle values."""
    generator = np.random.default_rng([seed, n])
    weights = np.empty((resamples, n))
    middle = np.empty((2, resamples), dtype=np.int64)
    step = max(1, MAX_VALUES // n)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = np.sort(generator.integers(0, n, (size, n)), axis=1)
        flat = (drawn + n * np.arange(size)[:, None]).ravel()
        counts = np.bincount(flat, minlength=size * n).reshape(size, n)
        weights[start : start + size] = counts / n
        middle[0, start : start + size] = drawn[:, (n - 1) // 2]
        middle[1, start : start + size] = drawn[:, n // 2]
    return weights, middle
