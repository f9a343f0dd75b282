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
from nfslab.results.outcomes import Outcomes
from nfslab.results.selection import Selection, point_label
from nfslab.statistics.regimes import EXPERIMENTS_LEAST, EXPERIMENTS_MOST, regimes

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


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


@dataclass(frozen=True, slots=True)
class Measured:
    """An experiment as its history needs it: without its runs, which may be very many."""

    path: Path
    identity: str
    begun_unix_ns: int
    metric: str
    """The primary one."""
    medians: dict[str, float]
    """Point id -> median, where it is above zero."""


def measured(outcomes: Outcomes) -> Measured | None:
    """None: it has no figures."""
    metric = outcomes.primary
    if metric is None or emulated_runs(outcomes):
        return None
    record = outcomes.record
    medians = {
        point.point_id: value
        for point, value in zip(outcomes.points, outcomes.medians(metric), strict=True)
        if value is not None and value > 0
    }
    return Measured(outcomes.folder.path, record.identity, record.created_unix_ns, metric, medians)


def history_changes(experiments: Iterable[Measured]) -> list[HistoryChange]:
    """Changes in each series of equal experiments, by time; the newest `EXPERIMENTS_MOST` of it."""
    series: dict[tuple[str, str], list[Measured]] = {}
    for one in sorted(experiments, key=lambda one: one.begun_unix_ns):
        series.setdefault((one.identity, one.metric), []).append(one)
    return [
        change
        for members in series.values()
        if len(members) >= EXPERIMENTS_LEAST
        for change in _changes(members[-EXPERIMENTS_MOST:])
    ]


def _changes(members: list[Measured]) -> list[HistoryChange]:
    medians = [one.medians for one in members]
    common = [point for point in medians[0] if all(point in one for one in medians)]
    if not common:
        return []
    figures = [[one[point] for point in common] for one in medians]
    found = regimes(figures)
    edges = [0, *(change.at for change in found), len(members)]
    made = []
    for number, change in enumerate(found):
        start, end = edges[number], edges[number + 2]
        levels = [figures[start : change.at], figures[change.at : end]]
        logs = [
            [sum(math.log(row[place]) for row in level) / len(level) for level in levels]
            for place in range(len(common))
        ]
        place = max(range(len(common)), key=lambda one: abs(logs[one][1] - logs[one][0]))
        before, after = (Outcomes.open(members[at].path) for at in (change.at - 1, change.at))
        labels = {point.point_id: point_label(point) for point in after.points}
        made.append(
            HistoryChange(
                outcomes=after,
                before=before,
                experiments=(len(levels[0]), len(levels[1])),
                metric=members[0].metric,
                p_value=change.p_value,
                ratio=math.exp(logs[place][1] - logs[place][0]),
                label=labels[common[place]],
                points=len(common),
                differences=_differences(before, after),
            )
        )
    return made


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
