"""Figures over the time of runs: throughput, latencies, and the evidence below each run.

Counts are exact: a bin's rate times its width is what was done in it, a heat map's cells plus what
is said to lie outside are all operations. Scales are common to all runs; where runs of a point are
much shorter than the longest, time ends with theirs.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nfslab.display import numbers
from nfslab.display.figures import Axis, Figure, Heat, Lines, Panel, Rule, View
from nfslab.display.figures import Series as Drawn
from nfslab.report.html import content
from nfslab.report.html.grid import NS
from nfslab.results.groups import grouped
from nfslab.statistics.quantile_estimator import quantile_grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nfslab.report.html.samples import HeatData, RateData
    from nfslab.report.html.series import RunSeries, Series
    from nfslab.report.model import Analysis

TIME = "time since the start of the timed part"
LINK = "time"
LIKE = 0.7
"""Runs that are shorter than so much of the longest have a time axis of their own."""
TOP = 1.04
EVIDENCE_ID = "evidence"
ALL_POINTS = "all configurations"
ALL_POINTS_RUNS_MOST = 120
"""Runs that are drawn on each other where all points are."""
NINES_PAD = 1.02


def figures(analysis: Analysis, series: Series) -> list[Figure]:
    """Those that there is something to draw for, in the order of the page."""
    series = replace(series, runs=_headline_first(analysis, series.runs))
    made = [
        _timeline(analysis, series),
        _percentiles(analysis, series),
        _heat_maps(analysis, series),
        _evidence(analysis, series),
    ]
    return [figure for figure in made if figure.views]


def _headline_first(analysis: Analysis, runs: Sequence[RunSeries]) -> list[RunSeries]:
    """Runs of the two points of the largest change first: what a reader compares to begin with."""
    rows = analysis.comparisons.get(analysis.primary or "", [])
    if not rows:
        return list(runs)
    largest = max(rows, key=lambda row: (row.result.shown, abs(row.result.estimate or 0.0)))
    order = [largest.base_point, largest.point]
    return sorted(runs, key=lambda run: order.index(run.point) if run.point in order else 2)


def by_point(runs: Iterable[RunSeries]) -> dict[int, list[RunSeries]]:
    """Runs of each point, by block."""
    return grouped((run.point, run) for run in runs)


def _keys(found: Iterable[Iterable[str]]) -> list[str]:
    return list(dict.fromkeys(key for keys in found for key in keys))


def _time(series: Series, span: tuple[float, float]) -> Axis:
    low, high = span
    if high - low >= LIKE * series.end_s or high <= low:
        low, high = 0.0, series.end_s
    return Axis(TIME, "s", low=low, high=high)


def _span(key: str, runs: Iterable[RunSeries]) -> tuple[float, float]:
    """First beginning and last end of a quantity in these runs, seconds."""
    found = [run.samples.rates[key] for run in runs if key in run.samples.rates]
    if not found:
        return 0.0, 0.0
    if found[0].each:
        return 0.0, max(data.end_ns for data in found) / NS
    low = min(data.start_ns for data in found)
    return low / NS, max(data.end_ns + data.width_ns for data in found) / NS


def rate_label(key: str, data: RateData) -> str:
    """Such as: transactions per second, output block throughput."""
    name = key.replace("_", " ")
    return f"{name} per second" if data.each else f"{name} throughput"


def rate_series(label: str, data: RateData, colour: str = "") -> Drawn:
    """Per second, in the bins that the end of the run does not cut short; x: their centres."""
    whole = data.whole()
    x = (data.start_ns + (np.arange(whole.size) + 0.5) * data.width_ns) / NS
    return Drawn(label, x, whole / (data.width_ns / NS), colour=colour)


def _most(key: str, runs: Iterable[RunSeries]) -> float:
    """Largest rate of a whole bin."""
    found = [run.samples.rates[key] for run in runs if key in run.samples.rates]
    tops = [float(data.whole().max(initial=0)) * NS / data.width_ns for data in found]
    return max(tops, default=0.0) or 1.0


def _by_block(runs: Iterable[RunSeries]) -> list[RunSeries]:
    return sorted(runs, key=lambda run: run.block)


def _block(run: RunSeries) -> str:
    return f"repetition {run.block + 1}"


def _timeline(analysis: Analysis, series: Series) -> Figure:
    keys = _keys(run.samples.rates for run in series.runs)
    views = []
    for key in keys:
        most = _most(key, series.runs)
        for point, runs in by_point(series.runs).items():
            mine = [run for run in runs if key in run.samples.rates]
            if not mine:
                continue
            width = numbers.quantity(mine[0].samples.rates[key].width_ns, "ns")
            short = sum(not run.samples.rates[key].whole().size for run in mine)
            caption = f"In bins of {width}."
            if short:
                caption += f" Shorter than one bin, so not drawn: {numbers.counted(short, 'run')}."
            label = rate_label(key, mine[0].samples.rates[key])
            choice = (label, content.short_point_label(analysis, point))
            views.append(View(partial(_rates, series, key, mine, most), choice, caption))
    return Figure(
        "timeline",
        "Over the time of each run",
        "What was done per second, one line a run, counted exactly in bins (a last bin that the "
        "end of the run cuts short is not drawn). Dashed: where the check of steadiness found "
        "the end of a warm-up.",
        views,
        ("Quantity", "Point"),
        link=LINK,
    )


def _rates(series: Series, key: str, runs: Sequence[RunSeries], most: float) -> Lines:
    first = runs[0].samples.rates[key]
    lines = [rate_series(_block(run), run.samples.rates[key]) for run in runs]
    top = _most(key, runs) * TOP
    y = Axis(rate_label(key, first), first.unit, low=0.0, high=top, common=(0.0, most * TOP))
    return Lines(_time(series, _span(key, runs)), [Panel("", y, lines, rules=_warm_up(runs))])


def _warm_up(runs: Sequence[RunSeries]) -> list[Rule]:
    ends = sorted((run.warm_up_s for run in runs if run.warm_up_s > 0), reverse=True)
    return [Rule(at, label="" if k else "steady from here") for k, at in enumerate(ends)]


def _percentiles(analysis: Analysis, series: Series) -> Figure:
    views = []
    kinds = _keys(run.samples.quantiles_ns for run in series.runs)
    axes = _percentile_axes(series)
    for kind in kinds:
        runs = [run for run in series.runs if kind in run.samples.quantiles_ns]
        points = by_point(runs)
        chosen = list(points.items())
        if len(points) > 1 and len(runs) <= ALL_POINTS_RUNS_MOST:
            chosen.insert(0, (-1, runs))
        for point, mine in chosen:
            label = ALL_POINTS if point < 0 else content.short_point_label(analysis, point)
            choice = (kind.replace("_", " "), label)
            load = partial(_latencies, analysis, kind, mine, axes, point < 0)
            views.append(View(load, choice))
    return Figure(
        "percentiles",
        "Latency distribution",
        "Latency by percentile, one line a run; a line ends where a run has no more than one "
        "operation beyond. Nearest rank: each value is a latency that was measured, or the upper "
        "edge of its histogram bucket. One scale for all.",
        views,
        ("Operation", "Point"),
    )


def _percentile_axes(series: Series) -> tuple[Axis, Axis]:
    found = [one for run in series.runs for one in run.samples.quantiles_ns.values()]
    nines = max(1.0, math.log10(max([10, *(n for _, n in found)])))
    low, high = latency_domain(series)
    x = Axis(
        "share of the operations that were at least this fast", scale="nines",
        low=0.0, high=1 - 10 ** -(nines * NINES_PAD),
    )  # fmt: skip
    return x, Axis("latency", "s", "log", low=low, high=high)


def latency_domain(series: Series) -> tuple[float, float]:
    """Seconds: whole quarter decades around the least and the largest latency of all runs."""
    found = [one for run in series.runs for one, _ in run.samples.quantiles_ns.values()]
    values = [value for one in found for value in one if value >= 1]
    if not values:
        return 1e-6, 1.0
    low, high = math.log10(min(values)) - 9.0, math.log10(max(values)) - 9.0
    low, high = math.floor(low * 4 - 0.05) / 4, math.ceil(high * 4 + 0.05) / 4
    return 10**low, 10 ** max(high, low + 0.25)


def _latencies(
    analysis: Analysis, kind: str, runs: Sequence[RunSeries], axes: tuple[Axis, Axis], grouped: bool
) -> Lines:
    grid = np.array(quantile_grid())
    lines = []
    for run in runs:
        values, n = run.samples.quantiles_ns[kind]
        y = np.array(values) / NS
        kept = np.isfinite(y) & (grid < 1)
        group = content.short_point_label(analysis, run.point) if grouped else ""
        label = f"{group}, {_block(run)}" if grouped else _block(run)
        said = f"{numbers.count(n)} operations, largest {numbers.quantity(values[-1], 'ns')}"
        hints = [said] * int(kept.sum())
        lines.append(Drawn(label, grid[kept], y[kept], group=group, hints=hints))
    x, y_axis = axes
    return Lines(x, [Panel("", y_axis, lines)])


def _heat_maps(analysis: Analysis, series: Series) -> Figure:
    views = []
    kinds = _keys(run.samples.heat for run in series.runs)
    ends = latency_domain(series)
    for kind in kinds:
        mine = [run for run in _by_block(series.runs) if kind in run.samples.heat]
        most = max(int(run.samples.heat[kind].cells.max()) for run in mine)
        for run in mine:
            data = run.samples.heat[kind]
            outside = f" {numbers.count(data.outside)} outside." if data.outside else ""
            caption = (
                f"{numbers.count(data.total)} operations. A cell: "
                f"{numbers.quantity(data.width_ns, 'ns')} × 1/{data.decade_cells} decade.{outside}"
            )
            point = content.short_point_label(analysis, run.point)
            choice = (kind.replace("_", " "), point, _block(run))
            time = _time(series, _span(kind, [run]))
            load = partial(_heat, time, ends, data, most)
            views.append(View(load, choice, caption))
    return Figure(
        "heatmap",
        "Latency over time",
        "Operations by the time they ended and their latency. All operations are counted, the "
        "logarithm of the count is the colour, with one maximum for all runs of the experiment.",
        views,
        ("Operation", "Point", "Run"),
        link=LINK,
        rank=2,
    )


def _heat(time: Axis, ends: tuple[float, float], data: HeatData, most: int) -> Heat:
    tall, wide = data.cells.shape
    y_edges = data.lowest / data.decade_cells - 9.0 + np.arange(tall + 1) / data.decade_cells
    return Heat(
        time,
        Axis("latency", "s", "log", low=ends[0], high=ends[1]),
        np.arange(wide + 1) * (data.width_ns / NS),
        10.0**y_edges,
        data.cells,
        "operations",
        most=float(most),
    )


def _evidence(analysis: Analysis, series: Series) -> Figure:
    views = []
    for run in _by_block(series.runs):
        if run.panels:
            choice = (content.short_point_label(analysis, run.point), _block(run))
            views.append(View(partial(_below, series, run), choice))
    stride = series.evidence_stride
    note = f" Evidence of 1 in {stride} blocks is in this file." if stride > 1 else ""
    return Figure(
        EVIDENCE_ID,
        "System evidence under each run",
        "Each run's throughput, and below it what was watched meanwhile; of many samples the means "
        "over bins are drawn, of many names (devices, waits) those of the run's places and the "
        f"busiest. Scales are those of the whole experiment.{note}",
        views,
        ("Point", "Run"),
        link=LINK,
    )


def _below(series: Series, run: RunSeries) -> Lines:
    """What was watched, below what was done."""
    return Lines(_time(series, (0.0, run.end_s)), [*_throughput(series, run), *run.panels])


def _throughput(series: Series, run: RunSeries) -> list[Panel]:
    """The panel of what the run did: one line, or one a phase in the unit of the first."""
    first: dict[str, RateData] = {}
    for one in series.runs:
        for key, data in one.samples.rates.items():
            first.setdefault(key, data)
    units = {key: data.unit for key, data in first.items()}
    unit = next(iter(units.values()), "")
    alike = [key for key in units if units[key] == unit]
    mine = [key for key in alike if key in run.samples.rates]
    if not mine:
        return []
    lines = [
        rate_series(rate_label(key, first[key]), run.samples.rates[key], colour="" if k else "fg")
        for k, key in enumerate(mine)
    ]
    top = max(_most(key, series.runs) for key in alike) * TOP
    title = "Throughput by phase" if len(mine) > 1 else rate_label(mine[0], first[mine[0]])
    y = Axis("", unit, low=0.0, high=top)
    return [Panel(title, y, lines, rules=_warm_up([run]), height=1.1)]


def shown_choice(analysis: Analysis, series: Series) -> dict[int, list[str]]:
    """Run index -> the choices that lead to its evidence."""
    return {
        run.run: [content.short_point_label(analysis, run.point), _block(run)]
        for run in series.runs
        if run.panels
    }
