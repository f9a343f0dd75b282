"""Blocks are added until an interval is narrow: how narrow it is, and at which level it is drawn.

The rule looks after each block: t · s / √n of the log ratio, with t at `SEQUENTIAL_ALPHA` over
the number of comparisons (Bonferroni; the intervals shown are Holm's, never wider). It ends where
exp(that) - 1 is at most what was asked for: the upper half of the interval, relative to the
ratio; the lower half is narrower.

An experiment ends where its blocks happen to be alike, so s comes out too small (Chow and Robbins
1965: the coverage is right only in the limit). From four blocks on, at most about twice as many
intervals miss as are meant to; drawn at half the level they hold. Simulated for normal, lognormal
and heavy tails, drift, and families of comparisons: docs/decisions/statistics.md.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from nfslab.statistics.comparison import ALPHA
from nfslab.statistics.distributions import critical_t_one
from nfslab.statistics.estimates import sign_flips_p
from nfslab.statistics.verdicts import MIN_RUNS_SEQUENTIAL

if TYPE_CHECKING:
    from nfslab.statistics.comparison import Comparison

SEQUENTIAL_ALPHA: Final = ALPHA / 2


def half_width(found: Comparison) -> float | None:
    """Upper half of the interval by the ratio, at the level of all the family; None: not known.

    Not known below four pairs, on the scale of differences, and where no value differs from
    another while an exact test of these pairs could show nothing.
    """
    if found.scale != "ratio" or found.n_pairs < MIN_RUNS_SEQUENTIAL:
        return None
    level = found.alpha / max(1, found.n_comparisons)
    if found.standard_error is None or found.degrees_of_freedom is None:
        return 0.0 if sign_flips_p(found.n_pairs) < level else None
    half = critical_t_one(level, found.degrees_of_freedom) * found.standard_error
    return math.expm1(half) if half < math.log(1e6) else math.inf


def blocks_needed(found: Comparison, until: float) -> int:
    """Blocks after which the interval would be that narrow if the spread stays; at least these."""
    width = half_width(found)
    if not width or math.isinf(width):
        return found.n_pairs
    return math.ceil(found.n_pairs * max(1.0, math.log1p(width) / math.log1p(until)) ** 2)
