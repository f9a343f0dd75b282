"""Correction for many comparisons: Holm's method, and the intervals that agree with it.

Among 100 comparisons of equal things, five come out "different" at 5 % each. Holm (1979)
keeps the chance of *any* false difference in the family at alpha, whatever the dependence
between the comparisons, and is never weaker than Bonferroni: p-values are sorted, the i-th
smallest of m is compared with alpha / (m - i + 1), and the first failure ends it.

The level at which a comparison was judged is also the level of its interval, so that the
interval leaves out "no change" exactly when the difference is declared:

* a declared one: alpha / (m - i + 1), its own step;
* all others: alpha / (m - number declared), the step at which Holm stopped.

Each interval states its own confidence. That all of them are right at once is promised at
1 - alpha for those that are not declared (Guilbaud 2008), and not for the whole family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def holm(p_values: ArrayLike, alpha: float = 0.05) -> tuple[Floats, Floats]:
    """(adjusted p, level) of every comparison in one family, in the order given.

    An adjusted p below alpha means the difference is declared. `level` is the unadjusted
    alpha at which the comparison was judged. NaN marks a comparison without a test: it is
    not counted in the family and stays NaN. Raises `ValueError` for p outside [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64).ravel()
    if not 0.0 < alpha <= 0.5:
        raise ValueError(f"alpha must be above 0 and at most 0.5, not {alpha}")
    tested = np.flatnonzero(~np.isnan(p))
    if np.any((p[tested] < 0) | (p[tested] > 1)):
        raise ValueError("a p-value is 0 to 1")
    adjusted, level = np.full(p.shape, np.nan), np.full(p.shape, np.nan)
    m = tested.size
    if m == 0:
        return adjusted, level
    order = tested[np.argsort(p[tested], kind="stable")]
    factor = m - np.arange(m)
    stepped = np.maximum.accumulate(p[order] * factor)
    adjusted[order] = np.minimum(stepped, 1.0)
    declared = int(np.count_nonzero(stepped < alpha))
    last = factor[declared] if declared < m else 1
    level[order] = alpha / np.where(np.arange(m) < declared, factor, last)
    return adjusted, level
