"""Laying a published table beside the results: `[reference]` of the experiment file.

The table is `published/<name>.csv`; its description beside it (`.toml`) tells the unit of
every column and the factor that leads to ours. A row is matched with the points at which
all columns of `match` agree with the axis or parameter they are matched with (numbers in
our unit, or text). What cannot be laid beside is said in `problem`, never left out
silently: a report must not fail because a table was renamed.
"""

from __future__ import annotations

import csv
import io
import math
import tomllib
from typing import TYPE_CHECKING, Any

from nfslab.errors import NfslabError
from nfslab.report.model import Reference, ReferenceRow
from nfslab.results.selection import fixed_parameters, level_number, same_level, understood
from nfslab.shipped import published_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.results.outcomes import Outcomes

MAX_ROWS = 10_000
"""Rows of a published table; those of papers have tens."""


def reference_of(outcomes: Outcomes) -> Reference | None:
    """The published table beside the experiment's points; None when it names none."""
    asked = outcomes.record.reference
    name = asked.get("table")
    if not isinstance(name, str):
        return None
    metrics = _texts(asked.get("metric"))
    match = _texts(asked.get("match"))
    try:
        path = published_table(name)
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
        about = tomllib.loads(path.with_suffix(".toml").read_text(encoding="utf-8"))
    except NfslabError as error:
        return _nothing(name, metrics, match, error.what)
    except (OSError, ValueError, csv.Error) as error:
        return _nothing(name, metrics, match, f"{name} cannot be read: {error}")
    if len(rows) > MAX_ROWS:
        return _nothing(name, metrics, match, f"{name} has more than {MAX_ROWS} rows")
    columns = list(rows[0]) if rows else []
    described = about.get("columns")
    described = described if isinstance(described, dict) else {}
    factors = {column: _factor(described.get(column)) for column in columns}
    problem = "; ".join(_problems(outcomes, columns, described, metrics, match))
    known = {column: metric for column, metric in metrics.items() if column in columns}
    for column, metric in known.items():
        if _as_published(outcomes, described, column, metric):
            factors[column] = 1.0
    alike = {
        metric
        for column, metric in known.items()
        if _same_unit(outcomes, described, column, metric)
    }
    beside: list[ReferenceRow] = []
    for number, row in enumerate(rows):
        points = _points_like(outcomes, row, factors, match) or [None]
        beside += [_row(outcomes, number, row, factors, known, alike, point) for point in points]
    return Reference(
        table=name,
        title=str(about.get("title", name)),
        source=str(about.get("source", "")),
        notes=[str(note) for note in about.get("notes", [])],
        columns=columns,
        units={column: str(_entry(described, column).get("unit", "")) for column in columns},
        metrics=metrics,
        match=match,
        rows=beside,
        problem=problem,
    )


def _problems(
    outcomes: Outcomes,
    columns: Sequence[str],
    described: Mapping[str, Any],
    metrics: Mapping[str, str],
    match: Mapping[str, str],
) -> list[str]:
    """What of the request leads nowhere, or would compare different units."""
    found = [
        f"it has no column {column!r}" for column in {**metrics, **match} if column not in columns
    ]
    for column, name in metrics.items():
        metric = outcomes.metrics.get(name)
        if metric is None:
            found.append(f"no run has the metric {name!r}")
        elif not _same_unit(outcomes, described, column, name):
            unit = _entry(described, column).get("metric_unit")
            found.append(f"{column} is in {unit}, {name} in {metric.unit}: no ratio is given")
    if not match:
        found.append("`match` is empty: no row fits a configuration")
    return found


def _same_unit(outcomes: Outcomes, described: Mapping[str, Any], column: str, name: str) -> bool:
    """Can the column, times its factor, be divided by our metric?"""
    if _as_published(outcomes, described, column, name):
        return True
    metric = outcomes.metrics.get(name)
    unit = _entry(described, column).get("metric_unit")
    return metric is not None and (unit is None or unit == metric.unit)


def _as_published(outcomes: Outcomes, described: Mapping[str, Any], column: str, name: str) -> bool:
    """Is our metric in the unit of the column itself?"""
    metric = outcomes.metrics.get(name)
    return metric is not None and _entry(described, column).get("unit") == metric.unit


def _row(
    outcomes: Outcomes,
    number: int,
    row: Mapping[str, str],
    factors: Mapping[str, float],
    metrics: Mapping[str, str],
    alike: set[str],
    point: int | None,
) -> ReferenceRow:
    """One published row beside one point of ours; ratios only of `alike` metrics."""
    values: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for column, name in metrics.items():
        published = _number(row.get(column))
        if published is None:
            continue
        values[name] = published * factors[column]
        if point is None or name not in alike:
            continue
        median = outcomes.summaries(name)[point].median
        if median is not None and values[name] > 0:
            ratios[name] = median / values[name]
    cells = {column: str(cell) for column, cell in row.items()}
    return ReferenceRow(number, cells, point, values, ratios)


def _points_like(
    outcomes: Outcomes,
    row: Mapping[str, str],
    factors: Mapping[str, float],
    match: Mapping[str, str],
) -> list[int | None]:
    """The points at which every matched column agrees."""
    if not match or any(column not in row for column in match):
        return []
    fixed = fixed_parameters(outcomes.record)
    found: list[int | None] = []
    for index, point in enumerate(outcomes.points):
        levels = {axis.name: understood(axis, point) for axis in outcomes.record.axes}
        ours = {**fixed, **point.settings, **levels}
        if all(
            _agrees(row[column], factors[column], ours.get(name)) for column, name in match.items()
        ):
            found.append(index)
    return found


def _agrees(cell: str, factor: float, level: Any) -> bool:
    if level is None:
        return False
    number = _number(cell)
    ours = level_number(level)
    if number is not None and ours is not None:
        return math.isclose(number * factor, ours, rel_tol=1e-9)
    return same_level(level, cell)


def _number(cell: str | None) -> float | None:
    try:
        number = float(cell) if cell else None
    except ValueError:
        return None
    return number if number is None or math.isfinite(number) else None


def _factor(described: Any) -> float:
    factor = described.get("factor", 1) if isinstance(described, dict) else 1
    return float(factor) if isinstance(factor, int | float) else 1.0


def _entry(described: Mapping[str, Any], column: str) -> dict[str, Any]:
    entry = described.get(column)
    return entry if isinstance(entry, dict) else {}


def _texts(entries: Any) -> dict[str, str]:
    return {str(k): str(v) for k, v in entries.items()} if isinstance(entries, dict) else {}


def _nothing(name: str, metrics: dict[str, str], match: dict[str, str], problem: str) -> Reference:
    return Reference(name, name, "", [], [], {}, metrics, match, [], problem)
