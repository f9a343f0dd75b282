"""The page's section "Offered load": two figures of the same curves, and their tables.

Flow: `nfslab.report.offered_load` (curves, what they mean) -> payload of the figures, tables for
the template. The page computes nothing: medians, intervals, verdicts and ranges stand in the
payload. Ranges are one for all curves. Intervals of few repetitions can be many times as long
as any value: the range goes to `INTERVAL_REACH` times the largest value, and the captions say
when an interval leaves it.

Limits: `CURVES_DRAWN` curves are drawn; the tables have all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from nfslab.report.html.capture.cells import Cell, Column, Table, count, quantity, share, text
from nfslab.report.html.columns import json_number, pack
from nfslab.report.html.content import linear_domain, log_domain
from nfslab.report.html.wording import ABSENT, plain, span
from nfslab.report.offered_load import (
    RESPONSES,
    agreement,
    as_values,
    load_text,
    median,
    offered_load,
    published_at,
    sentences,
    uncounted,
)
from nfslab.report.offered_operations import PUT_TOGETHER, read_operations
from nfslab.report.offered_operations import RESPONSES as OPERATION_RESPONSES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.report.model import Analysis
    from nfslab.report.offered_load import Curve, LoadResult, OfferedLoad, PublishedPoint
    from nfslab.report.offered_operations import OperationResult, Operations
    from nfslab.statistics.summary import Summary

FIGURE: Final = "offered-load"
CURVES_DRAWN: Final = 24
SENTENCES_MOST: Final = 16
SENTENCES_LARGE: Final = 2
PROBLEMS_MOST: Final = 12
INTERVAL_REACH: Final = 1.5
DIAGONAL_PAD: Final = 1.05
EXPLAINED: Final = (
    "Saturated: less than 98 % of the offered load was achieved, or of what arrived of it (open "
    "load) if that was less. Peak: the highest achieved load. Knee: the largest ratio of achieved "
    "load to mean response time. Overload: saturated, more is offered than at the peak, and less "
    "than 98 % of the peak is achieved. Responses count from the planned instant of an operation "
    "(open load) or from its sending (closed). Runs that failed are in no curve and no estimate: "
    "what they measured may be the load generator's limit."
)


@dataclass(slots=True)
class LoadSection:
    """Everything of the section; `shown` False: the workload offers no load."""

    shown: bool = False
    explained: str = EXPLAINED
    sentences: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    figure: str = ""
    """Name of the figures' data; empty without a point to draw."""
    has_responses: bool = False
    is_short: bool = True
    """Few enough sentences to stand in large letters."""
    points: Table | None = None
    overall: Table | None = None
    matrix: Table | None = None
    beside: list[str] = field(default_factory=list)
    operations: list[Table] = field(default_factory=list)
    chunks: dict[str, str] = field(default_factory=dict)


def load_section(analysis: Analysis) -> LoadSection:
    """The section of this experiment; empty where there is none."""
    found = offered_load(analysis)
    if found is None or not found.curves:
        return LoadSection()
    operations = read_operations(analysis)
    beside = published_at(analysis, found)
    said = sentences(found)
    problems = [*uncounted(found), *operations.problems]
    problems += [f"{label}: its offered load is not known" for label in found.without_load]
    made = LoadSection(
        shown=True,
        sentences=_first(said, SENTENCES_MOST, "curves are in the tables"),
        is_short=len(said) <= SENTENCES_LARGE,
        problems=_first(problems, PROBLEMS_MOST, "are in the tables of runs"),
        points=points_table(found),
        overall=overall_table(found),
        matrix=matrix_table(found, beside),
        beside=_beside(found, beside),
        operations=operation_tables(found, operations),
    )
    content = figure_content(analysis.name, found, operations)
    if content is not None:
        made.figure = FIGURE
        made.has_responses = bool(content["load"]["responses"])
        text = json.dumps(content, separators=(",", ":"), allow_nan=False)
        made.chunks[FIGURE] = pack(text.encode())
    return made


def _first(lines: list[str], most: int, rest: str) -> list[str]:
    left = len(lines) - most
    return lines if left <= 0 else [*lines[:most], f"{left} more {rest}."]


def _beside(found: OfferedLoad, beside: dict[int, PublishedPoint]) -> list[str]:
    if not beside:
        return []
    said = agreement(found, beside)
    return said or ["The published table has no achieved load beside these points."]


def points_table(found: OfferedLoad) -> Table:
    """One row a point, with what Little's law says of it."""
    several = len(found.curves) > 1
    columns = [Column("curve", numeric=False)] if several else []
    columns += [Column("offered"), Column("achieved"), Column("interval")]
    columns += [Column(name, hint="response time") for name in RESPONSES]
    columns += [
        Column("outstanding", hint="operations in the system, mean over the measured window"),
        Column("rate × response", hint="Little's law: has to be about what is outstanding"),
        Column("runs"),
        Column("verdict", numeric=False),
    ]
    rows = []
    for curve in found.curves:
        for one in curve.points:
            rows.append([text(curve.label, "nowrap")] * several + _point_cells(one))
    return Table(
        title="At every point",
        columns=columns,
        rows=rows,
        note="Medians over the runs that count, with the 95 % interval of the median. "
        "In brackets: what failed runs had measured, in no estimate.",
    )


def _point_cells(one: LoadResult) -> list[Cell]:
    interval = one.achieved.interval if one.achieved else None
    cells = [quantity(one.offered_ops_per_s, "1/s")]
    refused = one.refused
    if one.achieved is None and refused is not None:
        hint = "what failed runs had measured: does not count"
        cells += [_refused(refused.achieved_ops_per_s, "", hint), text(None)]
        cells += [_refused(refused.response_ms.get(name), " ms", hint) for name in RESPONSES]
    else:
        cells += [
            _median(one.achieved, "1/s"),
            Cell(
                span(interval.low, interval.high, "1/s") if interval else ABSENT,
                interval.low if interval else "",
            ),
        ]
        cells += [_median(one.response.get(name), "ms") for name in RESPONSES]
    runs = f"{one.runs} of {one.planned}" if one.runs != one.planned else str(one.runs)
    return [
        *cells,
        _median(one.outstanding, "1"),
        _median(one.rate_times_response, "1"),
        Cell(runs, one.runs),
        Cell(one.verdict, style="nowrap" if one.valid else "bad", hint="; ".join(one.reasons)),
    ]


def _refused(value: float | None, unit: str, hint: str) -> Cell:
    return Cell(ABSENT if value is None else f"({plain(value)}{unit})", "", "ok", hint)


def _median(summary: Summary | None, unit: str) -> Cell:
    return quantity(median(summary), unit)


def overall_table(found: OfferedLoad) -> Table:
    """One row a curve: peak, knee, overall response time."""
    rows = []
    for curve in found.curves:
        peak, knee = (
            None if place is None else curve.points[place]
            for place in (curve.meaning.peak, curve.meaning.knee)
        )
        spread = curve.overall_by_block_ms
        valid = sum(one.valid for one in curve.points)
        rows.append(
            [
                text(curve.label, "nowrap"),
                quantity(median(peak.achieved) if peak else None, "1/s"),
                quantity(peak.offered_ops_per_s if peak else None, "1/s"),
                _median(peak.response.get("mean") if peak else None, "ms"),
                quantity(median(knee.achieved) if knee else None, "1/s"),
                quantity(curve.overall_ms, "ms"),
                text(span(spread.minimum, spread.maximum, "ms") if spread else None),
                Cell(f"{valid} of {len(curve.points)}", valid),
                count(sum(one.is_saturated for one in curve.points)),
                count(sum(one.is_overloaded for one in curve.points)),
            ]
        )
    return Table(
        title="Each curve",
        columns=[
            Column("curve", numeric=False),
            Column("peak", hint="highest achieved load"),
            Column("offered there"),
            Column("mean response there"),
            Column("knee", hint="achieved load where it over the mean response is largest"),
            Column("overall response time"),
            Column("least to most", hint="of whole repetitions"),
            Column("points that count"),
            Column("saturated"),
            Column("overload"),
        ],
        rows=rows,
        note="Overall response time: the area under the curve of mean response against achieved "
        "load, over the highest achieved load, as SPEC SFS has it; below the least load the curve "
        "is continued with that point's response. It ends at the peak.",
    )


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
        label = text(curve.label, "nowrap")
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
            rows.append([label, text("published", "ok"), *theirs])
    return Table(
        title="Achieved load and response time by offered load",
        columns=columns,
        rows=rows,
        note="In brackets: does not count." if _has_refused(found) else "",
    )


def _has_refused(found: OfferedLoad) -> bool:
    return any(one.refused is not None for curve in found.curves for one in curve.points)


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


def operation_tables(found: OfferedLoad, operations: Operations) -> list[Table]:
    """A table a curve: every operation at every point."""
    made = []
    for curve in found.curves:
        rows = [
            [
                quantity(one.offered_ops_per_s, "1/s"),
                text(row.operation),
                share(row.asked),
                share(row.answered_share),
                count(row.answered),
                *(quantity(row.response_ms.get(name), "ms") for name in OPERATION_RESPONSES),
                count(row.unexpected),
            ]
            for one in curve.points
            for row in operations.of_point.get(one.point, [])
        ]
        if rows:
            made.append(Table(title=curve.label, columns=OPERATION_COLUMNS, rows=rows))
    if made:
        left = operations.left_out
        note = PUT_TOGETHER + (f" {left:,} more runs were not read." if left else "")
        made[-1] = replace(made[-1], note=note)
    return made


OPERATION_COLUMNS: Final = [
    Column("offered"),
    Column("operation", numeric=False),
    Column("share asked", hint="of the mix"),
    Column("share of answers"),
    Column("answered", hint="sum over the runs that count"),
    Column("mean", hint="of all answers"),
    *(Column(name, hint="of all answers") for name in OPERATION_RESPONSES[1:]),
    Column("unexpected"),
]


def figure_content(name: str, found: OfferedLoad, operations: Operations) -> dict[str, Any] | None:
    """The payload of both figures; None when there is no mark to draw."""
    curves = found.curves[:CURVES_DRAWN]
    marks = [one for curve in curves for one in curve.points]
    drawn = [one for one in marks if one.valid or one.refused is not None]
    if not drawn:
        return None
    names = [r for r in RESPONSES if any(_known_responses(one, r) for one in drawn)]
    achieved = _reach(
        [as_values(one.achieved) for one in drawn]
        + [[one.refused.achieved_ops_per_s, None, None] for one in drawn if one.refused]
    )
    offered_most = max(one.offered_ops_per_s for one in drawn)
    responses = {r: _reach([v for one in drawn for v in _known_responses(one, r)]) for r in names}
    rows = [row for one in marks for row in operations.of_point.get(one.point, [])]
    load = {
        "curves": [_curve_content(curve, names, operations) for curve in curves],
        "left_out": len(found.curves) - len(curves),
        "responses": names,
        "offered_domain": [0.0, offered_most * DIAGONAL_PAD],
        "achieved_domain": linear_domain(0.0, achieved[1]),
        "achieved_cut": achieved[2],
        "domains": {r: _domains(*reach[:2]) for r, reach in responses.items()},
        "response_cut": {r: reach[2] for r, reach in responses.items()},
        "operations": list(dict.fromkeys(row.operation for row in rows if row.response_ms)),
        "operation_domains": _operation_domains(rows, names),
    }
    return {"name": name, "captures": [], "load": load}


def _domains(least: float, most: float) -> dict[str, Any]:
    """Ranges of an axis of times; none on a log scale where there is a zero."""
    return {
        "linear": linear_domain(0.0, most),
        "log": log_domain(least, most) if least > 0 else None,
    }


def _operation_domains(
    rows: Sequence[OperationResult], names: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """By operation and response: the range of all its points."""
    found: dict[str, dict[str, Any]] = {}
    for operation in {row.operation for row in rows if row.response_ms}:
        same = [row.response_ms for row in rows if row.operation == operation and row.response_ms]
        found[operation] = {
            name: _domains(min(one[name] for one in same), max(one[name] for one in same))
            for name in names
        }
    return found


def _known_responses(one: LoadResult, name: str) -> list[list[float | None]]:
    """[median, low, high] of a point, or what was refused; empty where it has none."""
    if name in one.response:
        return [as_values(one.response[name])]
    if one.refused is not None and name in one.refused.response_ms:
        return [[one.refused.response_ms[name], None, None]]
    return []


def _reach(entries: Sequence[Sequence[float | None]]) -> tuple[float, float, bool]:
    """(least, most, is an interval cut?) of what is drawn."""
    values = [entry[0] for entry in entries if entry[0] is not None]
    least, most = min(values), max(values)
    lows = [entry[1] for entry in entries if entry[1] is not None and entry[1] > 0]
    highs = [entry[2] for entry in entries if entry[2] is not None]
    top = min(max([most, *highs]), most * INTERVAL_REACH)
    bottom = max(min([least, *lows]), least / INTERVAL_REACH)
    cut = any(high > top for high in highs) or any(low < bottom for low in lows)
    return bottom, top, cut


def _curve_content(curve: Curve, names: Sequence[str], operations: Operations) -> dict[str, Any]:
    return {
        "label": curve.label,
        "points": [
            _mark(one, names, operations.of_point.get(one.point, []))
            for one in curve.points
            if one.valid or one.refused
        ],
    }


def _mark(
    one: LoadResult, names: Sequence[str], operations: Sequence[OperationResult]
) -> dict[str, Any]:
    refused = one.refused
    if one.valid:
        achieved = as_values(one.achieved)
        response = {
            r: [json_number(v) for v in as_values(one.response[r])]
            for r in names
            if r in one.response
        }
    else:
        achieved = [refused.achieved_ops_per_s if refused else None, None, None]
        known = refused.response_ms if refused else {}
        response = {r: [known[r], None, None] for r in names if r in known}
    return {
        "offered": one.offered_ops_per_s,
        "achieved": [json_number(v) for v in achieved],
        "response": response,
        "operations": {
            row.operation: {name: json_number(row.response_ms[name]) for name in names}
            for row in operations
            if row.response_ms
        },
        "valid": one.valid,
        "saturated": one.is_saturated,
        "overloaded": one.is_overloaded,
        "peak": one.is_peak,
        "knee": one.is_knee,
        "verdict": one.verdict,
        "runs": one.runs if one.valid else refused.runs if refused else 0,
        "reasons": one.reasons,
    }
