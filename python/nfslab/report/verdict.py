"""The verdict in plain words: what the primary metric says, in one or a few sentences.

The words are those of the comparisons (`nfslab.statistics.verdicts`): nothing is called
faster here that is not called faster there. Ratios are given as the range over the points
that a word is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.display.numbers import quantity, ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.report.model import ComparisonResult, PointResult
    from nfslab.results.outcomes import Outcomes
    from nfslab.results.records import AxisRecord

MAX_SENTENCES = 8
"""Levels that get a sentence of their own; the tables have all of them."""


def verdict_of(
    outcomes: Outcomes,
    points: Sequence[PointResult],
    comparisons: Mapping[str, list[ComparisonResult]],
    axis: AxisRecord | None,
    level: Any,
) -> str:
    """The verdict on the primary metric."""
    primary = outcomes.primary
    if primary is None:
        return "No run is ok: there is nothing to report but the failures."
    rows = comparisons.get(primary, [])
    if axis is None or not rows:
        return _single(primary, outcomes, points)
    sentences = []
    by_level: dict[str, list[ComparisonResult]] = {}
    for row in rows:
        by_level.setdefault(str(points[row.point].factors[axis.name]), []).append(row)
    for name, group in list(by_level.items())[:MAX_SENTENCES]:
        sentences.append(f"{_subject(axis, name)} {_outcome(group)}")
    if len(by_level) > MAX_SENTENCES:
        sentences.append(f"{len(by_level) - MAX_SENTENCES} more levels are in the table")
    return f"{primary} against {axis.name}={level}: {'; '.join(sentences)}."


def _subject(axis: AxisRecord, level: str) -> str:
    return f"{axis.name}={level}" if axis.numeric else level


def _outcome(rows: Sequence[ComparisonResult]) -> str:
    """Such as: faster at 4 of 5 points (1.18 to 1.31 times), no difference shown at 1"."""
    by_word: dict[str, list[ComparisonResult]] = {}
    for row in rows:
        by_word.setdefault(row.result.verdict, []).append(row)
    parts = []
    for word, group in sorted(by_word.items(), key=lambda item: -len(item[1])):
        where = ""
        if len(rows) > 1:
            where = (
                f" at all {len(rows)} points"
                if len(group) == len(rows)
                else (f" at {len(group)} of {len(rows)} points")
            )
        parts.append(f"{word}{where}{_range(group)}")
    return ", ".join(parts)


def _range(rows: Sequence[ComparisonResult]) -> str:
    """The ratios of these comparisons: one with its interval, several as a range."""
    ratios = [row.result.ratio for row in rows if row.result.ratio is not None]
    if not ratios:
        return ""
    if len(rows) == 1:
        interval = rows[0].result.interval
        if interval is None:
            return f" ({ratio(ratios[0])} times)"
        return f" ({ratio(ratios[0])} times, {ratio(interval.low)} to {ratio(interval.high)})"
    low, high = ratio(min(ratios)), ratio(max(ratios))
    return f" ({low} times)" if low == high else f" ({low} to {high} times)"


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
    more = f"; {len(found) - MAX_SENTENCES} more points" if len(found) > MAX_SENTENCES else ""
    return f"{primary} {'; '.join(parts)}{more}. Nothing was compared."
