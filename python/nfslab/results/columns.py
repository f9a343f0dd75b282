"""Runs and points as columns: the one layout of the data frames and of the SQL views.

A run's row: what it is, its factors (one column an axis), its metrics (one column each).
A name that two of these want goes to the first of them; the factor or metric is then
called `factor_<name>` or `metric_<name>`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nfslab.results.outcomes import Outcomes

RUN_COLUMNS = (
    "run_id", "point_id", "block", "position", "attempt", "status", "counted", "reason", "flags",
    "durability", "setup", "started_unix_ns", "duration_s",
)  # fmt: skip
POINT_COLUMNS = (
    "point_id", "metric", "unit", "better", "n", "median", "low", "high", "mean",
    "standard_deviation", "minimum", "maximum",
)  # fmt: skip


def run_columns(outcomes: Outcomes, points: Iterable[int] | None = None) -> dict[str, list[Any]]:
    """Every sealed run, one entry in each list: all attempts, failed ones included.

    `counted` tells which runs are in the figures. `points`: only runs of these points.
    """
    lines = outcomes.catalogue.lines
    if points is not None:
        wanted = {outcomes.points[index].point_id for index in points}
        lines = [line for line in lines if line.point_id in wanted]
    counted = {line.run_id for line in outcomes.counted}
    made: dict[str, list[Any]] = {
        "counted": [line.run_id in counted for line in lines],
        "duration_s": [line.duration_ns / 1e9 for line in lines],
    }
    columns: dict[str, list[Any]] = {
        name: made[name] if name in made else [getattr(line, name) for line in lines]
        for name in RUN_COLUMNS
    }
    for axis in outcomes.record.axes:
        levels = [line.factors.get(axis.name) for line in lines]
        columns[_free(columns, axis.name, "factor")] = alike(levels)
    # The experiment's, then others that runs have.
    metrics = dict.fromkeys(outcomes.metrics)
    for names in dict.fromkeys(tuple(line.metrics) for line in lines):
        metrics.update(dict.fromkeys(names))
    for metric in metrics:
        values = [line.metrics.get(metric) for line in lines]
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
