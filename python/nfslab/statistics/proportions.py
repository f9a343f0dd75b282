"""How exact a share is that was found by counting samples.

A share p of n independent samples has the standard error sqrt(p (1 - p) / n) (binomial). With
p at 0 or 1 that is 0, which no finite number of samples shows: at least one sample's share.
Samples that a timer takes are spread more evenly than independent ones: the error is an upper
limit, as long as what is sampled does not beat in the timer's time.

Whether counts were drawn with given shares is Pearson's chi-square test.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

NORMAL_95: Final = 1.959963984540054
"""Standard errors to either side of a 95 % interval."""


def share_error(share: float, samples: float) -> float:
    """Standard error of a share found in so many samples; 1 without any."""
    if samples <= 0:
        return 1.0
    inside = min(1.0, max(0.0, share))
    return max(math.sqrt(inside * (1 - inside) / samples), 1 / samples)


EXPECTED_LEAST: Final = 5.0
"""Of a cell of the test: smaller ones are put together (Cochran's rule)."""


def drawn_by_chance(counts: Sequence[int], shares: Sequence[float]) -> float | None:
    """Probability of counts so far from these shares, if they were drawn with them.

    Shares sum to 1. A count where the share is 0: probability 0. None: too few to tell.
    """
    total = sum(counts)
    if any(count and not share for count, share in zip(counts, shares, strict=True)):
        return 0.0
    cells: list[tuple[int, float]] = []
    rest_count, rest = 0, 0.0
    for count, share in zip(counts, shares, strict=True):
        if share * total >= EXPECTED_LEAST:
            cells.append((count, share * total))
        else:
            rest_count, rest = rest_count + count, rest + share * total
    if rest >= EXPECTED_LEAST:
        cells.append((rest_count, rest))
    elif cells and rest:
        # Too few for a cell of its own.
        count, expected = cells.pop()
        cells.append((count + rest_count, expected + rest))
    if len(cells) < 2:
        return None
    distance = sum((count - expected) ** 2 / expected for count, expected in cells)
    return chi_square_tail(distance, len(cells) - 1)


def chi_square_tail(distance: float, degrees: int) -> float:
    """Probability that a chi-square of so many degrees of freedom (whole, above 0) is larger.

    The finite sums for whole degrees (Abramowitz and Stegun 26.4.4, 26.4.5).
    """
    half = distance / 2
    if half <= 0:
        return 1.0
    odd = degrees % 2
    tail = math.erfc(math.sqrt(half)) if odd else 0.0
    powers = (number + odd / 2 for number in range(degrees // 2))
    terms = (math.exp(p * math.log(half) - half - math.lgamma(p + 1)) for p in powers)
    return min(1.0, tail + math.fsum(terms))
