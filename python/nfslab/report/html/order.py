"""Figure of the runs in the order in which they were carried out."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nfslab.display.figures import Axis, Cloud, Figure, Points, Rule, View
from nfslab.report.html import content
from nfslab.report.html.matrix import level_name, run_hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.report.model import Analysis, RunResult

MEASURED = "as measured"
RELATIVE = "over the median of its configuration"
CLOUDS_MOST = 12
"""Points that are told apart by colour; with more it starts by block."""


def figure(analysis: Analysis, metrics: Sequence[str]) -> Figure:
    """The runs in the order in which they were carried out."""
    varying = content.varying_axes(analysis)
    category = [i for i in varying if not content.has_numbers(analysis.axes[i])]
    axes = [content.axis_name(analysis.axes[i]) for i in varying]
    colourings = ["configuration", "repetition", *axes]
    first = (
        content.axis_name(analysis.axes[category[0]])
        if category
        else "repetition" if len(analysis.points) > CLOUDS_MOST else "configuration"
    )  # fmt: skip
    colourings.sort(key=lambda name: name != first)
    several = len(analysis.points) > 1
    views = [
        View(
            partial(_order, analysis, name, by, relative),
            (content.metric_axis(analysis, name).name, by, RELATIVE if relative else MEASURED),
        )
        for by in colourings
        for relative in (several, not several)
        for name in metrics
    ]
    return Figure(
        "order",
        "In the order of the runs",
        "Every run in the order in which they were carried out (seeded random order within blocks "
        "unless the experiment fixed it). A slope or a step means that the machine changed under "
        "the experiment.",
        views,
        ("Metric", "Coloured by", "Values"),
        rank=2,
    )


def _order(analysis: Analysis, name: str, by: str, relative: bool) -> Points | None:
    values = [_value(analysis, run, name, relative) for run in analysis.runs]
    if not any(math.isfinite(value) for value in values):
        return None
    groups: dict[str, list[int]] = {}
    for i, run in sorted(enumerate(analysis.runs), key=lambda one: _group(analysis, one[1], by)):
        if math.isfinite(values[i]):
            groups.setdefault(_group(analysis, run, by)[1], []).append(i)
    metric = content.metric_axis(analysis, name)
    y = Axis(f"{metric.name} / median of its configuration") if relative else metric
    failed = [run.position + 1 for run in analysis.runs if run.status == "failed"]
    return Points(
        Axis("place in the order of runs", "#", low=0.2, high=len(analysis.runs) + 0.8),
        y,
        [_cloud(analysis, label, rows, values) for label, rows in groups.items()],
        rules=[
            *(Rule(at + 0.5, colour="grid") for at in block_starts(analysis.runs) if at > 0),
            *(
                Rule(float(at), label="" if k else "failed", colour="bad")
                for k, at in enumerate(failed)
            ),
        ],
    )


def _value(analysis: Analysis, run: RunResult, name: str, relative: bool) -> float:
    if not run.counted or run.point is None:
        return math.nan
    value = run.metrics.get(name, math.nan)
    if not relative:
        return value
    found = analysis.points[run.point].estimates.get(name)
    return value / found.median if found and found.median else math.nan


def _group(analysis: Analysis, run: RunResult, by: str) -> tuple[int, str]:
    """(rank, label) of the cloud that a run belongs to."""
    if by == "repetition":
        return run.block, f"repetition {run.block + 1}"
    if by == "configuration" or run.point is None:
        return run.point or 0, content.run_point_label(analysis, run)
    place = [content.axis_name(axis) for axis in analysis.axes].index(by)
    level = content.level_indexes(analysis.axes, analysis.points[run.point])[place]
    return level, level_name(analysis, place, level)


def _cloud(analysis: Analysis, label: str, rows: Sequence[int], values: Sequence[float]) -> Cloud:
    runs = [analysis.runs[i] for i in rows]
    return Cloud(
        label,
        np.array([run.position + 1 for run in runs]),
        np.array([values[i] for i in rows]),
        size=7.0,
        extra={
            "configuration": ([content.run_point_label(analysis, run) for run in runs], ""),
            "which": ([run_hint(run) for run in runs], ""),
        },
    )


def block_starts(runs: Sequence[RunResult]) -> list[int]:
    """Where each block begins in the order of the runs (0-based positions)."""
    first: dict[int, int] = {}
    for run in runs:
        first[run.block] = min(first.get(run.block, run.position), run.position)
    return sorted(first.values())
