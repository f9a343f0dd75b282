"""The analysis -> the main part of the payload: what the page draws and in which ranges.

Nothing is estimated here. Points, summaries, comparisons and words are taken from the
analysis as they are; this module arranges them in columns, names them, and computes the
ranges of axes: one a metric, wide enough for every run and every interval, so that all
panels of a figure share it and nothing is cut off.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nfslab.quantities import format_size
from nfslab.report.html import payload, wording
from nfslab.report.html.payload import json_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nfslab.report.model import Analysis, AxisInfo, ComparisonResult, PointResult, RunResult

LOG_FROM_RATIO = 40.0
"""A metric whose largest value is so many times its smallest starts on a log scale."""
ZERO_BELOW_SHARE = 0.5
"""A linear scale starts at 0 when the smallest value is below this share of the largest."""
PAD = 0.05
SENSES = {"better": "good", "worse": "bad"}
NOT_COUNTED = "not counted"


def axis_content(axis: AxisInfo) -> payload.Axis:
    """One axis with the places of its levels."""
    numbers = [float(n) for n in axis.numbers or []]
    numeric = axis.numeric and len(numbers) == len(axis.levels) > 0
    log = numeric and axis.log and min(numbers) > 0
    if log:
        positions = [math.log10(n) for n in numbers]
    elif numeric:
        positions = list(numbers)
    else:
        positions = [float(i) for i in range(len(axis.levels))]
    low, high = min(positions, default=0.0), max(positions, default=0.0)
    pad = (high - low) * 0.07 or 0.5
    levels = [str(level) for level in axis.levels]
    unit = wording.shown_unit(axis.unit)
    sized = numeric and unit == "B"
    return {
        "name": axis.name.replace("_", " "),
        "unit": "" if sized or unit == "1" else unit,
        "numeric": numeric,
        "scale": "log" if log else "linear" if numeric else "ordinal",
        "levels": levels,
        "shown": [format_size(n) for n in numbers] if sized else levels,
        "values": numbers if numeric else None,
        "positions": positions,
        "domain": [low - pad, high + pad],
    }


def level_indexes(axes: Sequence[AxisInfo], point: PointResult) -> list[int]:
    """Index of the point's level on every axis (0 where the axis does not know it)."""
    found = []
    for axis in axes:
        level = point.factors.get(axis.name)
        names = [str(item) for item in axis.levels]
        found.append(names.index(str(level)) if str(level) in names else 0)
    return found


def metric_values(analysis: Analysis, name: str) -> list[float]:
    """Everything of a metric that a figure may draw: counted runs, medians, intervals."""
    values = [run.metrics[name] for run in analysis.runs if run.counted and name in run.metrics]
    for point in analysis.points:
        summary = point.estimates.get(name)
        if summary is not None and summary.interval is not None:
            values += [summary.interval.low, summary.interval.high]
    return [v for v in values if math.isfinite(v)]


def metric_content(analysis: Analysis, name: str) -> payload.MetricInfo | None:
    """One metric with its ranges; None when no counted run has a value of it."""
    info = analysis.metric(name)
    values = metric_values(analysis, name)
    if info is None or not values:
        return None
    low, high = min(values), max(values)
    positive = low > 0
    logarithmic = positive and high / low >= LOG_FROM_RATIO
    return {
        "name": name,
        "label": wording.metric_label(name, info.unit),
        "unit": wording.shown_unit(info.unit),
        "better": info.better,
        "primary": name == analysis.primary,
        "positive": positive,
        "scale": "log" if logarithmic else "linear",
        "domain": linear_domain(low, high),
        "log_domain": log_domain(low, high) if positive else [0.0, 1.0],
    }


def linear_domain(low: float, high: float) -> payload.Domain:
    """A range around [low, high]; from 0 unless that would squeeze the values."""
    if low >= 0 and low <= ZERO_BELOW_SHARE * high:
        return [0.0, high * (1 + PAD) or 1.0]
    pad = (high - low) * 2 * PAD or abs(high) * PAD or 1.0
    return [max(0.0, low - pad) if low >= 0 else low - pad, high + pad]


def log_domain(low: float, high: float) -> payload.Domain:
    """The same in decades; at least a fifth of one, so that noise is not blown up."""
    a, b = math.log10(low), math.log10(high)
    pad = max((b - a) * PAD, (0.2 - (b - a)) / 2, 0.02)
    return [a - pad, b + pad]


def estimates(analysis: Analysis, name: str) -> payload.Estimates:
    """One metric's summaries as columns, one entry a point."""
    found = [point.estimates.get(name) for point in analysis.points]

    def column(attribute: str) -> list[float | None]:
        return [None if s is None else json_number(getattr(s, attribute)) for s in found]

    intervals = [None if s is None else s.interval for s in found]
    return {
        "n": [0 if s is None else s.n for s in found],
        "median": column("median"),
        "low": [None if i is None else json_number(i.low) for i in intervals],
        "high": [None if i is None else json_number(i.high) for i in intervals],
        "mean": column("mean"),
        "stdev": column("standard_deviation"),
        "min": column("minimum"),
        "max": column("maximum"),
    }


def short_point_label(analysis: Analysis, index: int, without: str = "") -> str:
    """ "log apart · clients 10": varying axes only, leaving one out."""
    point = analysis.points[index]
    parts = []
    for axis in analysis.axes:
        if axis.name == without or len(axis.levels) < 2:
            continue
        level = shown_level(analysis, index, axis.name)
        parts.append(f"{axis.name.replace('_', ' ')} {level}" if axis.numeric else level)
    return " · ".join(parts) or ("" if without else point.label)


def shown_level(analysis: Analysis, index: int, axis: str) -> str:
    """A point's level on an axis as people read it (sizes with their unit)."""
    found = [i for i, one in enumerate(analysis.axes) if one.name == axis]
    if not found:
        return analysis.points[index].label
    place = level_indexes(analysis.axes, analysis.points[index])[found[0]]
    return axis_content(analysis.axes[found[0]])["shown"][place]


def comparison_row(analysis: Analysis, item: ComparisonResult) -> payload.ComparisonRow:
    """One comparison; a bound at infinity has no place on an axis and is in the text."""
    result = item.result
    interval = result.interval
    new, base = (shown_level(analysis, i, item.axis) for i in (item.point, item.base_point))
    numeric = any(axis.name == item.axis and axis.numeric for axis in analysis.axes)
    name = f"{item.axis.replace('_', ' ')} " if numeric else ""
    rest = short_point_label(analysis, item.point, without=item.axis)
    on_ratio = result.ratio is not None and interval is not None
    return {
        "axis": item.axis,
        "label": f"{name}{new}" + (f" · {rest}" if rest else ""),
        "base_label": f"{name}{base}" + (f" · {rest}" if rest else ""),
        "n": result.n_new,
        "base_n": result.n_base,
        "ratio": json_number(result.ratio),
        "low": json_number(interval.low) if on_ratio and interval else None,
        "high": json_number(interval.high) if on_ratio and interval else None,
        "interval_text": interval_text(item, wording.shown_unit(_unit(analysis, item.metric))),
        "p": json_number(result.p_value),
        "p_adjusted": json_number(result.p_adjusted),
        "word": result.verdict,
        "sense": "unknown" if item.sense == "unknown" else SENSES.get(item.sense, item.sense),
    }


def _unit(analysis: Analysis, metric: str) -> str:
    info = analysis.metric(metric)
    return info.unit if info else ""


def interval_text(item: ComparisonResult, unit: str) -> str:
    """The interval of the ratio (or of the difference, with its unit) in words."""
    interval = item.result.interval
    if interval is None:
        return wording.ABSENT
    if item.result.ratio is None:
        return wording.span(interval.low, interval.high, unit) + " (difference)"
    return wording.span(interval.low, interval.high, "")


def comparisons(analysis: Analysis) -> payload.Comparisons:
    """All comparisons by metric, with one range for each metric and compared axis."""
    rows = {
        metric: [comparison_row(analysis, item) for item in items]
        for metric, items in analysis.comparisons.items()
        if items
    }
    domains: dict[str, dict[str, payload.Domain]] = {}
    for metric, items in rows.items():
        for axis in dict.fromkeys(row["axis"] for row in items):
            mine = [row for row in items if row["axis"] == axis]
            domains.setdefault(metric, {})[axis] = ratio_domain(mine)
    names = {axis.name: axis.name.replace("_", " ") for axis in analysis.axes}
    order = [axis.name for axis in sorted(analysis.axes, key=lambda a: a.numeric)]
    return {
        "rows": rows,
        "domain": domains,
        "axes": [[name, names[name]] for name in order],
        "baseline": ", ".join(
            f"{names.get(axis, axis)} {level}" for axis, level in analysis.baseline.items()
        ),
        "method": analysis.comparison_method,
    }


def ratio_domain(rows: Iterable[payload.ComparisonRow]) -> payload.Domain:
    """log10 of the ratios and their intervals, around 1, as far to either side as needed."""
    values = [v for row in rows for v in (row["ratio"], row["low"], row["high"]) if v and v > 0]
    if not values:
        return [-0.1, 0.1]
    low, high = min(0.0, *map(math.log10, values)), max(0.0, *map(math.log10, values))
    pad = max((high - low) * 0.06, 0.01)
    return [low - pad, high + pad]


def facets(axes: Sequence[payload.Axis]) -> payload.Facets:
    """How the main figure starts: x is the first numeric axis with most levels, lines are
    the next numeric axis (the 2001 studies), panels the categories."""
    varying = [i for i, axis in enumerate(axes) if len(axis["levels"]) > 1]
    numeric = sorted(
        (i for i in varying if axes[i]["numeric"]), key=lambda i: -len(axes[i]["levels"])
    )
    if not numeric:
        return {"x": -1, "series": -1}
    x = numeric[0]
    others = [i for i in varying if i != x]
    categories = [i for i in others if not axes[i]["numeric"]]
    if len(numeric) > 1:
        series = numeric[1]
    elif len(others) >= 2:
        series = min(categories, key=lambda i: len(axes[i]["levels"]))
    else:
        series = others[0] if others else -1
    return {"x": x, "series": series}


def runs_content(
    analysis: Analysis, metrics: Sequence[str], warm_up_s: dict[int, float], shown: set[int]
) -> payload.Runs:
    """All sealed runs as columns. Runs that do not count keep their values, marked."""
    runs = analysis.runs
    return {
        "id": [run.run_id for run in runs],
        "point": [-1 if run.point is None else run.point for run in runs],
        "block": [run.block for run in runs],
        "position": [run.position for run in runs],
        "status": [run_status(run) for run in runs],
        "counted": [run.counted for run in runs],
        "reason": [run.reason for run in runs],
        "flags": [list(run.flags) for run in runs],
        "duration_s": [run.duration_ns / 1e9 for run in runs],
        "warm_up_s": [warm_up_s.get(i) for i in range(len(runs))],
        "has_series": [i in shown for i in range(len(runs))],
        "values": {name: [json_number(run.metrics.get(name)) for run in runs] for name in metrics},
        "relative": {
            name: found for name in metrics if (found := relative(analysis, name)) is not None
        },
    }


def relative(analysis: Analysis, name: str) -> payload.Relative | None:
    """A metric of every counted run over the median of its point; None without any ratio."""
    medians = [
        summary.median if (summary := point.estimates.get(name)) else None
        for point in analysis.points
    ]
    values: list[float | None] = []
    for run in analysis.runs:
        value = run.metrics.get(name) if run.counted and run.point is not None else None
        median = medians[run.point] if run.point is not None else None
        values.append(json_number(value / median) if value is not None and median else None)
    known = [v for v in values if v is not None]
    if not known:
        return None
    far = max(max(known) - 1.0, 1.0 - min(known), 0.05) * 1.1
    return {"values": values, "domain": [1.0 - far, 1.0 + far]}


def run_status(run: RunResult) -> str:
    """ok, failed, or ok but in no figure (a newer attempt counts, or it was not planned)."""
    if run.status == "ok" and not run.counted:
        return NOT_COUNTED
    return run.status


def block_starts(runs: Sequence[RunResult]) -> list[payload.BlockStart]:
    """Where each block begins in the order of the runs (0-based positions)."""
    first: dict[int, int] = {}
    for run in runs:
        first[run.block] = min(first.get(run.block, run.position), run.position)
    return [{"at": float(at)} for at in sorted(first.values())]
