"""Base against new: ratio with interval, test, plain word. For one pair or ten thousand.

Which test (docs/decisions/statistics.md has the simulations behind it):

* points of one experiment (`compare_blocked`): Student's t on the differences of the
  logarithms within blocks. Block drift cancels, the level holds for normal, lognormal and
  heavy-tailed noise from two pairs on, where rank and permutation tests cannot reach 5 %
  before six pairs;
* two experiments (`compare_unpaired`), or fewer than two common blocks: Welch's t on the
  logarithms; said in `method`;
* values that are zero or negative have no ratio: the same tests on the values themselves,
  `scale` is then "difference";
* differences without any spread (counters, coarse units): t is undefined, the exact
  sign-flip (unpaired: permutation) probability takes its place;
* one value on a side: `significance unknown (n=1)`.

The ratio is new / base of geometric means: above 1 is more, whatever "better" is. Many
comparisons at once are corrected by Holm's method, and the interval is widened to the level
at which its comparison was judged, so that it always agrees with the word. The 95 %
interval of the comparison alone stays beside it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nfslab.statistics.estimates import Estimates, estimate
from nfslab.statistics.intervals import Interval
from nfslab.statistics.judgement import judge
from nfslab.statistics.observations import Observations
from nfslab.statistics.plain import plain_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from nfslab.statistics.verdicts import Better

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison of new with base; None where the data do not allow a figure."""

    verdict: str
    """One of `verdicts.WORDS`."""
    better: Better | None
    scale: Literal["ratio", "difference"]
    method: str
    ratio: float | None
    """new / base; None on the scale of differences."""
    difference: float | None
    """new - base in the metric's unit; None on the scale of ratios."""
    interval: Interval | None
    """Of the ratio or the difference, at the level at which `verdict` was found."""
    interval_unadjusted: Interval | None
    """The same at 1 - alpha for this comparison alone."""
    p_value: float | None
    p_adjusted: float | None
    n_comparisons: int
    """Tests in the family that `p_adjusted` and `interval` answer for; 0 without a test."""
    alpha: float
    base: float | None
    """Geometric (differences: arithmetic) mean of the values that were compared."""
    new: float | None
    n_base: int
    n_new: int
    n_pairs: int
    n_unpaired: int
    """Blocks present on one side only; not used by a paired test."""
    n_repeated: int
    """Values beyond the first of a block, averaged with it."""
    n_not_finite: int
    smallest_detectable: float | None
    """What 80 % power would have shown: a ratio above 1 (or its inverse), or a difference."""
    estimate: float | None
    """On the scale of the test: log of the ratio, or the difference."""
    standard_error: float | None
    degrees_of_freedom: float | None
    notes: tuple[str, ...]

    @property
    def shown(self) -> bool:
        """Whether a difference was shown."""
        return self.verdict in ("faster", "slower", "higher", "lower")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return plain_values(self, self.__slots__)


def compare_blocked(
    base_blocks: ArrayLike,
    base_values: ArrayLike,
    new_blocks: ArrayLike,
    new_values: ArrayLike,
    *,
    better: Better | None,
    alpha: float = ALPHA,
) -> Comparison:
    """Two points of one experiment in randomised blocks; blocks are integers."""
    base = Observations.of(base_values, blocks=base_blocks)
    new = Observations.of(new_values, blocks=new_blocks)
    return compare_many(base, new, n_groups=1, better=better, alpha=alpha)[0]


def compare_unpaired(
    base_values: ArrayLike,
    new_values: ArrayLike,
    *,
    better: Better | None,
    alpha: float = ALPHA,
) -> Comparison:
    """Two sets of independent repetitions, such as two separate experiments."""
    base, new = Observations.of(base_values), Observations.of(new_values)
    return compare_many(base, new, n_groups=1, better=better, alpha=alpha)[0]


def compare_published(base: float, new: float, *, better: Better | None) -> Comparison:
    """Two published figures without repetitions: their ratio, and that no more is known."""
    return compare_unpaired([base], [new], better=better)


def compare_many(
    base: Observations,
    new: Observations,
    *,
    n_groups: int,
    better: Better | Sequence[Better | None] | None,
    alpha: float = ALPHA,
    correct: bool = True,
) -> list[Comparison]:
    """Comparison k is of the values with group k on both sides (0 to n_groups - 1).

    Paired within blocks when both sides have blocks, else unpaired. All comparisons are one
    family for Holm's correction; `correct=False` judges each alone (use it only for figures
    that nobody picks the best of). `better` is for all, or one entry for each.
    Raises `ValueError` for groups out of range and lengths that do not match.
    """
    directions = _directions(better, n_groups)
    return _build(estimate(base, new, n_groups), directions, alpha, correct)


def correct_for_many(comparisons: Sequence[Comparison], alpha: float = ALPHA) -> list[Comparison]:
    """Comparisons made one by one, judged again as one family (Holm)."""
    directions = [comparison.better for comparison in comparisons]
    return _build(_estimates_of(comparisons), directions, alpha, True)


def _directions(
    better: Better | Sequence[Better | None] | None, n_groups: int
) -> list[Better | None]:
    directions: list[Better | None]
    if better is None or better == "higher" or better == "lower":
        directions = [better] * n_groups
    elif isinstance(better, str):
        raise ValueError(f'better is "higher", "lower" or None, not {better!r}')
    else:
        directions = list(better)
    if len(directions) != n_groups:
        raise ValueError(f"{len(directions)} directions were given for {n_groups} comparisons")
    if not set(directions) <= {"higher", "lower", None}:
        raise ValueError('better is "higher", "lower" or None')
    return directions


def _estimates_of(comparisons: Sequence[Comparison]) -> Estimates:
    def floats(name: str) -> NDArray[np.float64]:
        values = [getattr(comparison, name) for comparison in comparisons]
        return np.array([math.nan if v is None else v for v in values], dtype=np.float64)

    def counts(name: str) -> NDArray[np.int64]:
        return np.array([getattr(c, name) for c in comparisons], dtype=np.int64)

    return Estimates(
        on_ratio=np.array([c.scale == "ratio" for c in comparisons], dtype=np.bool_),
        method=[c.method for c in comparisons],
        notes=[c.notes for c in comparisons],
        n_base=counts("n_base"),
        n_new=counts("n_new"),
        n_pairs=counts("n_pairs"),
        n_unpaired=counts("n_unpaired"),
        n_repeated=counts("n_repeated"),
        n_not_finite=counts("n_not_finite"),
        estimate=floats("estimate"),
        standard_error=floats("standard_error"),
        degrees_of_freedom=floats("degrees_of_freedom"),
        p_value=floats("p_value"),
        base=floats("base"),
        new=floats("new"),
    )


def _build(
    found: Estimates, directions: Sequence[Better | None], alpha: float, correct: bool
) -> list[Comparison]:
    judged = judge(found, directions, alpha, correct)
    columns = found.plain()
    comparisons = []
    for i, better in enumerate(directions):
        on_ratio = columns["on_ratio"][i]
        change = judged.change[i]
        comparisons.append(
            Comparison(
                verdict=judged.verdict[i],
                better=better,
                scale="ratio" if on_ratio else "difference",
                method=found.method[i],
                ratio=change if on_ratio else None,
                difference=None if on_ratio else change,
                interval=judged.interval[i],
                interval_unadjusted=judged.interval_unadjusted[i],
                p_value=columns["p_value"][i],
                p_adjusted=judged.p_adjusted[i],
                n_comparisons=judged.n_comparisons[i],
                alpha=alpha,
                base=columns["base"][i],
                new=columns["new"][i],
                n_base=columns["n_base"][i],
                n_new=columns["n_new"][i],
                n_pairs=columns["n_pairs"][i],
                n_unpaired=columns["n_unpaired"][i],
                n_repeated=columns["n_repeated"][i],
                n_not_finite=columns["n_not_finite"][i],
                smallest_detectable=judged.smallest_detectable[i],
                estimate=columns["estimate"][i],
                standard_error=columns["standard_error"][i],
                degrees_of_freedom=columns["degrees_of_freedom"][i],
                notes=found.notes[i],
            )
        )
    return comparisons
