"""Runs and points as columns: the one layout of the data frames and of the SQL views.

A run's row: what it is, its factors (one column an axis), its metrics (one column each).
A name that two of these want goes to the first of them; the factor or metric is then
called `factor_<name>` or `metric_<name>`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nfslab.results.outcomes import Outcomes

RUN_COLUMNS = (
    "run_id", "point_id", "block", "position", "attempt", "status", "counted", "reason", "flags",
    "durability", "setup", "started_unix_ns", "duration_s",
)  # fmt: skip
MADE_COLUMNS = ("counted", "duration_s")
"""Those of them that no line has as it is."""
POINT_COLUMNS = (
    "point_id", "metric", "unit", "better", "n", "median", "low", "high", "mean",
    "standard_deviation", "minimum", "maximum",
)  # fmt: skip


def run_columns(outcomes: Outcomes, points: Iterable[int] | None = None) -> dict[str, list[Any]]:
    """Every sealed run, one entry in each list: all attempts, failed ones included.

    `counted` tells which runs are in the figures. `points`: only runs of these points.
    """
    rows = outcomes.catalogue.rows
    at: Sequence[int] = range(len(rows))
    if points is not None:
        wanted = {outcomes.points[index].point_id for index in points}
        at = [row for row, point in enumerate(rows.column("point_id")) if point in wanted]

    def taken(column: list[Any]) -> list[Any]:
        return column if len(at) == len(column) else [column[row] for row in at]

    fields = {name: taken(rows.column(name)) for name in RUN_COLUMNS if name not in MADE_COLUMNS}
    fields["duration_s"] = [took / 1e9 for took in taken(rows.column("duration_ns"))]
    names = _metric_names(outcomes, taken(rows.metric_names()))
    metrics = {name: taken(rows.metric(name)) for name in names}
    return _together(outcomes, at, fields, taken(rows.column("factors")), metrics)


def run_arrays(outcomes: Outcomes) -> dict[str, Any]:
    """The same of all runs; columns that the core has as such are Arrow's."""
    rows = outcomes.catalogue.rows
    found = rows.arrays(_metric_names(outcomes, rows.metric_names()))
    if found is None:
        return run_columns(outcomes)
    fields, metrics = found
    return _together(outcomes, range(len(rows)), fields, rows.column("factors"), metrics)


def _metric_names(outcomes: Outcomes, of_runs: Iterable[tuple[str, ...]]) -> list[str]:
    """The experiment's, then others that runs have."""
    metrics: dict[str, None] = dict.fromkeys(outcomes.metrics)
    for names in dict.fromkeys(of_runs):
        metrics.update(dict.fromkeys(names))
    return list(metrics)


def _together(
    outcomes: Outcomes,
    at: Sequence[int],
    fields: dict[str, Any],
    factors: Sequence[Mapping[str, Any]],
    metrics: Mapping[str, Any],
) -> dict[str, Any]:
    """Columns of the runs in these rows of the catalogue, in their order and by their names."""
    counted = set(outcomes.counted_rows)
    fields["counted"] = [row in counted for row in at]
    columns = {name: fields[name] for name in RUN_COLUMNS}
    for axis in outcomes.record.axes:
        levels = [one.get(axis.name) for one in factors]
        columns[_free(columns, axis.name, "factor")] = alike(levels)
    for metric, values in metrics.items():
        columns[_free(columns, metric, "metric")] = values
    return columns


def point_columns(outcomes: Outcomes, points: Iterable[int] | None = None) -> dict[str, list[Any]]:
    """One row a point and metric: the summary over its counted runs, with its factors."""
    indices = list(range(len(outcomes.points)) if points is None else points)
    columns: dict[str, list[Any]] = {name: [] for name in POINT_COLUMNS}
    named = [(axis.name, _free(columns, axis.name, "factor")) for axis in outcomes.record.axes]
    factors: dict[str, list[Any]] = {column: [] for _, column in named}
    for name, metric in outcomes.metrics.items():
        summaries = outcomes.summaries(name)
        for index in indices:
            point, summary = outcomes.points[index], summaries[index]
            interval = summary.interval
            row = (
                point.point_id,
                name,
                metric.unit,
                metric.better,
                summary.n,
                summary.median,
                interval.low if interval else None,
                interval.high if interval else None,
                summary.mean,
                summary.standard_deviation,
                summary.minimum,
                summary.maximum,
            )
            for column, value in zip(POINT_COLUMNS, row, strict=True):
                columns[column].append(value)
            for axis_name, column in named:
                factors[column].append(point.factors.get(axis_name))
    first = {"point_id": columns.pop("point_id")}
    return first | {name: alike(levels) for name, levels in factors.items()} | columns


def alike(levels: list[Any]) -> list[Any]:
    """The levels as they are when all are numbers, else as text: one type a column."""
    kinds = {type(level) for level in levels if level is not None}
    if kinds <= {int} or kinds <= {int, float} or kinds <= {bool}:
        return levels
    return [None if level is None else str(level) for level in levels]


def _free(taken: dict[str, list[Any]], name: str, kind: str) -> str:
    """The name, or `<kind>_<name>` when it is taken (SQL names ignore case)."""
    used = {other.lower() for other in taken}
    while name.lower() in used:
        name = f"{kind}_{name}"
    return name
