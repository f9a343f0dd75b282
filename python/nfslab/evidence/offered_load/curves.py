"""Curves of offered load: what the runs of the workload `sfs` say together, as curves.

A curve is one combination of all axes but the one that sets the offered load. Its points are
medians over the counted runs, with the intervals of `nfslab.statistics`; peak, knee,
saturation, overload and the overall response time are those of `nfslab.statistics.load_curve`
on these medians. Little's law is looked at in each run (achieved load times mean response),
then its median is taken, so that it is compared with numbers of the same runs. What was asked of
the server (the arrivals of an open load, or the offered load if that was less) is the median of
what each run asked, too: where all runs are saturated, or none, their medians say the same.

Runs of an nfslab that did not keep arrivals have no `arrived_ops_per_s`: what they asked is the
offered load, and at low loads they may be called saturated for what never arrived.

A run that failed counts in nothing. Where all runs of a point failed, what they measured is
kept apart (`refused`), with the reasons: it is the generator's figure, or a wrong one, and never
the server's. What an axis of two parameters sets besides the load belongs to the load's level.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nfslab.display.numbers import counted, number, quantity
from nfslab.results.groups import grouped
from nfslab.results.selection import level_number
from nfslab.statistics.load_curve import LoadCurve, LoadPoint, load_curve, overloaded
from nfslab.statistics.summary import Summary, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nfslab.report.model import Analysis, PointResult, RunResult

WORKLOAD: Final = "sfs"
LOAD: Final = "workload.load"
ACHIEVED: Final = "achieved_ops_per_s"
ARRIVED: Final = "arrived_ops_per_s"
ANSWERED: Final = "answered"
MEAN: Final = "response_mean_ms"
RESPONSES: Final = {
    "mean": MEAN,
    "p50": "response_p50_ms",
    "p90": "response_p90_ms",
    "p99": "response_p99_ms",
    "p99.9": "response_p999_ms",
}
OUTSTANDING: Final = "outstanding_mean"
SATURATED: Final = "saturated"
MS_PER_S: Final = 1e3
_NUMBERS: Final = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Refused:
    """What runs that do not count had measured, median of those that got so far."""

    achieved_ops_per_s: float
    response_ms: dict[str, float]
    runs: int


@dataclass(slots=True)
class LoadResult:
    """One point of a curve."""

    point: int
    """Index into `Analysis.points`."""
    offered_ops_per_s: float
    achieved: Summary | None
    asked: Summary | None
    """Of the server, operations a second: `LoadPoint.asked_ops_per_s` of each run."""
    closed_operations: float | None
    """Of a closed load: answered in a window, median over the runs."""
    response: dict[str, Summary]
    """By the names of `RESPONSES`, ms."""
    outstanding: Summary | None
    rate_times_response: Summary | None
    saturated_runs: int
    runs: int
    """Counted ones."""
    planned: int
    failed: int
    reasons: list[str]
    """Why runs failed: one of each kind, with how many more there are."""
    refused: Refused | None
    is_saturated: bool = False
    is_overloaded: bool = False
    is_peak: bool = False
    is_knee: bool = False

    @property
    def valid(self) -> bool:
        """Is there a run that counts?"""
        return self.achieved is not None

    @property
    def verdict(self) -> str:
        """In words: saturated, overload, peak, knee; or why there is nothing."""
        if not self.valid:
            return "invalid" if self.failed else "no run"
        words = []
        if self.saturated_runs not in (0, self.runs):
            words.append(f"saturated in {self.saturated_runs} of {self.runs} runs")
        elif self.is_saturated:
            words.append("saturated")
        marks = {"overload": self.is_overloaded, "peak": self.is_peak, "knee": self.is_knee}
        words += [word for word, holds in marks.items() if holds]
        return ", ".join(words) or "not saturated"


@dataclass(slots=True)
class Curve:
    """One combination of the other axes; points by offered load."""

    label: str
    points: list[LoadResult]
    meaning: LoadCurve
    overall_by_block_ms: Summary | None = None
    """The overall response time of each repetition that has all of the curve's points."""

    @property
    def peak(self) -> LoadResult | None:
        """The point with the highest achieved load, if a peak was reached."""
        return None if self.meaning.peak is None else self.points[self.meaning.peak]

    @property
    def highest(self) -> LoadResult | None:
        """The point with the highest achieved load."""
        return None if self.meaning.highest is None else self.points[self.meaning.highest]

    @property
    def overall_ms(self) -> float | None:
        """Overall response time of the medians."""
        overall_s = self.meaning.overall_response_s
        return None if overall_s is None else overall_s * MS_PER_S


@dataclass(slots=True)
class OfferedLoad:
    """All curves of an experiment."""

    curves: list[Curve] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    """Axes that tell the curves apart."""
    without_load: list[str] = field(default_factory=list)
    """Points whose offered load is not known."""

    @property
    def offered(self) -> list[float]:
        """Every offered load, ascending."""
        return sorted({one.offered_ops_per_s for curve in self.curves for one in curve.points})


def offered_load(analysis: Analysis, only: Iterable[int] | None = None) -> OfferedLoad | None:
    """The curves of an experiment whose workload offers a load; None for any other.

    `only`: indices of the points that are asked for.
    """
    if analysis.workload != WORKLOAD:
        return None
    wanted = set(range(len(analysis.points))) if only is None else set(only)
    found = OfferedLoad(
        others=[
            axis.name
            for axis in analysis.axes
            if LOAD not in axis.parameters and len(axis.levels) > 1
        ]
    )
    runs = _runs_at(analysis)
    groups: dict[str, list[LoadResult]] = {}
    for point in analysis.points:
        if point.index not in wanted:
            continue
        offered = level_number(point.settings.get(LOAD, analysis.fixed.get(LOAD)))
        if offered is None:
            found.without_load.append(point.label)
            continue
        label = curve_label(analysis, point, found.others)
        groups.setdefault(label, []).append(
            _result(analysis, point, offered, runs.get(point.index, []))
        )
    found.curves = [_curve(label, results, runs) for label, results in groups.items()]
    return found


def curve_label(analysis: Analysis, point: PointResult, others: Sequence[str]) -> str:
    """ "threads 4 · mount async": the levels of the other axes."""
    numeric = {axis.name for axis in analysis.axes if axis.numeric}
    parts = [
        f"{name.replace('_', ' ')} {point.factors.get(name)}"
        if name in numeric
        else str(point.factors.get(name))
        for name in others
    ]
    return " · ".join(parts) or "all points"


def _runs_at(analysis: Analysis) -> dict[int, list[RunResult]]:
    """Newest attempts by point: those that count, and those that failed."""
    superseded = {failure.run_id for failure in analysis.failures if failure.superseded}
    found: dict[int, list[RunResult]] = {}
    for run in analysis.runs:
        is_current = run.counted or (run.status == "failed" and run.run_id not in superseded)
        if run.point is not None and is_current:
            found.setdefault(run.point, []).append(run)
    return found


def _result(
    analysis: Analysis, point: PointResult, offered: float, runs: Sequence[RunResult]
) -> LoadResult:
    counted = [run for run in runs if run.counted and ACHIEVED in run.metrics]
    failed = [run for run in runs if run.status == "failed"]
    asked = [_load_point(offered, run.metrics).asked_ops_per_s for run in counted]
    products = [
        run.metrics[ACHIEVED] * run.metrics[MEAN] / MS_PER_S
        for run in counted
        if MEAN in run.metrics
    ]
    estimates = point.estimates
    return LoadResult(
        point=point.index,
        offered_ops_per_s=offered,
        achieved=estimates.get(ACHIEVED),
        asked=_summary(asked),
        closed_operations=median(estimates.get(ANSWERED)),
        response={name: estimates[key] for name, key in RESPONSES.items() if key in estimates},
        outstanding=estimates.get(OUTSTANDING),
        rate_times_response=_summary(products),
        saturated_runs=sum(run.metrics.get(SATURATED, 0.0) > 0 for run in counted),
        runs=len(counted),
        planned=point.planned,
        failed=len(failed),
        reasons=_reasons(failed),
        refused=_refused(failed) if failed and not counted else None,
    )


def _reasons(failed: Sequence[RunResult]) -> list[str]:
    """First lines; texts that differ in their numbers only are one kind."""
    said = ((run.reason.splitlines() or ["no reason was recorded"])[0] for run in failed)
    kinds = grouped((_NUMBERS.sub("0", line), line) for line in said)
    return [
        lines[0] + (f" (and {counted(len(lines) - 1, 'run')} like it)" if len(lines) > 1 else "")
        for lines in kinds.values()
    ]


def _summary(values: Sequence[float]) -> Summary | None:
    return summarise(values, bootstrap_resamples=0) if values else None


def median(summary: Summary | None) -> float | None:
    """The median where there is one."""
    return None if summary is None else summary.median


def _refused(failed: Sequence[RunResult]) -> Refused | None:
    measured = [run.metrics for run in failed if ACHIEVED in run.metrics]
    achieved = median(_summary([metrics[ACHIEVED] for metrics in measured]))
    if achieved is None:
        return None
    responses = {
        name: _summary([metrics[key] for metrics in measured if key in metrics])
        for name, key in RESPONSES.items()
    }
    known = {name: value for name, one in responses.items() if (value := median(one)) is not None}
    return Refused(achieved, known, len(measured))


def _curve(label: str, results: list[LoadResult], runs: dict[int, list[RunResult]]) -> Curve:
    results.sort(key=lambda one: one.offered_ops_per_s)
    points = [
        _load_point(
            one.offered_ops_per_s,
            {
                ACHIEVED: median(one.achieved),
                ARRIVED: median(one.asked),
                ANSWERED: one.closed_operations,
                MEAN: median(one.response.get("mean")),
            },
        )
        for one in results
    ]
    meaning = load_curve(points)
    for place in meaning.saturated:
        results[place].is_saturated = True
    for place in overloaded(points):
        results[place].is_overloaded = True
    if meaning.peak is not None:
        results[meaning.peak].is_peak = True
    if meaning.knee is not None:
        results[meaning.knee].is_knee = True
    return Curve(label, results, meaning, _by_block(results, runs))


def _load_point(offered: float, metrics: Mapping[str, float | None]) -> LoadPoint:
    """Of a run's metrics, or of medians of them."""
    achieved, response_ms = metrics.get(ACHIEVED), metrics.get(MEAN)
    return LoadPoint(
        offered,
        achieved or 0.0,
        None if response_ms is None else response_ms / MS_PER_S,
        valid=achieved is not None,
        arrived_ops_per_s=metrics.get(ARRIVED),
        closed_operations=metrics.get(ANSWERED),
    )


def _by_block(results: Sequence[LoadResult], runs: dict[int, list[RunResult]]) -> Summary | None:
    """Overall response times of whole repetitions, ms."""
    valid = [one for one in results if one.valid]
    blocks: dict[int, list[LoadPoint]] = {}
    for one in valid:
        for run in runs.get(one.point, []):
            if run.counted and ACHIEVED in run.metrics:
                blocks.setdefault(run.block, []).append(
                    _load_point(one.offered_ops_per_s, run.metrics)
                )
    overall = [
        load_curve(points).overall_response_s
        for _, points in sorted(blocks.items())
        if len(points) == len(valid)
    ]
    return _summary([value * MS_PER_S for value in overall if value is not None])


def sentences(found: OfferedLoad) -> list[str]:
    """What each curve says: peak, knee, what does not count."""
    said = []
    for curve in found.curves:
        name = f"{curve.label}: " if len(found.curves) > 1 else ""
        peak = curve.highest
        if peak is None:
            said.append(f"{name}no point counts.")
            continue
        text = (
            f"{name}at most {_rate_text(peak.achieved)} operations a second "
            f"(offered {load_text(peak.offered_ops_per_s)}, mean response "
            f"{quantity(median(peak.response.get('mean')), 'ms')})"
        )
        valid = [one for one in curve.points if one.valid]
        if curve.peak is None:
            text += "; peak and knee not reached, as nothing is saturated: the server may do more"
        elif peak.is_saturated and peak is valid[0]:
            text += "; the least load that counts is saturated: the peak may lie below it"
        if any(one.is_overloaded for one in valid):
            last = valid[-1]
            text += (
                f"; overload brings it down to {_rate_text(last.achieved)} "
                f"at {load_text(last.offered_ops_per_s)} offered"
                if last.is_overloaded
                else "; overload behind it"
            )
        said.append(f"{text}.")
    return said


def overall_sentences(found: OfferedLoad) -> list[str]:
    """The overall response time of each curve."""
    return [
        f"{curve.label}: overall response time {quantity(curve.overall_ms, 'ms')}"
        for curve in found.curves
        if curve.overall_ms is not None
    ]


def load_text(offered_ops_per_s: float) -> str:
    """An offered load as it was asked for."""
    return f"{offered_ops_per_s:,.15g}"


def _rate_text(summary: Summary | None) -> str:
    return number(median(summary))


def uncounted(found: OfferedLoad) -> list[str]:
    """Points with runs that do not count, and why."""
    several = len(found.curves) > 1
    return [
        f"{f'{curve.label}, ' if several else ''}{load_text(one.offered_ops_per_s)} offered: "
        f"{one.failed} of {counted(one.planned, 'run')} failed: {'; '.join(one.reasons)}"
        for curve in found.curves
        for one in curve.points
        if one.failed
    ]


@dataclass(frozen=True, slots=True)
class PublishedPoint:
    """A published row beside a point of ours."""

    achieved_ops_per_s: float | None
    response_ms: float | None
    is_saturated: bool | None


def published_at(analysis: Analysis, found: OfferedLoad) -> dict[int, PublishedPoint]:
    """Point -> what was published of it, where the reference matches it with one row only."""
    offered = {one.point: one.offered_ops_per_s for c in found.curves for one in c.points}
    beside: dict[int, PublishedPoint] = {}
    for point, values in _reference_values(analysis).items():
        if point not in offered or len(values) != 1:
            continue
        achieved = values[0].get(ACHIEVED)
        saturated = None
        if achieved is not None:
            saturated = _load_point(offered[point], values[0]).is_saturated
        beside[point] = PublishedPoint(achieved, values[0].get(MEAN), saturated)
    return beside


def _reference_values(analysis: Analysis) -> dict[int, list[dict[str, float]]]:
    """Point -> the published values (by our metric, in our unit) of each row that it matches."""
    found: dict[int, list[dict[str, float]]] = {}
    for row in analysis.reference.rows if analysis.reference is not None else []:
        if row.point is not None and row.values:
            found.setdefault(row.point, []).append(row.values)
    return found


def agreement(found: OfferedLoad, beside: dict[int, PublishedPoint]) -> list[str]:
    """How far verdicts and order are those of the published table; empty without one."""
    pairs = [
        (one, there)
        for curve in found.curves
        for one in curve.points
        if one.valid and (there := beside.get(one.point)) is not None
    ]
    known = [(one.is_saturated, there.is_saturated) for one, there in pairs]
    known = [(ours, theirs) for ours, theirs in known if theirs is not None]
    if not known:
        return []
    same = sum(ours == theirs for ours, theirs in known)
    said = [
        f"Saturated or not: as published at {same} of {len(known)} points "
        f"(published: {sum(bool(theirs) for _, theirs in known)} saturated, measured: "
        f"{sum(ours for ours, _ in known)})."
    ]
    alike, compared = _same_order(pairs)
    if compared:
        said.append(
            "Which of two curves achieves more at the same offered load: as published in "
            f"{alike} of {compared} pairs."
        )
    return said


def _same_order(pairs: Sequence[tuple[LoadResult, PublishedPoint]]) -> tuple[int, int]:
    """(in the same order, all) pairs of points at one offered load; published ties are none."""
    alike = compared = 0
    for (one, there), (other, beside) in itertools.combinations(pairs, 2):
        ours, ours_other = median(one.achieved), median(other.achieved)
        theirs, theirs_other = there.achieved_ops_per_s, beside.achieved_ops_per_s
        if one.offered_ops_per_s != other.offered_ops_per_s or theirs == theirs_other:
            continue
        if ours is None or ours_other is None or theirs is None or theirs_other is None:
            continue
        compared += 1
        alike += (ours - ours_other) * (theirs - theirs_other) > 0
    return alike, compared
