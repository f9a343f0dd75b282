"""Names and axes of an analysis as figures and tables show them. Nothing is estimated here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nfslab.display import numbers
from nfslab.display.figures import Axis
from nfslab.quantities import format_size, parse_size_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.report.model import Analysis, AxisInfo, ComparisonResult, PointResult, RunResult

LOG_FROM_RATIO = 40.0
"""A metric whose largest value is so many times its smallest starts on a log scale."""
LEVEL_PAD = 0.07
"""Room beside the first and the last level of an axis."""
NOT_COUNTED = "not counted"
SWITCHES = ("true", "false", "yes", "no", "on", "off", "none")
_UNIT_ENDINGS = {
    "ms": "_ms",
    "s": "_s",
    "B": "_bytes",
    "B/s": "_bytes_per_s",
    "%": "_pct",
    "1/s": "_per_s",
    "us": "_us",
    "ns": "_ns",
}


def metric_label(name: str, unit: str) -> str:
    """A metric's name for people: "latency_p99_ms" is "latency p99"; the unit is shown."""
    ending = _UNIT_ENDINGS.get(numbers.shown_unit(unit), "")
    if ending and name.endswith(ending) and len(name) > len(ending):
        name = name[: -len(ending)]
    return name.replace("_", " ")


def axis_name(axis: AxisInfo) -> str:
    """Its name for people."""
    return axis.name.replace("_", " ")


def axis_unit(axis: AxisInfo) -> str:
    """The unit that stands beside its name: none where levels carry it."""
    unit = numbers.shown_unit(axis.unit)
    return "" if unit == "1" or (unit == "B" and has_numbers(axis)) else unit


def has_numbers(axis: AxisInfo) -> bool:
    """Does it lie on a scale of numbers?"""
    return axis.numeric and len(axis.numbers or []) == len(axis.levels) > 0


def shown_levels(axis: AxisInfo) -> list[str]:
    """Its levels as people read them: sizes with their unit, names that were given as they are."""
    if has_numbers(axis) and numbers.shown_unit(axis.unit) == "B":
        return [
            format_size(n) if _is_size(level) else str(level)
            for level, n in zip(axis.levels, axis.numbers or [], strict=True)
        ]
    return [str(level) for level in axis.levels]


def _is_size(level: object) -> bool:
    try:
        parse_size_bytes(level)
    except ValueError:
        return False
    return True


def level_values(axis: AxisInfo) -> list[float]:
    """Where its levels stand: as numbers, else 0, 1, 2."""
    if has_numbers(axis):
        return [float(n) for n in axis.numbers or []]
    return [float(i) for i in range(len(axis.levels))]


def drawn_axis(axis: AxisInfo) -> Axis:
    """It as an axis of figures, with room beside its levels."""
    name = f"{axis_name(axis)} ({axis_unit(axis)})" if axis_unit(axis) else axis_name(axis)
    if not has_numbers(axis):
        return Axis(name, scale="ordinal", levels=shown_levels(axis))
    at = level_values(axis)
    log = axis.log and min(at) > 0
    ends = [math.log10(value) for value in at] if log else at
    pad = (max(ends) - min(ends)) * LEVEL_PAD or 0.5
    low, high = min(ends) - pad, max(ends) + pad
    return Axis(
        name,
        scale="log" if log else "linear",
        levels=shown_levels(axis),
        at=at,
        low=10**low if log else low,
        high=10**high if log else high,
    )


def varying_axes(analysis: Analysis) -> list[int]:
    """Indexes of axes with two levels or more."""
    return [i for i, axis in enumerate(analysis.axes) if len(axis.levels) > 1]


def level_indexes(axes: Sequence[AxisInfo], point: PointResult) -> list[int]:
    """Index of the point's level on every axis (0 where the axis does not know it)."""
    found = []
    for axis in axes:
        level = point.factors.get(axis.name)
        names = [str(item) for item in axis.levels]
        found.append(names.index(str(level)) if str(level) in names else 0)
    return found


def short_point_label(analysis: Analysis, index: int, without: str = "") -> str:
    """ "log apart · clients 10": varying axes only, leaving one out."""
    point = analysis.points[index]
    parts = []
    for axis in analysis.axes:
        if axis.name == without or len(axis.levels) < 2:
            continue
        level = shown_level(analysis, index, axis.name)
        parts.append(named_level(axis, level))
    return " · ".join(parts) or ("" if without else point.label)


def named_level(axis: AxisInfo, shown: str) -> str:
    """ "clients 10", "log apart": numbers and words like "off" say nothing without their axis."""
    alone = not axis.numeric and not shown[:1].isdigit() and shown.lower() not in SWITCHES
    return shown if alone else f"{axis_name(axis)} {shown}"


def run_point_label(analysis: Analysis, run: RunResult) -> str:
    """What the point of a run is called."""
    return "not planned" if run.point is None else short_point_label(analysis, run.point)


def shown_level(analysis: Analysis, index: int, axis: str) -> str:
    """A point's level on an axis as people read it (sizes with their unit)."""
    for place, one in enumerate(analysis.axes):
        if one.name == axis:
            return shown_levels(one)[level_indexes(analysis.axes, analysis.points[index])[place]]
    return analysis.points[index].label


def metric_values(analysis: Analysis, name: str) -> list[float]:
    """Everything of a metric that a figure may draw: counted runs, medians, intervals."""
    values = [run.metrics[name] for run in analysis.runs if run.counted and name in run.metrics]
    for point in analysis.points:
        summary = point.estimates.get(name)
        if summary is not None and summary.interval is not None:
            values += [summary.interval.low, summary.interval.high]
    return [v for v in values if math.isfinite(v)]


def metric_axis(analysis: Analysis, name: str) -> Axis:
    """A metric as an axis of figures; the page finds its ends."""
    info = analysis.metric(name)
    values = metric_values(analysis, name)
    positive = bool(values) and min(values) > 0
    wide = positive and max(values) / min(values) >= LOG_FROM_RATIO
    unit = numbers.shown_unit(info.unit if info else "")
    return Axis(
        metric_label(name, unit), unit, scale="log" if wide else "linear", log_choice=positive
    )


def better(analysis: Analysis, name: str) -> str:
    """ ", higher is better", or nothing."""
    info = analysis.metric(name)
    return f", {info.better} is better" if info and info.better else ""


def compared_labels(analysis: Analysis, item: ComparisonResult) -> tuple[str, str]:
    """The point and its baseline, with the compared axis first."""
    numeric = any(axis.name == item.axis and axis.numeric for axis in analysis.axes)
    name = f"{item.axis.replace('_', ' ')} " if numeric else ""
    rest = short_point_label(analysis, item.point, without=item.axis)
    tail = f" · {rest}" if rest else ""
    new, base = (shown_level(analysis, i, item.axis) for i in (item.point, item.base_point))
    return f"{name}{new}{tail}", f"{name}{base}{tail}"


def interval_text(analysis: Analysis, item: ComparisonResult) -> str:
    """The interval of the ratio (or of the difference, with its unit) in words."""
    interval = item.result.interval
    if interval is None:
        return numbers.ABSENT
    if item.result.ratio is None:
        info = analysis.metric(item.metric)
        unit = info.unit if info else ""
        return numbers.interval(interval.low, interval.high, unit) + " (difference)"
    return numbers.interval(interval.low, interval.high)


def run_status(run: RunResult) -> str:
    """ok, failed, or ok but in no figure (a newer attempt counts, or it was not planned)."""
    if run.status == "ok" and not run.counted:
        return NOT_COUNTED
    return run.status
