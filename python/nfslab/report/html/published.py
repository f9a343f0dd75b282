"""A published table beside ours: rows for the table, curves over an axis for the eye.

Hardware and years lie between the two, so the shapes are what can be compared. Where a
column of the table is matched with a numeric axis of the experiment, both are drawn as
curves over that axis, on one scale, side by side; every row is in the figure's table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.report.html.content import (
    LOG_FROM_RATIO,
    level_indexes,
    linear_domain,
    log_domain,
    short_point_label,
)
from nfslab.report.html.payload import json_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nfslab.report.html import payload
    from nfslab.report.model import Analysis, Reference, ReferenceRow


def reference(analysis: Analysis, metrics: Sequence[str]) -> payload.Reference | None:
    """The published table beside ours, row by row and metric by metric."""
    table = analysis.reference
    if table is None or not table.rows:
        return None
    rows: list[payload.ReferenceRow] = []
    texts = [
        c
        for c in table.columns
        if c in table.match or (c not in table.metrics and not table.units.get(c))
    ]
    for row in table.rows:
        label = " · ".join(row.cells[c] for c in texts if row.cells.get(c))
        for name, published in row.values.items():
            if name in metrics and row.point is not None:
                rows.append(_reference_row(analysis, name, label, row.point, published))
    if not rows:
        return None
    names = [name for name in metrics if any(row["metric"] == name for row in rows)]
    return {
        "title": table.title,
        "source": table.source.rstrip("."),
        "notes": table.notes,
        "curves": curves(analysis, table, names),
        "metrics": names,
        "rows": rows,
        "domains": {name: _reference_domain(rows, name) for name in names},
    }


def _reference_row(
    analysis: Analysis, metric: str, label: str, point: int, published: float
) -> payload.ReferenceRow:
    summary = analysis.points[point].estimates.get(metric)
    interval = summary.interval if summary else None
    measured = summary.median if summary else None
    return {
        "metric": metric,
        "label": " | ".join(part for part in (label, short_point_label(analysis, point)) if part),
        "published": json_number(published),
        "published_label": label,
        "measured": json_number(measured),
        "measured_label": analysis.points[point].label,
        "low": json_number(interval.low) if interval else None,
        "high": json_number(interval.high) if interval else None,
        "n": summary.n if summary else 0,
        "ratio": json_number(measured / published) if measured is not None and published else None,
    }


def _reference_domain(rows: Iterable[payload.ReferenceRow], metric: str) -> payload.ReferenceDomain:
    values: list[Any] = [
        v
        for row in rows
        if row["metric"] == metric
        for v in (row["published"], row["measured"], row["low"], row["high"])
        if v is not None
    ]
    low, high = min(values), max(values)
    if low > 0 and high / low >= LOG_FROM_RATIO / 4:
        return {"scale": "log", "positions": log_domain(low, high)}
    return {"scale": "linear", "positions": linear_domain(low, high)}


def curves(analysis: Analysis, table: Reference, metrics: Sequence[str]) -> payload.Curves | None:
    """Lines over the numeric axis that a column is matched with; None without one."""
    varying = {axis.name for axis in analysis.axes if axis.numeric and len(axis.levels) > 1}
    matched = {column: _axis_name(analysis, name) for column, name in table.match.items()}
    column = next((c for c, name in matched.items() if name in varying), None)
    if column is None:
        return None
    name = matched[column]
    place = [axis.name for axis in analysis.axes].index(name)
    keys = [c for c in table.columns if c != column and c not in table.metrics]
    keys = [c for c in keys if c in table.match or not table.units.get(c)]
    published: dict[str, list[payload.Curve]] = {}
    measured: dict[str, list[payload.Curve]] = {}
    for metric in metrics:
        theirs: dict[str, dict[int, float]] = {}
        ours: dict[str, dict[int, int]] = {}
        for row in table.rows:
            if row.point is None or metric not in row.values:
                continue
            level = level_indexes(analysis.axes, analysis.points[row.point])[place]
            theirs.setdefault(_label(row, keys), {})[level] = row.values[metric]
            rest = short_point_label(analysis, row.point, without=name)
            ours.setdefault(rest, {})[level] = row.point
        published[metric] = [_published(label, values) for label, values in theirs.items()]
        measured[metric] = [
            _measured(analysis, metric, label, points) for label, points in ours.items()
        ]
    return {"axis": place, "published": published, "measured": measured}


def _axis_name(analysis: Analysis, matched: str) -> str:
    """The axis that a name of the experiment file means: its own, or its parameter's."""
    for axis in analysis.axes:
        if matched == axis.name or matched in axis.parameters:
            return axis.name
    return matched


def _label(row: ReferenceRow, keys: Sequence[str]) -> str:
    return " · ".join(row.cells[key] for key in keys if row.cells.get(key)) or "published"


def _published(label: str, values: dict[int, float]) -> payload.Curve:
    levels = sorted(values)
    nothing: list[float | None] = [None] * len(levels)
    return {
        "label": label,
        "levels": levels,
        "values": [values[level] for level in levels],
        "low": nothing,
        "high": nothing,
    }


def _measured(analysis: Analysis, metric: str, label: str, points: dict[int, int]) -> payload.Curve:
    found = {
        level: summary
        for level, point in sorted(points.items())
        if (summary := analysis.points[point].estimates.get(metric)) is not None
        and summary.median is not None
    }
    intervals = [summary.interval for summary in found.values()]
    return {
        "label": label or "measured",
        "levels": list(found),
        "values": [float(s.median) for s in found.values() if s.median is not None],
        "low": [json_number(i.low) if i else None for i in intervals],
        "high": [json_number(i.high) if i else None for i in intervals],
    }
