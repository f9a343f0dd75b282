"""The same experiment measured again and again: which time its figure changed, and what else did.

Experiments belong together by their identity: the same file, whatever machine, kernel or nfslab
measured it. Figures are the medians of the primary metric at each point that all of them have.
Experiments with emulated runs are left out: theirs are no figures.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from nfslab.results.comparison import Difference, differences
from nfslab.results.emulation import emulated_runs
from nfslab.results.selection import Selection, point_label
from nfslab.statistics.regimes import EXPERIMENTS_LEAST, EXPERIMENTS_MOST, regimes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.results.outcomes import Outcomes


@dataclass(frozen=True, slots=True)
class HistoryChange:
    """A new level that begins with an experiment."""

    outcomes: Outcomes
    """The first of the new level."""
    before: Outcomes
    """The last of the level before."""
    experiments: tuple[int, int]
    """Of the levels before and after."""
    metric: str
    p_value: float
    ratio: float
    """After over before, of geometric means of the levels, at the point that changed most."""
    label: str
    """Of that point."""
    points: int
    differences: list[Difference]
    """What else differs between the two experiments."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "since": self.outcomes.folder.path.name,
            "before": self.before.folder.path.name,
            "experiments": list(self.experiments),
            "metric": self.metric,
            "p_value": self.p_value,
            "ratio": self.ratio,
            "point": self.label,
            "points": self.points,
            "differences": [asdict(one) for one in self.differences],
        }


def history_changes(experiments: Sequence[Outcomes]) -> list[HistoryChange]:
    """Changes in each series of equal experiments, by time; the newest `EXPERIMENTS_MOST` of it."""
    series: dict[tuple[str, str], list[Outcomes]] = {}
    for outcomes in sorted(experiments, key=lambda one: one.record.created_unix_ns):
        if outcomes.primary is not None and not emulated_runs(outcomes):
            series.setdefault((outcomes.record.identity, outcomes.primary), []).append(outcomes)
    return [
        change
        for (_, metric), members in series.items()
        if len(members) >= EXPERIMENTS_LEAST
        for change in _changes(members[-EXPERIMENTS_MOST:], metric)
    ]


def _changes(members: list[Outcomes], metric: str) -> list[HistoryChange]:
    medians = [_medians(outcomes, metric) for outcomes in members]
    common = [point for point in medians[0] if all(point in one for one in medians)]
    if not common:
        return []
    figures = [[one[point] for point in common] for one in medians]
    found = regimes(figures)
    edges = [0, *(change.at for change in found), len(members)]
    labels = {point.point_id: point_label(point) for point in members[0].points}
    made = []
    for number, change in enumerate(found):
        start, end = edges[number], edges[number + 2]
        levels = [figures[start : change.at], figures[change.at : end]]
        logs = [
            [sum(math.log(row[place]) for row in level) / len(level) for level in levels]
            for place in range(len(common))
        ]
        place = max(range(len(common)), key=lambda one: abs(logs[one][1] - logs[one][0]))
        before, after = members[change.at - 1], members[change.at]
        made.append(
            HistoryChange(
                outcomes=after,
                before=before,
                experiments=(len(levels[0]), len(levels[1])),
                metric=metric,
                p_value=change.p_value,
                ratio=math.exp(logs[place][1] - logs[place][0]),
                label=labels[common[place]],
                points=len(common),
                differences=_differences(before, after),
            )
        )
    return made


def _medians(outcomes: Outcomes, metric: str) -> dict[str, float]:
    """Point id -> median, where it is above zero."""
    medians = outcomes.medians(metric)
    return {
        point.point_id: value
        for point, value in zip(outcomes.points, medians, strict=True)
        if value is not None and value > 0
    }


def _differences(before: Outcomes, after: Outcomes) -> list[Difference]:
    """nfslab itself first: which commit measured; then options, kernel, versions."""
    own = [
        Difference(what, str(one), str(other))
        for what, one, other in (
            ("nfslab commit", before.record.nfslab_commit, after.record.nfslab_commit),
            ("nfslab version", before.record.nfslab_version, after.record.nfslab_version),
        )
        if one != other
    ]
    sides = [Selection(one, list(range(len(one.points)))) for one in (before, after)]
    return own + differences(*sides)[0]
