"""Two modes among the repetitions of a point: runs that are fast, and runs that are slow.

A point that is at 100 in one run and at 130 in the next (a layout, a plan, a cache that is there or
not) has no centre: its median is one mode or the other by chance, and the interval around it holds
the true median less often than it says. The runs are split where the spread within both parts
(least squares, at least two runs each, on logarithms where all values are positive) is smallest;
two modes are said where so little is left within as in 1 % of normal samples at most, and the modes
are `APART` apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MIN_N: Final = 5
"""Two runs in one mode, three in the other; of four the least split is chance too often."""
APART: Final = 1.1
"""Ratio of the modes from which they are worth telling."""
_LIMITS: Final = {5: 0.0178, 6: 0.0324, 7: 0.0485, 8: 0.0636, 9: 0.0784}
"""1 % points of what is left within, of 400,000 normal samples each."""


def limit(n: int) -> float:
    """What may be left within both parts of `n` values, as a share of all their spread.

    From 10 on: 1 - 2 / pi of infinitely many, less what fits the simulated points (to 2 %).
    """
    return _LIMITS[n] if n in _LIMITS else 1 - 2 / math.pi - 0.861 / math.sqrt(n)


def split(values: Sequence[float]) -> tuple[float, NDArray[np.bool_]]:
    """(share of the spread that is left within, whether each value is in the higher part)."""
    given = np.asarray(values, dtype=np.float64)
    scaled = np.log(given) if np.all(given > 0) else given
    order = np.argsort(scaled, kind="stable")
    centred = scaled[order] - scaled.mean()
    n, total = given.size, float((centred**2).sum())
    lower = np.arange(2, n - 1)
    between = np.cumsum(centred)[lower - 1] ** 2 * n / (lower * (n - lower))
    best = int(np.argmax(between))
    higher = np.zeros(n, dtype=np.bool_)
    higher[order[lower[best] :]] = True
    return (1.0 - float(between[best]) / total if total > 0 else 1.0), higher


def two_modes(values: Sequence[float]) -> tuple[bool, ...] | None:
    """Whether each value belongs to the higher of two modes; None where two are not shown."""
    n = len(values)
    if n < MIN_N or not np.all(np.isfinite(values)):
        return None
    within, higher = split(values)
    given = np.asarray(values, dtype=np.float64)
    low, high = float(np.median(given[~higher])), float(np.median(given[higher]))
    apart = high > APART * low if low > 0 else high > low
    return tuple(higher.tolist()) if within <= limit(n) and apart else None
