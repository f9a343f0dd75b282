"""What the template shows: rows with texts and sort keys, warnings in order, flat facts.

Only wording happens here; the numbers are the analysis's. Warnings are ordered by weight,
and those that the report itself has to make (series left out, a file it could not read) are
added to those of the analysis.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from nfslab.display import cells, numbers
from nfslab.display.sections import Cell, Column, Table
from nfslab.evidence.found import point_columns
from nfslab.quantities import format_size
from nfslab.report.html import content

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from nfslab.display.sections import Tone
    from nfslab.report.html.series import Series
    from nfslab.report.model import Analysis, ComparisonResult, RunResult
    from nfslab.statistics.summary import Summary

VERDICT_SHOWN = 2
"""Sentences of the verdict in the open; the others fold."""
LEVELS_SHOWN = 6
"""Of an axis, in the question."""
DOUBT_CHARACTERS = 110
"""Of the first warning in the line that stands for all."""
FLAT_MOST = 400
"""Facts of one list; a longer one is cut with a count."""
STYLES = {
    "violation": ("severe", "Violation"),
    "warning": ("medium", "Warning"),
    "note": ("light", "Note"),
}
_ORDER = list(STYLES)
TONES: dict[str, Tone] = {"better": "good", "worse": "warning"}
_SUMMED = ("median", "minimum", "maximum")
METRICS_MOST = 4
"""Metrics with a column in the table of runs."""


def sentences(verdict: str) -> list[str]:
    """The verdict, a paragraph each for lines of its own."""
    return [part.strip() for part in verdict.splitlines() if part.strip()]


def warnings(analysis: Analysis, series: Series | None) -> list[dict[str, Any]]:
    """Warnings by weight, with the report's own."""
    found = [(w.severity, w.text, list(w.runs)) for w in analysis.warnings]
    if series is not None and series.problems:
        ids = [run.run_id for run in analysis.runs]
        reasons = sorted(set(series.problems.values()))
        text = (
            "Samples or evidence of some runs cannot be read, so that they are missing "
            f"from the figures over time: {'; '.join(reasons[:3])}"
        )
        found.append(("warning", text, [ids[i] for i in series.problems]))
    found.sort(key=lambda item: _ORDER.index(item[0]))
    return [
        {"style": STYLES[severity][0], "word": STYLES[severity][1], "text": text, "runs": runs}
        for severity, text, runs in found
    ]


def question(analysis: Analysis) -> str:
    """What was varied: each axis with its levels."""
    return " × ".join(
        f"{axis.name} ({', '.join(map(str, axis.levels[:LEVELS_SHOWN]))}"
        f"{', ...' if len(axis.levels) > LEVELS_SHOWN else ''})"
        for axis in analysis.axes
        if len(axis.levels) > 1
    )


def doubt(found: Sequence[Mapping[str, Any]]) -> str:
    """All warnings in a line: how many of which weight, and how the first one begins."""
    if not found:
        return ""
    words = [one["word"].lower() for one in found]
    counts = ", ".join(numbers.counted(words.count(word), word) for word in dict.fromkeys(words))
    text = found[0]["text"]
    more = "" if len(text) <= DOUBT_CHARACTERS else " ..."
    return f"{counts}: {text[:DOUBT_CHARACTERS].rstrip()}{more}"


def baseline_text(analysis: Analysis) -> str:
    """The baseline in words."""
    return ", ".join(f"{axis} {level}" for axis, level in analysis.baseline.items())


def _known(value: float | None) -> float | str:
    """What sorting compares."""
    return "" if value is None else value


def comparison_tables(analysis: Analysis) -> list[Table]:
    """One table a metric, the primary one first."""
    names = [name for name, rows in analysis.comparisons.items() if rows]
    names.sort(key=lambda name: name != analysis.primary)
    columns = [
        *(Column(title, numeric=False) for title in ("configuration", "baseline")),
        *map(Column, ("runs", "ratio", "interval", "p adjusted")),
        Column("result", numeric=False),
    ]
    return [
        Table(
            f"{content.metric_axis(analysis, name).name} against {baseline_text(analysis)}",
            columns,
            [_comparison(analysis, item) for item in analysis.comparisons[name]],
        )
        for name in names
    ]


def _comparison(analysis: Analysis, item: ComparisonResult) -> list[Cell]:
    result = item.result
    info = analysis.metric(item.metric)
    if result.ratio is not None:
        size = f"{numbers.ratio(result.ratio)} ×"
    elif result.difference is not None:
        size = f"{numbers.quantity(result.difference, info.unit if info else '')} (difference)"
    else:
        size = numbers.ABSENT
    label, base_label = content.compared_labels(analysis, item)
    return [
        Cell(label),
        Cell(base_label),
        Cell(f"{result.n_new} / {result.n_base}", result.n_new),
        Cell(size, _known(result.ratio)),
        Cell(content.interval_text(analysis, item)),
        Cell(numbers.p_value(result.p_adjusted), _known(result.p_adjusted)),
        Cell(result.verdict, tone=TONES.get(item.sense, "")),
    ]


def estimate_table(analysis: Analysis) -> Table | None:
    """The primary metric at every point."""
    info = analysis.metric(analysis.primary) if analysis.primary else None
    if info is None:
        return None
    more, beside = point_columns(analysis)
    columns = [
        *level_columns(analysis),
        *map(Column, ("runs", "failed", "median", "interval", "standard deviation")),
        *map(Column, ("min", "max")),
        *more,
    ]
    rows = []
    for point in analysis.points:
        summary = point.estimates.get(info.name)
        row = [*level_cells(analysis, point.index), _whole(summary.n if summary else 0)]
        row += [_whole(point.failed), *_estimate(summary, info.unit), *beside[point.index]]
        rows.append(row)
    label = content.metric_label(info.name, info.unit)
    note = f"{analysis.interval}. Outliers are in all figures and in every estimate."
    return Table(f"{label} at every configuration", columns, rows, note=note)


def level_columns(analysis: Analysis) -> list[Column]:
    """Headings for where a point lies: one a varying axis."""
    axes = [analysis.axes[i] for i in content.varying_axes(analysis)]
    found = [Column(content.drawn_axis(axis).name, content.has_numbers(axis)) for axis in axes]
    return found or [Column("configuration", numeric=False)]


def level_cells(analysis: Analysis, point: int | None) -> list[Cell]:
    """Where a point lies on the varying axes; None: it is not planned."""
    varying = content.varying_axes(analysis)
    if point is None:
        return [Cell(numbers.ABSENT, "")] * max(1, len(varying))
    if not varying:
        return [Cell(analysis.points[point].label)]
    levels = content.level_indexes(analysis.axes, analysis.points[point])
    return [
        Cell(
            content.shown_levels(analysis.axes[i])[levels[i]],
            content.level_values(analysis.axes[i])[levels[i]],
        )
        for i in varying
    ]


def _whole(value: int) -> Cell:
    return Cell(numbers.count(value), value)


def _estimate(summary: Summary | None, unit: str) -> list[Cell]:
    if summary is None:
        return [Cell(numbers.ABSENT, "")] * 5
    ends = summary.interval
    return [
        cells.quantity(summary.median, unit),
        cells.interval(ends.low, ends.high, unit) if ends else Cell(numbers.ABSENT, ""),
        cells.quantity(summary.standard_deviation, unit),
        cells.quantity(summary.minimum, unit),
        cells.quantity(summary.maximum, unit),
    ]


def runs_table(
    analysis: Analysis, metrics: Sequence[str], figure: str, choices: Mapping[int, Sequence[str]]
) -> Table:
    """Every sealed run; a run's name leads to the view of `figure` with its choices."""
    shown = [name for name in metrics if _tells(analysis, name)][:METRICS_MOST]
    axes = {name: content.metric_axis(analysis, name) for name in shown}
    views = {analysis.runs[i].run_id: json.dumps(list(one)) for i, one in choices.items()}
    return Table.of("All runs", analysis.runs, [
        (Column("place", hint="place in the order of runs"), lambda run: _whole(run.position + 1)),
        (Column("run", numeric=False), lambda run: Cell(run.run_id, views.get(run.run_id))),
        (Column("repetition"), lambda run: _whole(run.block + 1)),
        (level_columns(analysis), lambda run: level_cells(analysis, run.point)),
        (Column("status", numeric=False), _status),
        (Column("flags, or why it failed", numeric=False), _said),
        ([Column(axis.name) for axis in axes.values()], lambda run: [
            cells.quantity(run.metrics.get(name), axis.unit) for name, axis in axes.items()]),
        (Column("duration"), lambda run: cells.quantity(run.duration_ns, "ns")),
    ], look=(1, figure))  # fmt: skip


def _status(run: RunResult) -> Cell:
    status = content.run_status(run)
    return Cell(status, tone="faint" if status == "ok" else "warning")


def _said(run: RunResult) -> Cell:
    failed = run.status == "failed"
    said = run.reason.partition("\n")[0] if failed else ", ".join(run.flags)
    return Cell(said or numbers.ABSENT)


def _tells(analysis: Analysis, name: str) -> bool:
    """The primary metric, or one with a direction that is not the same in all runs."""
    info = analysis.metric(name)
    values = {run.metrics[name] for run in analysis.runs if name in run.metrics}
    return info is not None and (info.primary or (bool(info.better) and len(values) > 1))


def flat(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Nested facts as (dotted path, text); lists of plain values on one line."""
    found = list(_flatten("", value))
    if len(found) > FLAT_MOST:
        return [*found[:FLAT_MOST], ("…", f"{len(found) - FLAT_MOST} more in the results folder")]
    return found


KEY_FACTS = (
    "kernel.release",
    "kernel.distribution",
    "cpu.model",
    "cpu.logical",
    "cpu.governors",
    "memory.MemTotal_bytes",
    "clock.source",
    "virtualisation.",
    "nfslab.core.profile",
)
"""What of a machine's many facts stands in the open (a point at the end: all below)."""


def machine_facts(machine: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """The facts to show at once, and the rest."""
    first: list[tuple[str, str]] = []
    rest: list[tuple[str, str]] = []
    for key, text in flat(machine):
        chosen = any(key == k or (k.endswith(".") and key.startswith(k)) for k in KEY_FACTS)
        if key.endswith("_bytes") and text.isdecimal():
            text = f"{format_size(int(text))}"
        (first if chosen else rest).append((key, text))
    return {"first": first, "rest": rest}


def _flatten(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flatten(f"{path}.{key}" if path else str(key), item)
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for i, item in enumerate(value):
            yield from _flatten(f"{path}[{i}]", item)
    elif isinstance(value, list):
        yield path, ", ".join(plain_text(item) for item in value) or numbers.ABSENT
    else:
        yield path, plain_text(value)


def plain_text(value: Any) -> str:
    """A value as people write it: yes and no, floats without noise."""
    if value is None or value == "":
        return numbers.ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def evidence_table(analysis: Analysis) -> Table | None:
    """What collectors summed up: one row a number and point."""
    labels = {point.point_id: point.label for point in analysis.points}
    rows = [
        [Cell(collector), Cell(name), Cell(labels.get(point_id, point_id)), _whole(facts["n"])]
        + [Cell(numbers.number(facts[key], 4), facts[key]) for key in _SUMMED]
        for collector, by_name in analysis.evidence.items()
        for name, by_point in by_name.items()
        for point_id, facts in by_point.items()
    ]
    columns = [Column(title, numeric=False) for title in ("collector", "number", "configuration")]
    columns += map(Column, ("runs", "median", "min", "max"))
    title = "What the collectors summed up, over the counted runs of each configuration"
    return Table(title, columns, rows, open=False) if rows else None


def cost_text(facts: Mapping[str, Any]) -> str:
    """ "0.4 % of one CPU on average; worked in 100 runs", and why it did not in others."""
    share = facts.get("cpu_share")
    parts = []
    if isinstance(share, int | float):
        parts.append(f"{numbers.number(share * 100, 2)} % of one CPU on average")
    for key in ("ok", "incomplete", "unavailable", "failed"):
        if facts.get(key):
            parts.append(f"{'worked' if key == 'ok' else key} in {facts[key]} runs")
    return "; ".join([*parts, *(str(reason) for reason in facts.get("reasons", []))])


def libraries(manifest: Mapping[str, Any]) -> str:
    """ "Apache ECharts 6.1.0 (Apache-2.0), ..."."""
    return ", ".join(
        f"{re.sub('^echarts$', 'Apache ECharts', package['name'])} {package['version']} "
        f"({package['license']})"
        for package in manifest.get("packages", [])
    )
