"""Do instants come at equal intervals?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

LEAST: Final = 5
"""Instants: four equal intervals are no chance (see `REGULAR`)."""
REGULAR: Final = 0.08
"""Standard deviation of the intervals over their mean, at most. Of independent instants (whose
intervals are exponential) five are so regular in fewer than 1 case in 1,000 (tests)."""


def period_of(instants: ArrayLike) -> float | None:
    """Mean interval between these instants, in their unit; None: too few, or not regular."""
    at = np.sort(np.asarray(instants, dtype=np.float64))
    if at.size < LEAST:
        return None
    gaps = np.diff(at)
    mean = float(gaps.mean())
    return mean if mean > 0 and float(gaps.std(ddof=1)) <= REGULAR * mean else None
