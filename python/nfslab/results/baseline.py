"""What a report compares by itself: the levels of one axis against its baseline level.

At equal levels of all other axes, paired by block. The axis is the first one that is no number
(placements, kernels, options), else the first; the baseline is its first level, unless stated.
All comparisons of one metric are one family for Holm's correction. The runner asks the same
comparisons whether they are narrow enough (`nfslab.results.precision`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nfslab.errors import UsageError
from nfslab.plugins import nearest
from nfslab.results.emulation import emulated_points, without_emulated
from nfslab.results.selection import same_level
from nfslab.statistics.comparison import ALPHA, compare_many
from nfslab.statistics.observations import Observations
from nfslab.statistics.sequential import SEQUENTIAL_ALPHA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nfslab.results.outcomes import Outcomes
    from nfslab.results.records import AxisRecord, ExperimentRecord
    from nfslab.statistics.comparison import Comparison


class Leveled(Protocol):
    """A point: of a record, or of a plan."""

    @property
    def factors(self) -> Mapping[str, Any]:
        """Axis -> level."""


def alpha_of(record: ExperimentRecord) -> float:
    """The level at which comparisons of this experiment are made."""
    return ALPHA if record.stopping is None else SEQUENTIAL_ALPHA


def choose_baseline(
    axes: Sequence[AxisRecord], stated: Mapping[str, Any] | None = None
) -> tuple[AxisRecord | None, Any, str]:
    """(axis, level, why) of what the other levels are compared with; None: nothing varies."""
    if stated:
        if len(stated) != 1:
            raise UsageError(
                "a baseline is one axis and one of its levels",
                fix="give it as AXIS=LEVEL, as in --baseline placement=local",
            )
        name, wanted = next(iter(stated.items()))
        axis = next((one for one in axes if one.name == name), None)
        if axis is None:
            guess = nearest(name, [one.name for one in axes])
            raise UsageError(
                f"there is no axis {name!r}",
                fix=f"did you mean {guess!r}?" if guess else "",
            )
        for level in axis.levels:
            if same_level(level, wanted):
                return axis, level, "stated"
        known = ", ".join(str(level) for level in axis.levels)
        raise UsageError(f"axis {name} has no level {wanted!r}", fix=f"it has: {known}")
    varied = [axis for axis in axes if len(axis.levels) > 1]
    for axis in varied:
        if not axis.numeric:
            return axis, axis.levels[0], f"first level of {axis.name}"
    if varied:
        return varied[0], varied[0].levels[0], f"first level of {varied[0].name}"
    return None, None, "nothing varies"


def baseline_pairs(points: Sequence[Leveled], axis: str, level: Any) -> list[tuple[int, int]]:
    """(baseline point, point) for every point that has a partner at the baseline level."""

    def others(factors: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(f"{k}={v!r}" for k, v in sorted(factors.items()) if k != axis)

    bases = {
        others(point.factors): index
        for index, point in enumerate(points)
        if point.factors.get(axis) == level
    }
    return [
        (bases[others(point.factors)], index)
        for index, point in enumerate(points)
        if point.factors.get(axis) != level and others(point.factors) in bases
    ]


def compare_pairs(
    outcomes: Outcomes, pairs: Sequence[tuple[int, int]], metrics: Sequence[str]
) -> dict[str, list[Comparison]]:
    """Metric -> its comparisons in the order of `pairs` (indices of points); {} without pairs.

    Points with emulated runs are compared with nothing (`nfslab.results.emulation`).
    """
    if not pairs:
        return {}
    order = np.argsort(outcomes.point_index, kind="stable")
    ends = np.cumsum(np.bincount(outcomes.point_index, minlength=len(outcomes.points)))
    runs_at = np.split(order, ends[:-1])
    sides = [[runs_at[pair[side]] for pair in pairs] for side in (0, 1)]
    emulated = emulated_points(outcomes)
    of_emulated = [not emulated.isdisjoint(pair) for pair in pairs]
    found = {}
    for name in metrics:
        values = outcomes.values(name)
        base, new = (_observe(values, outcomes.block, runs) for runs in sides)
        compared = compare_many(
            base,
            new,
            n_groups=len(pairs),
            better=outcomes.metrics[name].better,
            alpha=alpha_of(outcomes.record),
        )
        found[name] = without_emulated(compared, of_emulated)
    return found


def _observe(
    values: NDArray[np.float64], blocks: NDArray[np.int64], runs: list[NDArray[np.int64]]
) -> Observations:
    """Group k holds the values of `runs[k]`; a baseline's runs are in several groups."""
    groups = np.repeat(np.arange(len(runs)), [len(some) for some in runs])
    chosen = np.concatenate(runs)
    return Observations.of(values[chosen], blocks=blocks[chosen], groups=groups)
