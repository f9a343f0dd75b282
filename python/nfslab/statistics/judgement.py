"""From estimates to intervals and words: the family's correction, and what could be shown.

The word is read off the interval, and the interval is drawn at the level at which Holm's
method judged the comparison: the two cannot disagree. Where no spread was seen there is
an exact p-value but no standard error; the interval is then the single value if p allows a
difference to be declared, and there is none otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nfslab.statistics import verdicts
from nfslab.statistics.distributions import critical_t
from nfslab.statistics.estimates import none_for_nan
from nfslab.statistics.intervals import Interval
from nfslab.statistics.multiplicity import holm
from nfslab.statistics.power import detectable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nfslab.statistics.estimates import Estimates
    from nfslab.statistics.verdicts import Better

    Floats = NDArray[np.float64]


@dataclass
class Judged:
    """What a family of comparisons came to, one entry each."""

    verdict: list[str]
    change: list[float | None]
    """Ratio, or difference, by the scale of each."""
    interval: list[Interval | None]
    interval_unadjusted: list[Interval | None]
    p_adjusted: list[float | None]
    smallest_detectable: list[float | None]
    n_comparisons: list[int]
    """Comparisons with a test in the family of each; 0 where nothing could be tested."""


def judge(
    found: Estimates, directions: Sequence[Better | None], alpha: float, correct: bool
) -> Judged:
    """Judge all estimates as one family (`correct`), or each alone, at `alpha`."""
    p = found.p_value
    tested = ~np.isnan(p)
    alone = np.where(tested, alpha, np.nan)
    if correct:
        adjusted, level = holm(p, alpha)
    else:
        adjusted, level = p, alone
    low, high = _bounds(found, level)
    family = int(np.count_nonzero(tested))
    return Judged(
        verdict=_words(found, low, high, tested, directions),
        change=none_for_nan(_shown_scale(found, found.estimate)),
        interval=_intervals(found, low, high, level),
        interval_unadjusted=_intervals(found, *_bounds(found, alone), alone),
        p_adjusted=none_for_nan(adjusted),
        smallest_detectable=_smallest(found, level, adjusted, alpha),
        n_comparisons=[family] * tested.size if correct else tested.astype(np.int64).tolist(),
    )


def _bounds(found: Estimates, level: Floats) -> tuple[Floats, Floats]:
    """Interval on the scale of the test; NaN where there is none."""
    low, high = np.full(level.shape, np.nan), np.full(level.shape, np.nan)
    spread = found.standard_error > 0
    half = np.zeros(level.shape)
    half[spread] = (
        critical_t(level[spread], found.degrees_of_freedom[spread]) * found.standard_error[spread]
    )
    exact = (found.standard_error == 0) & (found.p_value < level)
    usable = spread | exact
    low[usable] = (found.estimate - half)[usable]
    high[usable] = (found.estimate + half)[usable]
    return low, high


def _shown_scale(found: Estimates, values: Floats) -> Floats:
    """Logarithms of ratios back to ratios; differences stay."""
    with np.errstate(over="ignore"):  # an interval may be unbounded: infinity says so
        return np.exp(values, where=found.on_ratio, out=values.copy())


def _intervals(found: Estimates, low: Floats, high: Floats, level: Floats) -> list[Interval | None]:
    columns = [
        _shown_scale(found, low).tolist(),
        _shown_scale(found, high).tolist(),
        (1.0 - level).tolist(),
        found.method,
    ]
    return [
        None if first != first else Interval(first, last, confidence, method)
        for first, last, confidence, method in zip(*columns, strict=True)
    ]


def _words(
    found: Estimates,
    low: Floats,
    high: Floats,
    tested: NDArray[np.bool_],
    directions: Sequence[Better | None],
) -> list[str]:
    n = np.minimum(found.n_base, found.n_new).tolist()
    words = []
    for i, (first, last, has_test) in enumerate(
        zip(low.tolist(), high.tolist(), tested.tolist(), strict=True)
    ):
        if not has_test:
            words.append(verdicts.unknown(n[i]))
        elif first != first:
            words.append(verdicts.INCONCLUSIVE)
        else:
            words.append(verdicts.word(first, last, 0.0, directions[i]))
    return words


def _smallest(
    found: Estimates, level: Floats, adjusted: Floats, alpha: float
) -> list[float | None]:
    """What 80 % power would have shown at the level at which the correction stopped."""
    undeclared = level[adjusted >= alpha]
    stopped = float(undeclared[0]) if undeclared.size else alpha
    error = np.where(found.standard_error > 0, found.standard_error, np.nan)
    size = detectable(error, found.degrees_of_freedom, np.full(level.shape, stopped))
    shown = _shown_scale(found, size)
    return none_for_nan(np.where(np.isfinite(shown), shown, np.nan))
