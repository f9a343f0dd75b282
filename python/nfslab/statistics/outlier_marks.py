"""Outliers are pointed at, never removed.

A value stands out when its modified z-score (Iglewicz and Hoaglin, 1993: distance from the
median over the median absolute deviation) passes a limit. Their customary limit of 3.5 was
made for large samples: with five normal values it marks something in 21 samples of 100,
and Tukey's fences do in 33 (docs/decisions/statistics.md). So the limit here depends on n:
it is the simulated 95 % point of the largest score among n normal values. About one sample
in twenty without any outlier shows one; a sample from a skewed distribution more often.

Limits: n < 3 has no outliers. When more than half of the values are equal the median
absolute deviation is zero, and the mean absolute deviation takes its place, as its authors
propose. Being marked says that a value is far from the others, not that it is wrong.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nfslab.statistics.distributions import normal_critical

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHARE_OF_CLEAN_SAMPLES = 0.05
"""Share of normal samples in which at least one value is marked although none should be."""
MIN_N = 3
_LIMITS = {3: 21.75, 4: 6.89, 5: 7.96, 6: 5.53, 7: 5.88, 8: 4.91, 9: 5.06}
"""95 % points of the largest score, 400,000 normal samples each (relative error 1 %)."""
_MAD_TO_SIGMA = 0.6744897501960817
"""Median absolute deviation of the standard normal distribution."""
_MEAN_DEVIATION_TO_SIGMA = 0.7978845608028654
"""Mean absolute deviation of the standard normal distribution: sqrt(2 / pi)."""


@lru_cache(maxsize=1024)
def limit(n: int) -> float:
    """The score above which one of `n` values is marked.

    From n = 10 on: the limit for a known spread, widened for its estimation. The constants
    6.5 and 7 were fitted to simulated 95 % points for n = 10 to 100 (error below 2 %).
    """
    if n < MIN_N:
        return float("inf")
    if n in _LIMITS:
        return _LIMITS[n]
    each = 1.0 - (1.0 - SHARE_OF_CLEAN_SAMPLES) ** (1.0 / n)
    return normal_critical(each) * (1.0 + (6.5 if n % 2 == 0 else 7.0) / n)


def modified_z_scores(rows: Floats) -> Floats:
    """Signed scores, one row a sample; 0 where all values of a row are equal."""
    distance = rows - np.median(rows, axis=1, keepdims=True)
    size = np.abs(distance)
    spread = np.median(size, axis=1) / _MAD_TO_SIGMA
    mean_spread = size.mean(axis=1) / _MEAN_DEVIATION_TO_SIGMA
    scale = np.where(spread > 0, spread, mean_spread)[:, None]
    return np.divide(distance, scale, out=np.zeros_like(rows), where=scale > 0)
