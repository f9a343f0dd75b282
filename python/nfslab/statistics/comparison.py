"""Base against new: ratio with interval, test, plain word. For one pair or ten thousand.

Which test (docs/decisions/statistics.md has the simulations behind it):

* points of one experiment, in blocks: Student's t on the differences of the
  logarithms within blocks. Block drift cancels, the level holds for normal, lognormal and
  heavy-tailed noise from three pairs on, where rank and permutation tests cannot reach 5 %
  before six pairs;
* two experiments, or fewer than three common blocks: Welch's t on the
  logarithms; said in `method`;
* values that are zero or negative have no ratio: the same tests on the values themselves,
  `scale` is then "difference";
* differences without any spread (counters, coarse units): t is undefined, the exact
  sign-flip (unpaired: permutation) probability takes its place;
* one or two values on a side: `significance unknown (n=2)`, no interval.

The ratio is new / base of geometric means: above 1 is more, whatever "better" is. Many
comparisons at once are corrected by Holm's method, and the interval is widened to the level
at which its comparison was judged, so that it always agrees with the word. The 95 %
interval of the comparison alone stays beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from nfslab.statistics.estimates import estimate
from nfslab.statistics.intervals import Interval
from nfslab.statistics.judgement import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.statistics.observations import Observations
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
        plain: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, Interval):
                value = value.as_dict()
            plain[name] = list(value) if isinstance(value, tuple) else value
        return plain


def compare_many(
    base: Observations,
    new: Observations,
    *,
    n_groups: int,
    better: Better | Sequence[Better | None] | None,
    alpha: float = ALPHA,
    correct: bool = True,
    ratios: bool = True,
) -> list[Comparison]:
    """Comparison k is of the values with group k on both sides (0 to n_groups - 1).

    Paired within blocks when both sides have blocks, else unpaired. All comparisons are one
    family for Holm's correction; `correct=False` judges each alone (use it only for figures
    that nobody picks the best of). `better` is for all, or one entry for each. `ratios` False:
    differences, whatever the values' signs (parts of a sum).
    Raises `ValueError` for groups out of range and lengths that do not match.
    """
    directions = _directions(better, n_groups)
    found = estimate(base, new, n_groups, ratios=ratios)
    columns = found.plain() | vars(judge(found, directions, alpha, correct))
    change, on_ratio = columns["change"], columns["on_ratio"]
    names = columns.keys() & set(Comparison.__slots__)
    return [
        Comparison(
            better=directions[i],
            alpha=alpha,
            scale="ratio" if ratio else "difference",
            ratio=change[i] if ratio else None,
            difference=None if ratio else change[i],
            **{name: columns[name][i] for name in names},
        )
        for i, ratio in enumerate(on_ratio)
    ]


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
