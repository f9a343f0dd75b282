"""How exact a share is that was found by counting samples.

A share p of n independent samples has the standard error sqrt(p (1 - p) / n) (binomial). With
p at 0 or 1 that is 0, which no finite number of samples shows: at least one sample's share.
Samples that a timer takes are spread more evenly than independent ones: the error is an upper
limit, as long as what is sampled does not beat in the timer's time.
"""

from __future__ import annotations

import math
from typing import Final

NORMAL_95: Final = 1.959963984540054
"""Standard errors to either side of a 95 % interval."""


def share_error(share: float, samples: float) -> float:
    """Standard error of a share found in so many samples; 1 without any."""
    if samples <= 0:
        return 1.0
    inside = min(1.0, max(0.0, share))
    return max(math.sqrt(inside * (1 - inside) / samples), 1 / samples)
