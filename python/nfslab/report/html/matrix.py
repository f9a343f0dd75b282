"""Figures of the matrix: metrics over axes, points, ratios to the baseline.

Points, summaries, comparisons and words are the analysis's; here they are named and arranged, and
what a reader may choose (metric, axes, colours) becomes a view each.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nfslab.display import numbers
from nfslab.display.figures import Axis, Bar, Bars, Figure, Lines, Panel, Series, View
from nfslab.report.html import content
from nfslab.results.groups import grouped

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from nfslab.report.model import Analysis, ComparisonResult, PointResult, RunResult
    from nfslab.statistics.summary import Summary

PANELS_MOST = 24
COLUMNS = 3
"""Panels side by side, where there is room."""
ONE = "one"
TONES: dict[str, Literal["good", "bad", "changed"]] = {
    "better": "good",
    "worse": "bad",
    "changed": "changed",
}


def figures(analysis: Analysis, metrics: Sequence[str]) -> list[Figure]:
    """Those that there is something to draw for, in the order of the page."""
    made: list[Figure] = []
    if metrics and analysis.points:
        numeric = any(content.has_numbers(analysis.axes[i]) for i in content.varying_axes(analysis))
        made.append((over_axes if numeric else by_point)(analysis, metrics))
    if any(analysis.comparisons.get(name) for name in metrics):
        made.append(ratios(analysis, metrics))
    return made


def _label(analysis: Analysis, metric: str) -> str:
    return content.metric_axis(analysis, metric).name


def facets(analysis: Analysis) -> tuple[int, int]:
    """(x, lines) at first: the numeric axis with most levels; lines are the next numeric axis,
    panels the categories. -1: one line."""
    varying = content.varying_axes(analysis)
    axes = analysis.axes
    numeric = sorted(
        (i for i in varying if content.has_numbers(axes[i])), key=lambda i: -len(axes[i].levels)
    )
    x = numeric[0]
    others = [i for i in varying if i != x]
    categories = [i for i in others if not content.has_numbers(axes[i])]
    if len(numeric) > 1:
        return x, numeric[1]
    if len(others) >= 2:
        return x, min(categories, key=lambda i: len(axes[i].levels))
    return x, others[0] if others else -1


def over_axes(analysis: Analysis, metrics: Sequence[str]) -> Figure:
    """A metric against each numeric axis; lines are another axis, panels the rest."""
    varying = content.varying_axes(analysis)
    first = facets(analysis)
    layouts = [first] + [
        (x, lines)
        for x in varying
        if content.has_numbers(analysis.axes[x])
        for lines in [-1, *(i for i in varying if i != x)]
        if (x, lines) != first
    ]
    views = [
        View(
            partial(_over_axes, analysis, name, x, lines),
            (
                _label(analysis, name),
                content.axis_name(analysis.axes[x]),
                ONE if lines < 0 else content.axis_name(analysis.axes[lines]),
            ),
            _scale_caption(analysis, name),
        )
        for x, lines in layouts
        for name in metrics
    ]
    return Figure(
        "metric",
        "Against each axis",
        f"Marks: median of the runs of a configuration, bars: {analysis.interval}; every faint "
        "dot is one "
        "run, none left out. One scale for all panels.",
        views,
        ("Metric", "Against", "Lines"),
    )


def _scale_caption(analysis: Analysis, name: str) -> str:
    return f"{_label(analysis, name)}{content.better(analysis, name)}."


def _over_axes(analysis: Analysis, name: str, x: int, lines: int) -> Lines | None:
    axes = analysis.axes
    y = content.metric_axis(analysis, name)
    levels = [content.level_indexes(axes, point) for point in analysis.points]
    rest = [i for i in content.varying_axes(analysis) if i not in (x, lines)]
    runs = runs_of(analysis)
    panels = []
    for chosen in itertools.product(*(range(len(axes[a].levels)) for a in rest)):
        at = dict(zip(rest, chosen, strict=True))
        inside = [
            point
            for point in analysis.points
            if all(levels[point.index][a] == k for a, k in at.items())
        ]
        if not inside:
            continue
        series: list[Series] = []
        for k in range(len(axes[lines].levels)) if lines >= 0 else (-1,):
            mine = [p for p in inside if k < 0 or levels[p.index][lines] == k]
            mine.sort(key=lambda p: content.level_values(axes[x])[levels[p.index][x]])
            where = [content.level_values(axes[x])[levels[p.index][x]] for p in mine]
            label = level_name(analysis, lines, k) if k >= 0 else y.name
            series += _series(analysis, name, label, mine, where, runs)
        title = " · ".join(level_name(analysis, a, k) for a, k in at.items())
        panels.append(Panel(title, y, series))
    drawn = panels[:PANELS_MOST]
    return Lines(content.drawn_axis(axes[x]), drawn, columns=COLUMNS) if drawn else None


def level_name(analysis: Analysis, axis: int, level: int) -> str:
    """What a line or panel of that level is called: "clients 10", "log apart"."""
    info = analysis.axes[axis]
    shown = content.shown_levels(info)[level]
    return content.named_level(info, shown)


def runs_of(analysis: Analysis) -> dict[int, list[RunResult]]:
    """Counted runs by point, by block."""
    by_block = sorted(analysis.runs, key=lambda run: run.block)
    return grouped((run.point, run) for run in by_block if run.counted and run.point is not None)


def _series(
    analysis: Analysis,
    name: str,
    label: str,
    points: Sequence[PointResult],
    where: Sequence[float],
    runs: dict[int, list[RunResult]],
) -> list[Series]:
    """The medians with their intervals, and every run."""
    info = analysis.metric(name)
    unit = info.unit if info else ""
    known = [
        (x, found)
        for x, point in zip(where, points, strict=True)
        if (found := point.estimates.get(name)) is not None and found.median is not None
    ]
    single = [
        (x, run)
        for x, point in zip(where, points, strict=True)
        for run in runs.get(point.index, ())
        if math.isfinite(run.metrics.get(name, math.nan))
    ]
    return [
        Series(
            label,
            np.array([x for x, _ in known]),
            np.array([found.median for _, found in known], dtype=float),
            low=np.array([_end(found, "low") for _, found in known]),
            high=np.array([_end(found, "high") for _, found in known]),
            group=label,
            hints=[estimate_hint(found, unit) for _, found in known],
        ),
        Series(
            f"{label}, one run",
            np.array([x for x, _ in single]),
            np.array([run.metrics[name] for _, run in single]),
            draw="dots",
            group=label,
            hints=[run_hint(run) for _, run in single],
        ),
    ]


def _end(found: Summary, end: str) -> float:
    return math.nan if found.interval is None else float(getattr(found.interval, end))


def estimate_hint(found: Summary, unit: str) -> str:
    """What a summary holds beside its median and interval."""
    facts = (
        ("mean", found.mean),
        ("standard deviation", found.standard_deviation),
        ("min", found.minimum),
        ("max", found.maximum),
    )
    told = [f"{name} {numbers.quantity(value, unit)}" for name, value in facts]
    return "; ".join([f"median of {numbers.counted(found.n, 'run')}", *told])


def run_hint(run: RunResult) -> str:
    """Which run, and what was flagged."""
    flags = f", flags: {', '.join(run.flags)}" if run.flags else ""
    return f"repetition {run.block + 1}, run {run.position + 1} in order{flags}"


def by_point(analysis: Analysis, metrics: Sequence[str]) -> Figure:
    """One row a point: the main figure of designs without a numeric axis."""
    return Figure(
        "points",
        "Every configuration and every run",
        f"Mark: median of the runs of a configuration, bar: {analysis.interval}; every faint dot "
        "is one "
        "run, none left out.",
        [
            View(
                partial(_by_point, analysis, name),
                (_label(analysis, name),),
                _scale_caption(analysis, name),
            )
            for name in metrics
        ],
        ("Metric",),
    )


def _by_point(analysis: Analysis, name: str) -> Bars | None:
    runs = runs_of(analysis)
    axis = content.metric_axis(analysis, name)
    bars = []
    for point in analysis.points:
        found = point.estimates.get(name)
        interval = found.interval if found else None
        values = [run.metrics[name] for run in runs.get(point.index, ()) if name in run.metrics]
        bars.append(
            Bar(
                content.short_point_label(analysis, point.index),
                found.median if found else None,
                low=interval.low if interval else None,
                high=interval.high if interval else None,
                hint=f"{numbers.quantity(found.median, axis.unit)} (n {found.n})" if found else "",
                tone="changed",
                dots=[v for v in values if math.isfinite(v)],
            )
        )
    return Bars(axis, bars, marks=True) if any(bar.value is not None for bar in bars) else None


def ratios(analysis: Analysis, metrics: Sequence[str]) -> Figure:
    """Each comparison as a ratio to its baseline, with its interval and its words."""
    views = []
    order = [axis.name for axis in sorted(analysis.axes, key=lambda axis: axis.numeric)]
    for name in metrics:
        rows = analysis.comparisons.get(name, [])
        for axis in sorted({row.axis for row in rows}, key=order.index):
            mine = [row for row in rows if row.axis == axis]
            bare = sum(row.result.ratio is None for row in mine)
            caption = (
                f"{numbers.counted(bare, 'comparison')} without a ratio: in the table only."
                if bare
                else ""
            )
            choice = (_label(analysis, name), axis.replace("_", " "))
            views.append(View(partial(_ratios, analysis, name, mine), choice, caption))
    baseline = ", ".join(
        f"{axis.replace('_', ' ')} {level}" for axis, level in analysis.baseline.items()
    )
    return Figure(
        "ratio",
        "Against the baseline",
        f"Ratio to the baseline{f' ({baseline})' if baseline else ''}, log scale; the line at 1 is "
        '"the same". Bars: the interval at which the word was found; filled: a difference was '
        f"shown, hollow: none was, or too few runs. {analysis.comparison_method}",
        views,
        ("Metric", "Compared axis"),
    )


def _ratios(analysis: Analysis, name: str, rows: Sequence[ComparisonResult]) -> Bars:
    return Bars(
        Axis(f"ratio of {_label(analysis, name)}{content.better(analysis, name)}", scale="log"),
        [_ratio_bar(analysis, row) for row in rows],
        reference=1.0,
        marks=True,
    )


def _ratio_bar(analysis: Analysis, row: ComparisonResult) -> Bar:
    found = row.result
    drawn = found.ratio is not None and found.ratio > 0
    bounded = drawn and found.interval is not None and found.interval.low > 0
    label, _ = content.compared_labels(analysis, row)
    words = [f"{numbers.ratio(found.ratio)} ×" if drawn else "", found.verdict]
    if found.p_adjusted is not None:
        words.append(f"(p {numbers.p_value(found.p_adjusted)})")
    return Bar(
        label,
        found.ratio if drawn else None,
        low=found.interval.low if bounded and found.interval else None,
        high=found.interval.high if bounded and found.interval else None,
        tone=TONES.get(row.sense, "faint"),
        hint=" ".join(word for word in words if word),
    )
