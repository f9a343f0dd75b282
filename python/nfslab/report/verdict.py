"""The verdict in plain words: what the primary metric says, in one or a few sentences.

The words are those of the comparisons (`nfslab.statistics.verdicts`): nothing is called
faster here that is not called faster there. A point has one form: medians of both sides, the
ratio with its interval, the word, and what these runs could have shown. Estimates are never put
together to a range, which would read as an interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.display.numbers import quantity
from nfslab.results.groups import grouped
from nfslab.statistics.effect_text import effect, headline

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.report.model import Analysis, ComparisonResult, PointResult
    from nfslab.results.outcomes import Outcomes
    from nfslab.results.records import AxisRecord

MAX_SENTENCES = 8
"""Levels that get a sentence of their own; the tables have all of them."""
MAX_POINTS = 3
"""Points of a level that are told; of more only the one with the largest change."""


def conclusion(analysis: Analysis) -> list[str]:
    """What the terminal says at a run's end: emulation, unequal durability and unlike client hosts
    first, the verdict, why, what next."""
    from nfslab.findings.explanation import why

    found = why(analysis)
    lines = [
        analysis.emulated,
        analysis.durability_line,
        analysis.hosts_line,
        *analysis.verdict.splitlines(),
        found.outcome,
    ]
    lines += [*found.sentences, analysis.precision, found.confirm, analysis.next_step]
    return [line for line in lines if line]


def verdict_of(
    outcomes: Outcomes,
    points: Sequence[PointResult],
    comparisons: Mapping[str, list[ComparisonResult]],
    axis: AxisRecord | None,
    level: Any,
) -> str:
    """The verdict on the primary metric, a line for each level.

    Levels that are no numbers: the largest effect that is shown first.
    """
    primary = outcomes.primary
    if primary is None:
        return "No run is ok: there is nothing to report but the failures."
    rows = comparisons.get(primary, [])
    if axis is None or not rows:
        return _single(primary, outcomes, points)
    unit = outcomes.metrics[primary].unit
    sentences = [f"{primary} against {axis.name}={level}:"]
    by_level = grouped((str(points[row.point].factors[axis.name]), row) for row in rows)
    levels = list(by_level.items())
    if not axis.numeric:
        levels.sort(key=lambda item: -_shown_effect(item[1]))
    for name, group in levels[:MAX_SENTENCES]:
        said = _outcome(group, points, primary, unit)
        subject = f"{axis.name}={name}" if axis.numeric else name
        sentences.append(f"{subject} {said}.")
    if len(by_level) > MAX_SENTENCES:
        sentences.append(f"{len(by_level) - MAX_SENTENCES} more levels are in the table.")
    return " ".join(sentences[:2]) + "".join(f"\n{more}" for more in sentences[2:])


def _shown_effect(rows: Sequence[ComparisonResult]) -> float:
    """The largest that is shown at any of these points; 0: none is."""
    return max((abs(row.result.estimate or 0.0) for row in rows if row.result.shown), default=0.0)


def _outcome(
    rows: Sequence[ComparisonResult],
    points: Sequence[PointResult],
    primary: str,
    unit: str,
) -> str:
    """One point in the one form; of several what is shown in that form, and which are not."""

    def sides(row: ComparisonResult) -> str:
        known = (points[at].estimates.get(primary) for at in (row.base_point, row.point))
        return " → ".join(quantity(one.median, unit) if one else "no run" for one in known)

    if len(rows) == 1:
        said = f"{sides(rows[0])}: {headline(rows[0].result)}"
        return said + OTHER_WAY * _other_way(rows[0], points, primary)
    by_word = grouped((row.result.verdict, row) for row in rows)
    parts = []
    for word, group in sorted(
        by_word.items(), key=lambda item: (not item[1][0].result.shown, -len(item[1]))
    ):
        told = [_elsewhere(points[row.point], row.axis) for row in group]
        if group[0].result.shown:
            group.sort(key=lambda row: -abs(row.result.estimate or 0.0))
            told = [
                f"{_elsewhere(points[row.point], row.axis)} {sides(row)}, {effect(row.result)}"
                for row in group
            ]
        few = len(group) <= MAX_POINTS
        said = ", ".join(told if few else told[:1])
        if len(group) == len(rows) or not few:
            of = "all" if len(group) == len(rows) else f"{len(group)} of"
            largest = f"{'' if few else ', largest'}: {said}" if group[0].result.shown else ""
            said = f"{of} {len(rows)} configurations{largest}"
        said = f"{word} at {said}"
        parts.append(said)
    return "; ".join(parts)


OTHER_WAY: Final = "; the medians point the other way: some runs stand out"


def _other_way(row: ComparisonResult, points: Sequence[PointResult], primary: str) -> bool:
    """Do a few runs pull the ratio, one of means, to the other side of what the medians say?"""
    base, new = (points[at].estimates.get(primary) for at in (row.base_point, row.point))
    if base is None or new is None or not (base.outliers or new.outliers):
        return False
    if base.median is None or new.median is None:
        return False
    return (new.median - base.median) * (row.result.estimate or 0.0) < 0


def _elsewhere(point: PointResult, axis: str) -> str:
    """The point by the axes that are not compared: "clients=10"."""
    return ", ".join(f"{name}={level}" for name, level in point.factors.items() if name != axis)


def _single(primary: str, outcomes: Outcomes, points: Sequence[PointResult]) -> str:
    """Nothing to compare: the estimates themselves."""
    unit = outcomes.metrics[primary].unit
    found = [point for point in points if primary in point.estimates]
    parts = []
    for point in found[:MAX_SENTENCES]:
        estimate = point.estimates[primary]
        bounds = ""
        if estimate.interval is not None:
            low, high = estimate.interval.low, estimate.interval.high
            bounds = f", {quantity(low, '')} to {quantity(high, '')}"
        name = f"{point.label}: " if len(found) > 1 else ""
        parts.append(f"{name}{quantity(estimate.median, unit)} (n={estimate.n}{bounds})")
    left = len(found) - MAX_SENTENCES
    more = f"; {left} more configurations" if left > 0 else ""
    return f"{primary} {'; '.join(parts)}{more}. Nothing was compared."
