"""The estimate behind a comparison: size, standard error, degrees of freedom, p-value.

One array element a comparison. The kind of each is decided from its data alone: on which
scale (all values positive: logarithms), paired or not (at least three common blocks), or
without any test (fewer than three values on a side). See `comparison` for the reasons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from nfslab.statistics.distributions import two_sided_p
from nfslab.statistics.observations import Observations, block_range, cells, moments, pair
from nfslab.statistics.verdicts import MIN_RUNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nfslab.statistics.observations import Cells, Pairs

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

PAIRED_LOG = "paired t on logarithms"
PAIRED = "paired t on differences"
WELCH_LOG = "Welch's t on logarithms"
WELCH = "Welch's t on values"
SIGN_FLIPS = "exact sign flips"
PERMUTATION = "exact permutation"
NO_TEST = "none"
ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Relative to the largest value: a spread below this is rounding, not noise."""


@dataclass
class Counts:
    """What went into each comparison."""

    n_base: Integers
    """Independent repetitions: blocks (without blocks: values) with a finite value."""
    n_new: Integers
    n_pairs: Integers
    n_unpaired: Integers
    n_repeated: Integers
    n_not_finite: Integers


@dataclass
class Effects:
    """Size and uncertainty on the scale of the test; NaN where there is none."""

    estimate: Floats
    standard_error: Floats
    degrees_of_freedom: Floats
    p_value: Floats
    base: Floats
    new: Floats
    paired: Flags
    flat: Flags
    """No spread at all was seen: the p-value is that of an exact test."""


@dataclass
class Estimates(Counts, Effects):
    """Many estimates, one element a comparison; `base` and `new` are on the values' scale."""

    on_ratio: Flags
    method: list[str]
    notes: list[tuple[str, ...]]

    def plain(self) -> dict[str, list[Any]]:
        """The arrays as lists of Python values, None instead of NaN."""
        columns: dict[str, list[Any]] = {}
        for item in fields(self):
            column = getattr(self, item.name)
            if not isinstance(column, list):
                column = none_for_nan(column) if column.dtype.kind == "f" else column.tolist()
            columns[item.name] = column
        return columns


def none_for_nan(column: Floats) -> list[float | None]:
    """A list in which None stands for NaN."""
    return [None if number != number else number for number in column.tolist()]


def estimate(
    base: Observations, new: Observations, n_groups: int, *, ratios: bool = True
) -> Estimates:
    """Estimates of new against base for groups 0 to n_groups - 1 (`ValueError` otherwise).

    `ratios` False: differences everywhere, for values that are to sum up.
    """
    given = base.count(n_groups) + new.count(n_groups)
    base, new = base.finite(), new.finite()
    finite = base.count(n_groups) + new.count(n_groups)
    not_positive = np.zeros(n_groups, dtype=np.int64)
    for side in (base, new):
        not_positive += np.bincount(side.groups[side.values <= 0], minlength=n_groups)
    on_ratio = (not_positive == 0) & ratios
    blocked = base.blocks is not None and new.blocks is not None
    if not blocked:
        base = Observations(base.values, base.groups, None)
        new = Observations(new.values, new.groups, None)
    first_block, n_blocks = block_range(base, new, n_groups)
    base_cells = cells(_scaled(base, on_ratio), first_block, n_blocks)
    new_cells = cells(_scaled(new, on_ratio), first_block, n_blocks)
    pairs = pair(base_cells, new_cells, n_groups) if blocked else None
    none = np.zeros(n_groups, dtype=np.int64)
    n_base = np.bincount(base_cells.groups, minlength=n_groups)
    n_new = np.bincount(new_cells.groups, minlength=n_groups)
    counts = Counts(
        n_base=n_base,
        n_new=n_new,
        n_pairs=none if pairs is None else np.bincount(pairs.groups, minlength=n_groups),
        n_unpaired=none if pairs is None else pairs.n_unpaired,
        n_repeated=finite - n_base - n_new,
        n_not_finite=given - finite,
    )
    effects = _effects(base_cells, new_cells, pairs, on_ratio)
    _judge_flat(effects, counts)
    method, notes = (
        _methods(on_ratio, effects),
        _notes(counts, not_positive, finite, blocked, effects),
    )
    for means in (effects.base, effects.new):
        np.exp(means, where=on_ratio, out=means)
    return Estimates(**vars(counts), **vars(effects), on_ratio=on_ratio, method=method, notes=notes)


def _scaled(side: Observations, on_ratio: Flags) -> Observations:
    as_log = on_ratio[side.groups]
    values = np.log(side.values, where=as_log, out=side.values.copy())
    return Observations(values, side.groups, side.blocks)


def _effects(base: Cells, new: Cells, pairs: Pairs | None, on_ratio: Flags) -> Effects:
    """Welch's figures for every comparison, the paired ones where there are three pairs."""
    n_groups = on_ratio.size
    n_base, mean_base, variance_base = moments(base.groups, base.values, n_groups)
    n_new, mean_new, variance_new = moments(new.groups, new.values, n_groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        part_base, part_new = variance_base / n_base, variance_new / n_new
        error = np.sqrt(part_base + part_new)
        # Welch-Satterthwaite; relative parts, so that tiny variances do not underflow.
        share = part_base / (part_base + part_new)
        df = 1.0 / (share**2 / (n_base - 1) + (1.0 - share) ** 2 / (n_new - 1))
    change = mean_new - mean_base
    # A logarithm carries its value's relative rounding as an absolute error: at least 1.
    largest = np.where(on_ratio, 1.0, 0.0)
    for side in (base, new):
        np.maximum.at(largest, side.groups, np.abs(side.values))
    paired = np.zeros(n_groups, dtype=np.bool_)
    if pairs is not None:
        n_pairs, mean_pairs, variance = moments(pairs.groups, pairs.new - pairs.base, n_groups)
        paired = n_pairs >= MIN_RUNS
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.where(paired, np.sqrt(variance / n_pairs), error)
        change = np.where(paired, mean_pairs, change)
        df = np.where(paired, n_pairs - 1, df)
        mean_base = np.where(paired, moments(pairs.groups, pairs.base, n_groups)[1], mean_base)
        mean_new = np.where(paired, moments(pairs.groups, pairs.new, n_groups)[1], mean_new)
    error[~paired & (np.minimum(n_base, n_new) < MIN_RUNS)] = np.nan
    # Below rounding there is no noise to judge by: exactly zero, so that it is seen as such.
    error[error <= ROUNDING * largest] = 0.0
    change[(error == 0.0) & (np.abs(change) <= ROUNDING * largest)] = 0.0
    testable = error > 0
    df = np.where(testable, np.maximum(df, 1.0), np.nan)
    p_value = np.full(n_groups, np.nan)
    with np.errstate(over="ignore"):
        t = change[testable] / error[testable]
    p_value[testable] = two_sided_p(t, df[testable])
    return Effects(change, error, df, p_value, mean_base, mean_new, paired, error == 0.0)


def _judge_flat(effects: Effects, counts: Counts) -> None:
    """Fill in the exact p-values where no spread was seen."""
    for i in np.flatnonzero(effects.flat).tolist():
        if effects.estimate[i] == 0.0:
            p = 1.0
        elif effects.paired[i]:
            p = sign_flips_p(int(counts.n_pairs[i]))
        else:
            p = permutation_p(int(counts.n_base[i]), int(counts.n_new[i]))
        effects.p_value[i] = p


def sign_flips_p(n_pairs: int) -> float:
    """The smallest two-sided p of the exact sign-flip test of pairs."""
    return 2.0 ** (1 - n_pairs)


def permutation_p(n_base: int, n_new: int) -> float:
    """The smallest two-sided p of an exact permutation test of two sets."""
    smaller, total = min(n_base, n_new), n_base + n_new
    if smaller > 50:
        return 0.0  # C(102, 51) is 1e30
    return min(1.0, 2.0 / math.comb(total, smaller))


def _methods(on_ratio: Flags, effects: Effects) -> list[str]:
    code = np.where(effects.paired, np.where(on_ratio, 0, 1), np.where(on_ratio, 2, 3))
    code = np.where(effects.flat, np.where(effects.paired, 4, 5), code)
    code = np.where(np.isnan(effects.p_value), 6, code)
    names = (PAIRED_LOG, PAIRED, WELCH_LOG, WELCH, SIGN_FLIPS, PERMUTATION, NO_TEST)
    return [names[number] for number in code.tolist()]


def _notes(
    counts: Counts, not_positive: Integers, finite: Integers, blocked: bool, effects: Effects
) -> list[tuple[str, ...]]:
    """Sentences about what is odd, for the few comparisons where something is."""
    notes: list[tuple[str, ...]] = [()] * len(finite)
    unmatched = blocked & ~effects.paired & ~np.isnan(effects.p_value)
    odd = effects.flat | unmatched | (not_positive > 0)
    odd |= (counts.n_not_finite > 0) | (counts.n_repeated > 0) | (counts.n_unpaired > 0)
    for i in np.flatnonzero(odd).tolist():
        found = []
        if counts.n_not_finite[i]:
            found.append(f"{counts.n_not_finite[i]} values are not finite and left out")
        if not_positive[i]:
            found.append(
                f"{not_positive[i]} of {finite[i]} values are zero or negative: "
                "a ratio has no meaning, the difference is compared"
            )
        if counts.n_repeated[i]:
            found.append(f"{counts.n_repeated[i]} repeated values were averaged in their block")
        if unmatched[i]:
            found.append(
                f"only {counts.n_pairs[i]} blocks have both sides: compared without pairs, "
                "so drift between blocks counts as noise"
            )
        elif counts.n_unpaired[i]:
            found.append(f"{counts.n_unpaired[i]} blocks have one side only and are left out")
        if effects.flat[i]:
            same = "no value differs" if effects.estimate[i] == 0 else "all differ by the same"
            found.append(f"{same}: without any spread, only an exact test can judge")
        notes[i] = tuple(found)
    return notes
