"""What was observed on one side of many comparisons, and how two sides are paired.

A *group* is one comparison (one metric at one pair of points), a *block* the k-th
repetition of every point. Within a block both sides met the same state of the machine, so
their difference is free of what drifts between blocks: pairs are formed within blocks.

Repeated values of one side in one block (a run that was done twice) are averaged first:
they are no independent repetitions. Blocks present on one side only cannot be paired and
are counted. Values that are not finite cannot be used and are counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]

MAX_KEY = 2**62
"""(groups x range of block numbers) must stay below this, so that a pair is one integer."""


@dataclass(frozen=True, slots=True)
class Observations:
    """Values with the comparison (group) and block that each belongs to."""

    values: Floats
    groups: Integers
    blocks: Integers | None

    @classmethod
    def of(
        cls, values: ArrayLike, *, blocks: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Observations:
        """From anything array-like; without `groups` all belong to comparison 0.

        Raises `ValueError` for unequal lengths or blocks and groups that are not integers.
        """
        value = np.asarray(values, dtype=np.float64).ravel()
        group = np.zeros(value.size, dtype=np.int64) if groups is None else _integers(groups)
        block = None if blocks is None else _integers(blocks)
        if group.size != value.size or (block is not None and block.size != value.size):
            raise ValueError("values, blocks and groups must have the same length")
        return cls(value, group, block)

    def finite(self) -> Observations:
        """Only the values that can be computed with."""
        keep = np.isfinite(self.values)
        if np.all(keep):
            return self
        blocks = None if self.blocks is None else self.blocks[keep]
        return Observations(self.values[keep], self.groups[keep], blocks)

    def count(self, n_groups: int) -> Integers:
        """Values per group; `ValueError` when a group lies outside 0 to n_groups - 1."""
        if self.groups.size and (self.groups.min() < 0 or self.groups.max() >= n_groups):
            raise ValueError(f"groups must be 0 to {n_groups - 1}")
        return np.bincount(self.groups, minlength=n_groups)


@dataclass(frozen=True, slots=True)
class Cells:
    """One value per (group, block), sorted by its key; keys are shared by both sides."""

    keys: Integers
    groups: Integers
    values: Floats


@dataclass(frozen=True, slots=True)
class Pairs:
    """Both sides of every block that has both."""

    groups: Integers
    base: Floats
    new: Floats
    n_unpaired: Integers
    """Per group: blocks present on one side only."""


def cells(observed: Observations, first_block: int, n_blocks: int) -> Cells:
    """Averages within (group, block); without blocks every value is a cell of its own."""
    if observed.blocks is None:
        order = np.argsort(observed.groups, kind="stable")
        groups = observed.groups[order]
        return Cells(np.arange(groups.size), groups, observed.values[order])
    key = observed.groups * n_blocks + (observed.blocks - first_block)
    keys, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    values = np.empty(keys.size)
    values[inverse.ravel()] = observed.values
    if keys.size < key.size:  # some block has several: only then the mean can differ
        sums = np.bincount(inverse.ravel(), weights=observed.values, minlength=keys.size)
        values = np.where(counts == 1, values, sums / counts)
    return Cells(keys, keys // n_blocks, values)


def block_range(base: Observations, new: Observations, n_groups: int) -> tuple[int, int]:
    """(first block number, how many numbers up to the last) over both sides."""
    both = [side.blocks for side in (base, new) if side.blocks is not None and side.blocks.size]
    if not both:
        return 0, 1
    first = min(int(blocks.min()) for blocks in both)
    n_blocks = max(int(blocks.max()) for blocks in both) - first + 1
    if n_blocks * max(n_groups, 1) >= MAX_KEY:
        raise ValueError(f"the block numbers span {n_blocks}: too far for {n_groups} comparisons")
    return first, n_blocks


def pair(base: Cells, new: Cells, n_groups: int) -> Pairs:
    """The blocks that both sides have."""
    _, at_base, at_new = np.intersect1d(
        base.keys, new.keys, assume_unique=True, return_indices=True
    )
    groups = base.groups[at_base]
    both = np.bincount(groups, minlength=n_groups)
    all_cells = np.bincount(base.groups, minlength=n_groups) + np.bincount(
        new.groups, minlength=n_groups
    )
    return Pairs(groups, base.values[at_base], new.values[at_new], all_cells - 2 * both)


def moments(groups: Integers, values: Floats, n_groups: int) -> tuple[Integers, Floats, Floats]:
    """(n, mean, variance of the sample) per group; NaN where n is too small for it.

    The variance is taken about the mean in a second pass: no cancellation.
    """
    n = np.bincount(groups, minlength=n_groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(groups, weights=values, minlength=n_groups) / n
        squares = (values - mean[groups]) ** 2
        variance = np.bincount(groups, weights=squares, minlength=n_groups) / (n - 1)
    variance[n < 2] = np.nan
    return n, mean, variance


def _integers(numbers: ArrayLike) -> Integers:
    array = np.asarray(numbers).ravel()
    if array.size and array.dtype.kind not in "iu":
        raise ValueError("blocks and groups are integers")
    return array.astype(np.int64)
