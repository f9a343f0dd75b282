"""A published table beside ours: curves over an axis for the eye, rows with their ratios.

Hardware and years lie between the two, so the shapes are what can be compared. Where a column of
the table is matched with a numeric axis of the experiment, both are drawn as curves over that
axis, on one scale, side by side.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from nfslab.display import numbers
from nfslab.display.figures import Axis, Bar, Bars, Figure, Lines, Panel, Series, View
from nfslab.report.html import content
from nfslab.report.html.content import LOG_FROM_RATIO, level_indexes, short_point_label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.report.model import Analysis, Reference, ReferenceRow

CURVES = "curves"
ROWS = "row by row"
PUBLISHED = "published"
MEASURED = "measured here"
PALETTE = ("c3", "c4", "c5", "c6", "c7", "c8", "c1", "c2")
"""Of the published curves: other colours than ours start with."""


def figure(analysis: Analysis, metrics: Sequence[str]) -> Figure | None:
    """The published table beside ours; None where nothing of it is matched."""
    table = analysis.reference
    if table is None:
        return None
    rows = [row for row in table.rows if row.point is not None]
    names = [name for name in metrics if any(name in row.values for row in rows)]
    if not names:
        return None
    column = _axis_column(analysis, table)
    views = []
    for name in names:
        label = content.metric_axis(analysis, name).name
        if column is not None:
            views.append(View(partial(_curves, analysis, rows, name, column), (label, CURVES)))
        views.append(View(partial(_rows, analysis, rows, name), (label, ROWS)))
    source = table.source.rstrip(".")
    return Figure(
        "reference",
        "Beside the published figures",
        f"{table.title}. {source}. The published figures carry no spread: whether a difference "
        "from them means anything is unknown; compare the shapes. Measured: median with "
        f"{analysis.interval}. {' '.join(table.notes)}".strip(),
        views,
        ("Metric", "Show"),
    )


def _axis_column(analysis: Analysis, table: Reference) -> str | None:
    """The column that is matched with a numeric axis that varies."""
    varying = {axis.name for axis in analysis.axes if axis.numeric and len(axis.levels) > 1}
    return next((c for c, name in table.match.items() if _axis_of(analysis, name) in varying), None)


def _axis_of(analysis: Analysis, matched: str) -> str:
    """The axis that a name of the experiment file means: its own, or its parameter's."""
    for axis in analysis.axes:
        if matched == axis.name or matched in axis.parameters:
            return axis.name
    return matched


def _texts(table: Reference, without: str = "") -> list[str]:
    """Columns whose cells name a row."""
    return [
        c
        for c in table.columns
        if c != without
        and (c in table.match or (c not in table.metrics and not table.units.get(c)))
    ]


def _row_label(row: ReferenceRow, columns: Sequence[str]) -> str:
    return " · ".join(row.cells[c] for c in columns if row.cells.get(c))


def _measured(analysis: Analysis, row: ReferenceRow, name: str) -> tuple[float, float, float, int]:
    """(median, low, high, runs); NaN for what is not known."""
    found = analysis.points[row.point].estimates.get(name) if row.point is not None else None
    if found is None or found.median is None:
        return math.nan, math.nan, math.nan, 0
    ends = found.interval
    low, high = (ends.low, ends.high) if ends else (math.nan, math.nan)
    return float(found.median), low, high, found.n


def _value_axis(analysis: Analysis, rows: Sequence[ReferenceRow], name: str) -> Axis:
    """One scale for theirs and ours."""
    values = [row.values[name] for row in rows if name in row.values]
    values += [v for row in rows for v in _measured(analysis, row, name)[:3] if math.isfinite(v)]
    axis = content.metric_axis(analysis, name)
    wide = min(values) > 0 and max(values) / min(values) >= LOG_FROM_RATIO / 4
    return Axis(axis.name, axis.unit, "log" if wide else "linear", log_choice=min(values) > 0)


def _rows(analysis: Analysis, rows: Sequence[ReferenceRow], name: str) -> Bars | None:
    rows = [row for row in rows if name in row.values]
    if analysis.reference is None or not rows:
        return None
    columns = _texts(analysis.reference)
    bars = []
    for row in rows:
        ours, low, high, n = _measured(analysis, row, name)
        theirs = row.values[name]
        point = short_point_label(analysis, row.point or 0)
        label = " | ".join(part for part in (_row_label(row, columns), point) if part)
        known = math.isfinite(ours)
        ratio = f"{numbers.ratio(ours / theirs)} × the published" if known and theirs else ""
        bounded = math.isfinite(low)
        bars.append(
            Bar(label, ours if known else None, low if bounded else None, high if bounded else None,
                hint=f"{ratio} (n {n})" if ratio else "", group=MEASURED)
        )  # fmt: skip
        bars.append(Bar(label, theirs, group=PUBLISHED))
    return Bars(_value_axis(analysis, rows, name), bars, marks=True)


def _curves(
    analysis: Analysis, rows: Sequence[ReferenceRow], name: str, column: str
) -> Lines | None:
    table = analysis.reference
    rows = [row for row in rows if name in row.values]
    if table is None or not rows:
        return None
    axis = _axis_of(analysis, table.match[column])
    place = [one.name for one in analysis.axes].index(axis)
    at = content.level_values(analysis.axes[place])
    keys = _texts(table, without=column)
    theirs: dict[str, dict[float, float]] = {}
    ours: dict[str, dict[float, ReferenceRow]] = {}
    for row in rows:
        where = at[level_indexes(analysis.axes, analysis.points[row.point or 0])[place]]
        theirs.setdefault(_row_label(row, keys) or PUBLISHED, {})[where] = row.values[name]
        rest = short_point_label(analysis, row.point or 0, without=axis)
        ours.setdefault(rest or "measured", {})[where] = row
    y = _value_axis(analysis, rows, name)
    published = [
        Series(
            f"{label} ({PUBLISHED})",
            sorted(values),
            [values[x] for x in sorted(values)],
            colour=PALETTE[k % len(PALETTE)],
            dash=True,
            hints=["spread unknown"] * len(values),
        )
        for k, (label, values) in enumerate(theirs.items())
    ]
    measured = []
    for label, found in ours.items():
        known = [(x, *_measured(analysis, found[x], name)) for x in sorted(found)]
        known = [one for one in known if math.isfinite(one[1])]
        xs, median, low, high, runs = zip(*known, strict=True) if known else ((),) * 5
        hints = [f"median of {numbers.counted(n, 'run')}" for n in runs]
        measured.append(Series(label, xs, median, low=low, high=high, hints=hints))
    panels = [Panel(PUBLISHED, y, published), Panel(MEASURED, y, measured)]
    return Lines(content.drawn_axis(analysis.axes[place]), panels, columns=2)
