"""One block of Markdown to paste into a ticket: everything a maintainer asks back for.

Order: unequal durability and unlike client hosts (when there are any), the verdict in one
sentence, what was run and varied, options in effect, versions, one row a point with its interval
and n, flushes where they were collected, warnings, the command that runs it again.

Texts that come from outside (labels, options, reasons) are escaped: they must not become
links, HTML or table borders in somebody's tracker.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.display.markdown import code, escape, section_text
from nfslab.display.numbers import ABSENT, counted, interval, p_value, quantity
from nfslab.evidence.found import point_columns, sections_of
from nfslab.quantities import format_duration, format_size
from nfslab.report.analysis import analyse
from nfslab.report.model import Analysis
from nfslab.statistics.effect_text import effect, words

if TYPE_CHECKING:
    from nfslab.report.model import ComparisonResult, PointResult

MAX_ROWS = 60
"""Points in the table; trackers cut off long posts."""
MAX_WARNINGS = 20


def render_markdown(source: Path | Analysis) -> str:
    """The block for the experiment at a path, or for its analysis."""
    analysis = source if isinstance(source, Analysis) else analyse(Path(source))
    parts = [_head(analysis), _conditions(analysis), _points(analysis)]
    parts += map(section_text, sections_of(analysis))
    parts += [_reference(analysis), _warnings(analysis), _again(analysis)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(analysis: Analysis) -> str:
    lines = []
    for line in (analysis.emulated, analysis.durability_line, analysis.hosts_line):
        if line:
            lines += [f"**{escape(line)}**", ""]
    title = analysis.title or analysis.name
    lines += [
        f"### {escape(title)} ({code(analysis.folder)})",
    ]
    for line in analysis.verdict.splitlines():
        lines += ["", f"**{escape(line)}**"]
    for line in (analysis.precision, analysis.next_step):
        if line:
            lines += ["", escape(line)]
    return "\n".join(lines)


def _conditions(analysis: Analysis) -> str:
    """Workload, what was varied, what was in effect, versions, how it was run."""
    lines = []
    parameters = {
        path.removeprefix("workload."): value
        for path, value in analysis.fixed.items()
        if path.startswith("workload.") and path != "workload.kind" and value not in (None, "", [])
    }
    stated = ", ".join(f"{name}={shown_value(name, v)}" for name, v in parameters.items())
    lines.append(
        f"- Workload: {escape(analysis.workload)}" + (f" ({escape(stated)})" * bool(stated))
    )
    for axis in analysis.axes:
        levels = ", ".join(str(level) for level in axis.levels[:30])
        more = f" and {len(axis.levels) - 30} more" if len(axis.levels) > 30 else ""
        lines.append(f"- Varied: {escape(axis.name)}: {escape(levels)}{more}")
    for place in analysis.places:
        facts = _place_facts(place.facts)
        lines.append(
            f"- In effect: {escape(place.role)} on {escape(place.target)} ({escape(place.kind)}): "
            f"{escape(place.filesystem)} {code(place.mount_options)}{facts}, "
            f"{escape(place.durability)} ({counted(place.runs, 'run')})"
        )
    settings = _settings(analysis)
    if settings:
        lines.append(f"- Server settings in effect: {code(settings)}")
    if analysis.versions:
        listed = ", ".join(f"{name} {version}" for name, version in analysis.versions.items())
        lines.append(f"- Versions: {escape(listed)}")
    done = sum(point.ok for point in analysis.points)
    planned = sum(point.planned for point in analysis.points)
    order = "randomised blocks" if analysis.order == "blocks" else "fixed order"
    lines.append(
        f"- Runs: {done} of {planned} ok, {counted(analysis.repetitions, 'repetition')}, {order}, "
        f"seed {analysis.seed}"
    )
    lines += [f"- Note: {escape(note)}" for note in analysis.notes[:MAX_WARNINGS]]
    return "\n".join(dict.fromkeys(lines))


def shown_value(name: str, value: Any) -> str:
    """A parameter's value for people: bytes and seconds with their units where it is known."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    last = name.rpartition(".")[2]
    if last.endswith("_bytes") or (last.endswith("size") and value >= 1024):
        return format_size(value)
    seconds = last == "duration" or (last.endswith("_s") and not last.endswith("_per_s"))
    return format_duration(value) if seconds else str(value)


def _place_facts(facts: dict[str, Any]) -> str:
    """What a target read back of itself: chunk, devices."""
    known = []
    if "number_of_devices" in facts:
        known.append(f"{facts['number_of_devices']} devices")
    if "chunk_bytes" in facts:
        known.append(f"chunk {format_size(facts['chunk_bytes'])}")
    if "backend" in facts:
        known.append(str(facts["backend"]))
    nfs = facts.get("nfs")
    if isinstance(nfs, dict) and "transports" in nfs:
        known.append(counted(int(nfs["transports"]), "connection"))
    return f" ({escape(', '.join(known))})" if known else ""


def _settings(analysis: Analysis) -> str:
    """The server's settings in effect, as it told them; all values where they vary."""
    return ", ".join(
        f"{path.removeprefix('settings.')}={'|'.join(values)}"
        for path, values in analysis.server.items()
        if path.startswith("settings.")
    )


def _points(analysis: Analysis) -> str:
    """One row a point: the primary metric with its interval, n, words, flushes."""
    metric = analysis.metric(analysis.primary) if analysis.primary else None
    if metric is None:
        return ""
    rows = {row.point: row for row in analysis.comparisons.get(metric.name, [])}
    more, beside = point_columns(analysis)
    header = [*(axis.name for axis in analysis.axes), metric.name, analysis.interval, "n"]
    if rows:
        baseline = ", ".join(f"{axis}={level}" for axis, level in analysis.baseline.items())
        header += [f"against {baseline}", "p (Holm)", "result"]
    header += [column.title for column in more]
    lines = [
        "| " + " | ".join(escape(cell) for cell in header) + " |",
        "|" + "---|" * len(header),
    ]
    shown = analysis.points[:MAX_ROWS]
    for point in shown:
        cells = [escape(point.factors.get(axis.name, ABSENT)) for axis in analysis.axes]
        cells += _estimate_cells(point, metric.name, metric.unit)
        if rows:
            cells += _comparison_cells(analysis, point, rows.get(point.index))
        cells += [escape(cell.text) for cell in beside[point.index]]
        lines.append("| " + " | ".join(cells) + " |")
    if len(analysis.points) > len(shown):
        left = len(analysis.points) - len(shown)
        lines += ["", f"{counted(left, 'more configuration')}: `nfslab report` has all of them."]
    if rows:
        lines += ["", escape(analysis.comparison_method)]
    return "\n".join(lines)


def _estimate_cells(point: PointResult, metric: str, unit: str) -> list[str]:
    estimate = point.estimates.get(metric)
    if estimate is None:
        return [ABSENT, ABSENT, f"0 ({counted(point.failed, 'failure')})" if point.failed else "0"]
    known = estimate.interval
    bounds = interval(known.low, known.high, unit) if known else "unknown (n=1)"
    n = f"{estimate.n} of {point.planned}" if estimate.n != point.planned else str(estimate.n)
    return [escape(quantity(estimate.median, unit)), bounds, n]


def _comparison_cells(
    analysis: Analysis, point: PointResult, row: ComparisonResult | None
) -> list[str]:
    if row is None:
        is_base = all(point.factors.get(a) == level for a, level in analysis.baseline.items())
        return [ABSENT, ABSENT, "baseline" if is_base else "no partner"]
    return [effect(row.result), p_value(row.result.p_adjusted), f"**{escape(words(row.result))}**"]


def _reference(analysis: Analysis) -> str:
    """What was published of it, in a sentence: the page has the table."""
    reference = analysis.reference
    if reference is None:
        return ""
    beside = sum(row.point is not None for row in reference.rows)
    text = (
        f"Side by side: {escape(reference.title)}, {escape(reference.source)}: {beside} rows match"
    )
    if reference.problem:
        text += f" ({escape(reference.problem)})"
    return text + ". No spread was published: the significance of differences is unknown."


def _warnings(analysis: Analysis) -> str:
    if not analysis.warnings:
        return "No warnings."
    lines = [
        f"- **{warning.severity}** {escape(warning.text)}"
        for warning in analysis.warnings[:MAX_WARNINGS]
    ]
    left = len(analysis.warnings) - len(lines)
    if left:
        lines.append(f"- and {left} more")
    return "\n".join(["Warnings:", *lines])


def _again(analysis: Analysis) -> str:
    """How to run it again, from the record."""
    command = shlex.join(analysis.command) if analysis.command else "not recorded"
    fence = "`" * (max((len(r) for r in re.findall(r"`+", command)), default=0) + 3)
    return f"To run it again:\n{fence}sh\n{command}\n{fence}"
