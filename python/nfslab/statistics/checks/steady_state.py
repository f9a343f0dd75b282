"""Steady state: does throughput over time begin with a warm-up, or change later on?

Warm-up: MSER (White 1997) in its customary form on means of five samples (MSER-5; on single
samples when there are fewer than 100). It cuts off the beginning, at most half, whose
removal makes the standard error of the rest smallest. Noise alone makes it cut something
off, so a cut is reported as a warm-up only when the cut-off part lies further from the rest
than the rest's own noise explains *and* keeping it moves the mean by more than a tolerance.

Change in the rest: the cumulative sum of deviations over twenty parts of equal length,
judged by permuting the parts. It finds a slope as well as a sudden drop (a cache that is
full, a device that throttles), which a fitted line misses. Reported when it is significant
and larger than a tolerance: with enough samples the smallest change is significant.

How often both err is measured in docs/decisions/statistics.md. Limits: periodic dips
(checkpoints) count as steady; noise whose memory is longer than a twentieth of the run
looks like a change, and for a run of that length it is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nfslab.statistics.checks.check import Check
from nfslab.statistics.distributions import two_sided_p

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

NAME = "not_steady"
MIN_SAMPLES = 20
"""Below this, noise and warm-up cannot be told apart."""
BATCH = 5
MIN_BATCHES = 20
"""With fewer batches than this, MSER takes single samples."""
PARTS = 20
"""Parts of the rest: long enough to be nearly independent, enough to see a change."""
PARTS_LEAST = 8
"""Their spread is known to a quarter; with two of them no warm-up of a third is ever seen."""
PERMUTATIONS = 1999
PERMUTATION_SEED = 5
"""Fixed: the same series is always judged alike."""
WARM_UP_SIGNIFICANCE = 0.01
CHANGE_SIGNIFICANCE = 0.002
"""Stricter, because neighbouring parts are alike and the permutation takes them for free."""
BIAS_TOLERANCE = 0.02
"""A warm-up that moves the mean by less than this is not worth a warning."""
CHANGE_TOLERANCE = 0.05
"""Relative change in the rest of the run that is worth a warning."""
ROUNDING = 1e-9
"""Relative differences below this are arithmetic, not measurement."""


@dataclass(frozen=True, slots=True)
class Change:
    """The most likely moment at which the level of a series changed."""

    at: int
    """First sample after it."""
    relative: float
    """Mean after over mean before, minus 1."""
    p_value: float


def warm_up_length(rates: ArrayLike) -> int:
    """Samples to cut off the beginning by MSER-5, at most half of them; 0 for none.

    The cut is a proposal: whether it means anything is `check_steady_state`'s question.
    Raises `ValueError` for fewer than `MIN_SAMPLES`.
    """
    series = np.asarray(rates, dtype=np.float64).ravel()
    if series.size < MIN_SAMPLES:
        raise ValueError(f"{series.size} samples are too few: {MIN_SAMPLES} are needed")
    batch = BATCH if series.size >= BATCH * MIN_BATCHES else 1
    m = series.size // batch  # an incomplete batch at the end is left out
    means = series[: m * batch].reshape(m, batch).mean(axis=1)
    # Sums from the end: the statistic of every cut in linear time.
    centred = means - means.mean()
    left = np.arange(m, 0, -1)
    total = np.cumsum(centred[::-1])[::-1]
    squares = np.cumsum((centred**2)[::-1])[::-1]
    statistic = np.maximum(squares - total**2 / left, 0.0) / left**2
    return int(np.argmin(statistic[: m // 2 + 1])) * batch


def level_change(rates: ArrayLike) -> Change:
    """The most likely change of level within a series of at least 10 samples."""
    series = np.asarray(rates, dtype=np.float64).ravel()
    if series.size < MIN_SAMPLES // 2:
        raise ValueError(f"{series.size} samples are too few: {MIN_SAMPLES // 2} are needed")
    count = min(PARTS, series.size)
    bounds = np.linspace(0, series.size, count + 1).astype(np.int64)
    parts = np.add.reduceat(series, bounds[:-1]) / np.diff(bounds)
    mean = float(parts.mean())
    deviation = parts - mean
    sums = np.abs(np.cumsum(deviation)[:-1])
    k = int(np.argmax(sums)) + 1
    before, after = float(parts[:k].mean()), float(parts[k:].mean())
    if float(np.max(np.abs(deviation))) <= ROUNDING * abs(mean) or before == 0.0:
        return Change(int(bounds[k]), 0.0, 1.0)
    shuffled = np.abs(np.cumsum(deviation[_permutations(count)], axis=1)[:, :-1]).max(axis=1)
    beyond = int(np.count_nonzero(shuffled >= sums[k - 1] * (1 - ROUNDING)))
    return Change(int(bounds[k]), after / before - 1.0, (1 + beyond) / (1 + PERMUTATIONS))


def check_steady_state(rates: ArrayLike, interval_ns: int) -> Check:
    """Warm-up and later changes in a series of rates taken every `interval_ns`.

    `rates` covers the timed part from its start, complete intervals only. `values` holds
    `warm_up_ns` (0 for none), `mean_steady` (without the proposed cut) and `change`.
    """
    series = np.asarray(rates, dtype=np.float64).ravel()
    values: dict[str, Any] = {"samples": int(series.size), "interval_ns": int(interval_ns)}
    if series.size < MIN_SAMPLES:
        message = f"{series.size} samples over time; at least {MIN_SAMPLES} are needed"
        return Check(NAME, "unknown", message, values)
    if not np.all(np.isfinite(series)):
        return Check(NAME, "unknown", "the series holds values that are not finite", values)
    cut = warm_up_length(series)
    rest = series[cut:]
    mean_all, mean_rest = float(series.mean()), float(rest.mean())
    values |= {"mean_all": mean_all, "mean_steady": mean_rest}
    if mean_rest <= 0 or mean_all <= 0:
        return Check(NAME, "unknown", "nothing was done for most of the run", values)
    bias = mean_all / mean_rest - 1.0
    change = level_change(rest)
    warm_up = cut > 0 and abs(bias) > BIAS_TOLERANCE and _apart(series[:cut], rest)
    changed = change.p_value < CHANGE_SIGNIFICANCE and abs(change.relative) > CHANGE_TOLERANCE
    change_at_ns = (cut + change.at) * int(interval_ns)
    values |= {
        "steady": not changed,
        "cut_samples": cut,
        "warm_up_ns": cut * int(interval_ns) if warm_up else 0,
        "bias": bias,
        "change": change.relative,
        "change_p": change.p_value,
        "change_at_ns": change_at_ns,
    }
    found = []
    if warm_up:
        found.append(
            f"the first {cut * interval_ns / 1e9:.3g} s were a warm-up and move the mean "
            f"by {bias:+.1%}"
        )
    if changed:
        found.append(
            f"throughput does not stay level: {change.relative:+.1%} after "
            f"{change_at_ns / 1e9:.3g} s"
        )
    if found:
        return Check(NAME, "warning", "; ".join(found), values)
    return Check(NAME, "ok", "no warm-up and no change of level that matters", values)


@lru_cache(maxsize=PARTS)
def _permutations(count: int) -> NDArray[np.int64]:
    generator = np.random.default_rng([PERMUTATION_SEED, count])
    return generator.permuted(np.tile(np.arange(count), (PERMUTATIONS, 1)), axis=1)


def _apart(first: Floats, rest: Floats) -> bool:
    """Is the cut-off part further from the rest than the rest's own parts are from it?

    The rest is split into parts about as long as the cut-off one: their spread is the noise
    of a mean over that length, with whatever likeness neighbouring samples have. Of a long one
    they are shorter, so that there are some: means over less spread more, never less.
    """
    count = min(PARTS, max(PARTS_LEAST, rest.size // first.size))
    parts = np.array([part.mean() for part in np.array_split(rest, count)])
    spread = float(parts.std(ddof=1)) * np.sqrt(1 + 1 / count)
    mean = float(rest.mean())
    distance = abs(float(first.mean()) - mean)
    if spread <= ROUNDING * abs(mean):
        return distance > ROUNDING * abs(mean)
    return float(two_sided_p(distance / spread, count - 1)) < WARM_UP_SIGNIFICANCE
