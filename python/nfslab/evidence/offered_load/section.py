"""The section "Offered load": figures of the curves, their tables, what they say.

Medians, intervals and verdicts are those of `curves`. Intervals of few repetitions can be many
times as long as any value: the range of a figure goes to `INTERVAL_REACH` times the largest value.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.display.cells import count, interval, quantity, share, text
from nfslab.display.figures import Axis, Figure, Lines, Panel, Rule, Series, View
from nfslab.display.numbers import ABSENT, number
from nfslab.display.sections import Cell, Column, Section, Table, headings, row_of
from nfslab.evidence.offered_load.curves import (
    RESPONSES,
    agreement,
    load_text,
    median,
    offered_load,
    overall_sentences,
    published_at,
    sentences,
    uncounted,
)
from nfslab.evidence.offered_load.operations import PUT_TOGETHER, read_operations
from nfslab.evidence.offered_load.operations import RESPONSES as OPERATION_RESPONSES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from nfslab.display.sections import Shown
    from nfslab.evidence.offered_load.curves import (
        Curve,
        LoadResult,
        OfferedLoad,
        PublishedPoint,
    )
    from nfslab.evidence.offered_load.operations import OperationResult, Operations
    from nfslab.report.model import Analysis
    from nfslab.statistics.summary import Summary

CURVES_DRAWN: Final = 24
INTERVAL_REACH: Final = 1.5
ALL: Final = "all operations"
EXPLAINED: Final = (
    "Saturated: less than 98 % of the offered load was achieved, or of what arrived of it (open "
    "load) if that was less; of N operations of a closed load, 2/sqrt(N) less may be chance. Peak: "
    "the highest achieved load. Knee: the largest ratio of achieved load to mean response time. "
    "Neither is reached where nothing is saturated. Overload: saturated, more is offered than at "
    "the peak, and less than 98 % of the peak is achieved. Responses count from the planned "
    "instant of an operation (open load) or from its sending (closed). Runs that failed are in no "
    "curve and no estimate: "
    "what they measured may be the load generator's limit."
)


def load_section(
    analysis: Analysis,
    title: str,
    only: Collection[int] | None = None,
    *,
    in_short: bool = False,
) -> Section | None:
    """The section of this experiment (`only`: of these points); None where there is none.

    `in_short`: for a terminal, the points and the operations at the highest of them.
    """
    found = offered_load(analysis, only)
    if found is None or not found.curves:
        return None
    operations = read_operations(analysis, only)
    beside = published_at(analysis, found)
    problems = [*uncounted(found), *operations.problems]
    problems += [f"{label}: its offered load is not known" for label in found.without_load]
    if in_short:
        said = [*sentences(found), *overall_sentences(found)]
        tables = [points_table(found), *peak_tables(found, operations)]
        return Section(title, sentences=said, tables=tables, notes=[EXPLAINED], problems=problems)
    return Section(
        title,
        anchor="offered-load-section",
        intro=EXPLAINED,
        sentences=[*sentences(found), *overall_sentences(found)],
        tables=[
            points_table(found),
            overall_table(found),
            matrix_table(found, beside),
            *peak_tables(found, operations),
            *operation_tables(found, operations),
        ],
        figures=figures(found, beside, operations),
        notes=_beside(analysis, found, beside),
        problems=problems,
    )


def _beside(analysis: Analysis, found: OfferedLoad, beside: dict[int, PublishedPoint]) -> list[str]:
    if not beside or analysis.reference is None:
        return []
    said = agreement(found, beside)
    said = said or ["The published table has no achieved load beside these points."]
    return [*said, f"Published: {analysis.reference.title} ({analysis.reference.source})."]


def points_table(found: OfferedLoad) -> Table:
    """One row a point, with what Little's law says of it."""
    several = len(found.curves) > 1
    columns = [Column("curve", numeric=False)] if several else []
    columns += [Column("offered"), Column("achieved"), Column("interval")]
    columns += [Column(name, hint="response time") for name in RESPONSES]
    columns += [
        Column("in flight", hint="operations in the system, mean over the measured window"),
        Column("rate × response", hint="Little's law: has to be about what is in flight"),
        Column("runs"),
        Column("verdict", numeric=False),
    ]
    rows = []
    for curve in found.curves:
        for one in curve.points:
            rows.append([text(curve.label)] * several + _point_cells(one))
    return Table(
        title="At every point",
        columns=columns,
        rows=rows,
        note="Medians over the runs that count, with the 95 % interval of the median. "
        "In brackets: what failed runs had measured, in no estimate.",
    )


def _point_cells(one: LoadResult) -> list[Cell]:
    spread = one.achieved.interval if one.achieved else None
    cells = [quantity(one.offered_ops_per_s, "1/s")]
    refused = one.refused
    if one.achieved is None and refused is not None:
        hint = "what invalid runs had measured"
        cells += [_refused(refused.achieved_ops_per_s, "", hint), text(None)]
        cells += [_refused(refused.response_ms.get(name), " ms", hint) for name in RESPONSES]
    else:
        cells += [
            _median(one.achieved, "1/s"),
            interval(spread.low, spread.high, "1/s") if spread else text(None),
        ]
        cells += [_median(one.response.get(name), "ms") for name in RESPONSES]
    runs = f"{one.runs} of {one.planned}" if one.runs != one.planned else str(one.runs)
    return [
        *cells,
        _median(one.outstanding, "1"),
        _median(one.rate_times_response, "1"),
        Cell(runs, one.runs),
        Cell(one.verdict, tone="" if one.valid else "severe", hint="; ".join(one.reasons)),
    ]


def _refused(value: float | None, unit: str, hint: str) -> Cell:
    return Cell(ABSENT if value is None else f"({number(value)}{unit})", "", "faint", hint)


def _median(summary: Summary | None, unit: str) -> Cell:
    return quantity(median(summary), unit)


def overall_table(found: OfferedLoad) -> Table:
    """One row a curve: peak, knee, overall response time."""
    return Table.of("Each curve", found.curves, [
        (Column("curve", numeric=False), lambda curve: text(curve.label)),
        ([Column("peak", hint="highest achieved load"), Column("offered there"),
          Column("mean response there")], _at_peak),
        (Column("knee", hint="achieved load where it over the mean response is largest"),
         lambda curve: _reached(curve, curve.meaning.knee)),
        (Column("overall response time"), lambda curve: quantity(curve.overall_ms, "ms")),
        (Column("min to max", hint="of whole repetitions"), _least_to_most),
        (Column("points that count"), _valid),
        (Column("saturated"), lambda curve: count(sum(p.is_saturated for p in curve.points))),
        (Column("overload"), lambda curve: count(sum(p.is_overloaded for p in curve.points))),
    ],
        note="Overall response time: the area under the curve of mean response against achieved "
        "load, over the highest achieved load, as SPEC SFS has it; below the least load the curve "
        "is continued with that point's response. It ends at the highest achieved load.",
    )  # fmt: skip


def _reached(curve: Curve, place: int | None) -> Cell:
    if place is None:
        return text("not reached")
    return _median(curve.points[place].achieved, "1/s")


def _at_peak(curve: Curve) -> list[Cell]:
    peak = curve.peak
    return [
        _reached(curve, curve.meaning.peak),
        quantity(peak.offered_ops_per_s if peak else None, "1/s"),
        _median(peak.response.get("mean") if peak else None, "ms"),
    ]


def _least_to_most(curve: Curve) -> Cell:
    spread = curve.overall_by_block_ms
    return interval(spread.minimum, spread.maximum, "ms") if spread else text(None)


def _valid(curve: Curve) -> Cell:
    valid = sum(one.valid for one in curve.points)
    return Cell(f"{valid} of {len(curve.points)}", valid)


def matrix_table(found: OfferedLoad, beside: dict[int, PublishedPoint]) -> Table:
    """The published form: a row a curve, columns by offered load; published rows below ours."""
    loads = found.offered
    columns = [Column(" · ".join(found.others) or "points", numeric=False)]
    columns += [Column("whose", numeric=False)] * bool(beside)
    for load in loads:
        columns += [
            Column(f"{load_text(load)} offered: achieved", hint="operations a second, median"),
            Column("response", hint="mean response time, median over runs"),
        ]
    rows = []
    for curve in found.curves:
        label = text(curve.label)
        by_load: dict[float, LoadResult] = {}
        for one in curve.points:
            by_load.setdefault(one.offered_ops_per_s, one)
        ours: list[Cell] = []
        theirs: list[Cell] = []
        for load in loads:
            here = by_load.get(load)
            ours += _pair(here)
            there = beside.get(here.point) if here is not None else None
            theirs += [
                quantity(there.achieved_ops_per_s if there else None, ""),
                quantity(there.response_ms if there else None, "ms"),
            ]
        rows.append([label, *[text("measured")] * bool(beside), *ours])
        if any(one.point in beside for one in curve.points):
            rows.append([label, text("published", "faint"), *theirs])
    any_refused = any(one.refused is not None for curve in found.curves for one in curve.points)
    return Table(
        title="Achieved load and response time by offered load",
        columns=columns,
        rows=rows,
        note="In brackets: invalid." if any_refused else "",
    )


def _pair(one: LoadResult | None) -> list[Cell]:
    if one is None:
        return [text(None), text(None)]
    if one.achieved is None:
        refused = one.refused
        hint = "; ".join(one.reasons) or one.verdict
        values: tuple[float | None, float | None] = (None, None)
        if refused is not None:
            values = (refused.achieved_ops_per_s, refused.response_ms.get("mean"))
        return [_refused(values[0], "", hint), _refused(values[1], " ms", hint)]
    return [_median(one.achieved, ""), _median(one.response.get("mean"), "ms")]


def peak_tables(found: OfferedLoad, operations: Operations) -> list[Table]:
    """Every operation at each curve's peak."""
    rows = [
        [
            text(curve.label),
            quantity(curve.highest.offered_ops_per_s, "1/s"),
            *row_of(OPERATION, row),
        ]
        for curve in found.curves
        if curve.highest is not None
        for row in operations.of_point.get(curve.highest.point, [])
    ]
    columns = [Column("curve", numeric=False), Column("offered"), *headings(OPERATION)]
    title = "Operations at each curve's highest achieved load"
    return [Table(title, columns, rows, PUT_TOGETHER)] if rows else []


def operation_tables(found: OfferedLoad, operations: Operations) -> list[Table]:
    """A table a curve: every operation at every point; none where the peak's table has all."""
    if all(len(curve.points) == 1 for curve in found.curves):
        return []
    made = []
    for curve in found.curves:
        rows = [
            [quantity(one.offered_ops_per_s, "1/s"), *row_of(OPERATION, row)]
            for one in curve.points
            for row in operations.of_point.get(one.point, [])
        ]
        if rows:
            title = f"Operations at every point: {curve.label}"
            columns = [Column("offered"), *headings(OPERATION)]
            made.append(Table(title, columns, rows, open=False))
    if made and operations.left_out:
        note = f"{operations.left_out:,} more runs were not read."
        made[-1] = replace(made[-1], note=note)
    return made


OPERATION: Final[list[Shown[OperationResult]]] = [
    (Column("operation", numeric=False), lambda row: text(row.operation)),
    (Column("share asked", hint="of the mix"), lambda row: share(row.asked)),
    (Column("share of answers"), lambda row: share(row.answered_share)),
    (Column("answered", hint="sum over the runs that count"), lambda row: count(row.answered)),
    ([Column(name, hint="of all answers") for name in OPERATION_RESPONSES],
     lambda row: [quantity(row.response_ms.get(name), "ms") for name in OPERATION_RESPONSES]),
    (Column("unexpected"), lambda row: count(row.unexpected, "severe")),
]  # fmt: skip


PEAKS_MARKED: Final = 4
"""Curves whose peaks are marked: labels of more lie on each other."""
ACHIEVED_CAPTION: Final = (
    "Medians over the runs that count, with the interval of the median. Dots: points all of whose "
    "runs failed, with what these had measured."
)
RESPONSE_CAPTION: Final = (
    "A curve joins its points by offered load: where it bends back, more is offered and less "
    "achieved."
)


def figures(
    found: OfferedLoad, beside: dict[int, PublishedPoint], operations: Operations
) -> list[Figure]:
    """Achieved load over offered load, response time over achieved load."""
    curves = found.curves[:CURVES_DRAWN]
    marks = [one for curve in curves for one in curve.points if one.valid or one.refused]
    if not marks:
        return []
    left = len(found.curves) - len(curves)
    more = f" {left} more curves are in the tables." if left else ""
    achieved = View(lambda: _achieved(curves, beside))
    rows = [row for one in marks for row in operations.of_point.get(one.point, [])]
    names = [name for name in RESPONSES if any(_response(one, name) is not None for one in marks)]
    of = [ALL, *dict.fromkeys(row.operation for row in rows if row.response_ms)]
    made = [
        Figure(
            "load-achieved", "Achieved against offered load", ACHIEVED_CAPTION + more, [achieved]
        )
    ]
    if names:
        views = [
            View(
                partial(_responses, curves, beside, operations, name, operation), (name, operation)
            )
            for operation, name in product(of, names)
        ]
        made.append(
            Figure(
                "load-response",
                "Response time against achieved load",
                RESPONSE_CAPTION + more,
                views,
                choices=("Response", "Of"),
            )
        )
    return made


def _achieved(curves: Sequence[Curve], beside: dict[int, PublishedPoint]) -> Lines:
    series = []
    offered = [one.offered_ops_per_s for curve in curves for one in curve.points]
    values: list[float] = []
    for curve in curves:
        valid = [one for one in curve.points if one.valid]
        x = [one.offered_ops_per_s for one in valid]
        series.append(_line(curve.label, x, [one.achieved for one in valid], _hints(valid)))
        values += [median(one.achieved) or 0.0 for one in valid]
        refused = [one for one in curve.points if not one.valid and one.refused is not None]
        failed = [one.refused.achieved_ops_per_s for one in refused if one.refused is not None]
        x = [one.offered_ops_per_s for one in refused]
        series += _dots(curve.label, "invalid", x, failed)
        values += failed
        there = [
            (one.offered_ops_per_s, known.achieved_ops_per_s)
            for one in curve.points
            if (known := beside.get(one.point)) is not None and known.achieved_ops_per_s is not None
        ]
        series += _published(curve.label, [x for x, _ in there], [y for _, y in there])
        values += [y for _, y in there]
    most = max(offered)
    series.append(Series("all that is offered", [0.0, most], [0.0, most], dash=True))
    axis = Axis("achieved load", "1/s", low=0.0, high=max(values) * 1.05 or 1.0)
    return Lines(
        Axis("offered load", "1/s", low=0.0, high=most * 1.05),
        [Panel("", axis, series, rules=_peaks(curves))],
    )


def _peaks(curves: Sequence[Curve]) -> list[Rule]:
    """Where each curve has its peak, by the load that was offered there."""
    at: dict[float, list[str]] = {}
    for curve in curves if len(curves) <= PEAKS_MARKED else ():
        if curve.peak is not None:
            at.setdefault(curve.peak.offered_ops_per_s, []).append(curve.label)
    several = len(curves) > 1
    return [
        Rule(x, "x", f"peak: {', '.join(labels)}" if several else "peak")
        for x, labels in sorted(at.items())
    ]


def _responses(
    curves: Sequence[Curve],
    beside: dict[int, PublishedPoint],
    operations: Operations,
    name: str,
    operation: str,
) -> Lines | None:
    """One response time ("mean", "p99") of all operations, or of one."""
    series = []
    values: list[float] = []
    for curve in curves:
        valid = [one for one in curve.points if one.valid]
        if operation != ALL:
            shown = [
                (one, row.response_ms[name])
                for one in valid
                for row in operations.of_point.get(one.point, [])
                if row.operation == operation and row.response_ms
            ]
            x = [median(one.achieved) or 0.0 for one, _ in shown]
            y = [value for _, value in shown]
            series.append(Series(curve.label, x, y, hints=_hints([one for one, _ in shown])))
            values += y
            continue
        known = [one for one in valid if name in one.response]
        x = [median(one.achieved) or 0.0 for one in known]
        series.append(_line(curve.label, x, [one.response[name] for one in known], _hints(known)))
        refused = [one.refused for one in curve.points if not one.valid and one.refused is not None]
        refused = [one for one in refused if name in one.response_ms]
        failed = [one.response_ms[name] for one in refused]
        x = [one.achieved_ops_per_s for one in refused]
        series += _dots(curve.label, "invalid", x, failed)
        values += [*(median(one.response[name]) or 0.0 for one in known), *failed]
        if name == "mean":
            there = [
                (found.achieved_ops_per_s, found.response_ms)
                for one in curve.points
                if (found := beside.get(one.point)) is not None
                and found.achieved_ops_per_s is not None
                and found.response_ms is not None
            ]
            series += _published(curve.label, [x for x, _ in there], [y for _, y in there])
            values += [y for _, y in there]
    if not values:
        return None
    high = max(values) * INTERVAL_REACH
    title = f"{name} response time" + ("" if operation == ALL else f" of {operation}")
    axis = Axis(title, "ms", low=None, high=high, log_choice=min(values) > 0)
    return Lines(Axis("achieved load", "1/s", low=0.0), [Panel("", axis, series)])


def _line(
    label: str, x: Sequence[float], found: Sequence[Summary | None], hints: Sequence[str]
) -> Series:
    def ends(side: str) -> list[float]:
        spreads = (summary.interval if summary is not None else None for summary in found)
        return [np.nan if one is None else float(getattr(one, side)) for one in spreads]

    y = [np.nan if (value := median(one)) is None else value for one in found]
    return Series(label, x, y, ends("low"), ends("high"), group=label, hints=hints)


def _dots(label: str, what: str, x: Sequence[float], y: Sequence[float]) -> list[Series]:
    return [Series(f"{label}, {what}", x, y, draw="dots", group=label)] if x else []


def _published(label: str, x: Sequence[float], y: Sequence[float]) -> list[Series]:
    return [Series(f"{label}, published", x, y, dash=True)] if x else []


def _hints(points: Sequence[LoadResult]) -> list[str]:
    return [f"{load_text(one.offered_ops_per_s)} offered: {one.verdict}" for one in points]


def _response(one: LoadResult, name: str) -> float | None:
    if name in one.response:
        return median(one.response[name])
    return one.refused.response_ms.get(name) if one.refused is not None else None
