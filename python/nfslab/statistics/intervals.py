"""Confidence intervals of one point: for its median, for its mean.

Few repetitions are the rule (3 to 10), so the choice was made by simulated coverage, not by
habit (docs/decisions/statistics.md has the table):

* mean: Student's t;
* median, n >= 6: order statistics, interpolated after Hettmansperger and Sheather (1986).
  No distribution is assumed. Two adjacent exact intervals, whose coverage is known from
  the binomial distribution, are joined so that the stated confidence is met;
* median, n < 6: no interval between order statistics reaches 95 % (n = 5: 93.75 %), so
  Student's t on the logarithms is used, which is the median of a skewed but log-symmetric
  quantity; on the values themselves when one of them is zero or negative.

Percentile bootstrap intervals are in `bootstrap`: the customary ones, and too narrow here.
All functions take a matrix (one point a row, all with the same n) so that a report over
thousands of points is one call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nfslab.statistics.distributions import critical_t_one, normal_critical

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

METHOD_T = "Student's t"
METHOD_T_LOG = "Student's t on logarithms"
METHOD_ORDER = "order statistics (Hettmansperger-Sheather)"
MAX_EXACT_BINOMIAL = 1000
"""Above this n the ranks come from the normal approximation (their error is below 0.1)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval, with how it was made."""

    low: float
    high: float
    confidence: float
    """Of this interval taken alone, such as 0.95."""
    method: str

    def contains(self, value: float) -> bool:
        """Whether the value lies in the closed interval."""
        return self.low <= value <= self.high

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; None for a bound at infinity, which JSON cannot hold."""
        return {
            "low": self.low if math.isfinite(self.low) else None,
            "high": self.high if math.isfinite(self.high) else None,
            "confidence": self.confidence,
            "method": self.method,
        }


def t_interval(rows: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Student's t interval of the mean of every row (n >= 2 columns)."""
    n = rows.shape[1]
    centre = rows.mean(axis=1)
    half = critical_t_one(1.0 - confidence, n - 1) * rows.std(axis=1, ddof=1) / math.sqrt(n)
    return centre - half, centre + half


def median_interval(rows: Floats, confidence: float) -> tuple[Floats, Floats, list[str]]:
    """The interval of the median of every row (n >= 2 columns), and its method."""
    n = rows.shape[1]
    ranks = order_ranks(n, confidence)
    if ranks is not None:
        k, weight = ranks
        ordered = np.sort(rows, axis=1)
        low = (1 - weight) * ordered[:, k - 1] + weight * ordered[:, k]
        high = (1 - weight) * ordered[:, n - k] + weight * ordered[:, n - k - 1]
        return low, high, [METHOD_ORDER] * len(rows)
    positive = np.all(rows > 0, axis=1)
    logs = np.log(rows, where=positive[:, None], out=np.zeros_like(rows))
    low, high = t_interval(rows, confidence)
    log_low, log_high = t_interval(logs, confidence)
    with np.errstate(over="ignore"):  # a spread of hundreds of powers: infinite, and said so
        low = np.where(positive, np.exp(log_low), low)
        high = np.where(positive, np.exp(log_high), high)
    # exp(log(x)) is not x to the last bit: rows of equal values keep their value.
    equal = rows.min(axis=1) == rows.max(axis=1)
    low = np.where(equal, rows[:, 0], low)
    high = np.where(equal, rows[:, 0], high)
    return low, high, [METHOD_T_LOG if p else METHOD_T for p in positive.tolist()]


@lru_cache(maxsize=1024)
def order_ranks(n: int, confidence: float) -> tuple[int, float] | None:
    """(k, weight): the interval from between x_(k) and x_(k+1) to its mirror image.

    None when even the smallest and the largest value do not reach the confidence.
    """
    if order_coverage(n, 1) < confidence:
        return None
    k = _largest_rank(n, confidence)
    wider, narrower = order_coverage(n, k), order_coverage(n, k + 1)
    if wider <= narrower or k >= n // 2:
        return k, 0.0
    part = (wider - confidence) / (wider - narrower)
    weight = (n - k) * part / (k + (n - 2 * k) * part)
    return k, min(1.0, weight)


def _largest_rank(n: int, confidence: float) -> int:
    """The largest k for which x_(k) to x_(n+1-k) still reaches the confidence."""
    k = 1
    if n > MAX_EXACT_BINOMIAL:
        middle = (n + 1) / 2 - normal_critical(1.0 - confidence) * math.sqrt(n) / 2
        k = max(1, math.floor(middle) - 2)
        while k + 1 <= n // 2 and order_coverage(n, k + 1) >= confidence:
            k += 1
        return k
    ways, below = n, 1  # C(n, k) and the sum of C(n, i) for i < k
    while k + 1 <= n // 2:
        below += ways
        if 1.0 - 2.0 * (below / (1 << n)) < confidence:
            break
        k += 1
        ways = ways * (n - k + 1) // k
    return k


def order_coverage(n: int, k: int) -> float:
    """P(x_(k) <= median <= x_(n+1-k)) = 1 - 2 P(Binomial(n, 1/2) < k)."""
    if k < 1:
        return 1.0
    if n > MAX_EXACT_BINOMIAL:
        return math.erf((n / 2 - k + 0.5) / math.sqrt(n / 2.0))
    below = sum(math.comb(n, i) for i in range(k))
    return 1.0 - 2.0 * (below / (1 << n))
