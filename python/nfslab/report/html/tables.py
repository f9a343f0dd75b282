"""What the template shows: rows with texts and sort keys, warnings in order, flat facts.

Only wording happens here; the numbers are the analysis's. Warnings are ordered by weight,
and those that the report itself has to make (series left out, a file it could not read) are
added to those of the analysis.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nfslab.quantities import format_size
from nfslab.report.html import content, wording

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nfslab.report.html.series import Series
    from nfslab.report.model import Analysis, ComparisonResult, FsyncFigures

WARNINGS_SHOWN = 8
"""Warnings in the open; the others fold."""
FLAT_MOST = 400
"""Facts of one list; a longer one is cut with a count."""
STYLES = {
    "violation": ("severe", "Violation"),
    "warning": ("medium", "Warning"),
    "note": ("light", "Note"),
}
_ORDER = list(STYLES)


def sentences(verdict: str) -> list[str]:
    """The verdict, a paragraph each for lines of its own."""
    return [part.strip() for part in verdict.splitlines() if part.strip()]


def warnings(analysis: Analysis, series: Series | None) -> list[dict[str, Any]]:
    """Warnings by weight, with the report's own."""
    found = [(w.severity, w.text, list(w.runs)) for w in analysis.warnings]
    if series is not None:
        ids = [run.run_id for run in analysis.runs]
        if series.problems:
            reasons = sorted(set(series.problems.values()))
            found.append(
                (
                    "warning",
                    "Samples or evidence of some runs cannot be read, so that they are missing "
                    f"from the figures over time: {'; '.join(reasons[:3])}",
                    [ids[i] for i in series.problems],
                )
            )
        if series.left_out:
            found.append(
                (
                    "note",
                    "To stay below the size limit this file leaves out the time series of these "
                    "runs; their metrics are in every table and figure.",
                    [ids[i] for i in series.left_out],
                )
            )
    found.sort(key=lambda item: _ORDER.index(item[0]))
    return [
        {"style": STYLES[severity][0], "word": STYLES[severity][1], "text": text, "runs": runs}
        for severity, text, runs in found
    ]


def baseline_text(analysis: Analysis) -> str:
    """The baseline in words."""
    return ", ".join(f"{axis} {level}" for axis, level in analysis.baseline.items())


def comparison_tables(analysis: Analysis) -> list[dict[str, Any]]:
    """One table a metric, the primary one first."""
    names = [name for name, rows in analysis.comparisons.items() if rows]
    names.sort(key=lambda name: name != analysis.primary)
    tables = []
    for name in names:
        info = analysis.metric(name)
        unit = info.unit if info else ""
        rows = [_comparison(analysis, item, unit) for item in analysis.comparisons[name]]
        tables.append({"label": wording.metric_label(name, unit), "rows": rows})
    return tables


def _comparison(analysis: Analysis, item: ComparisonResult, unit: str) -> dict[str, Any]:
    row = content.comparison_row(analysis, item)
    size = row["ratio"]
    difference = item.result.difference
    if size is not None:
        text = f"{wording.plain(size)} ×"
    elif difference is not None:
        text = f"{wording.quantity(difference, unit)} (difference)"
    else:
        text = wording.ABSENT
    return {
        **row,
        "ratio": text,
        "sort": "" if size is None else size,
        "interval": row["interval_text"],
        "p": wording.probability(row["p_adjusted"]),
        "p_value": "" if row["p_adjusted"] is None else row["p_adjusted"],
    }


def estimate_table(analysis: Analysis) -> dict[str, Any] | None:
    """The primary metric at every point."""
    name = analysis.primary
    info = analysis.metric(name) if name else None
    if info is None:
        return None
    axes = [content.axis_content(axis) for axis in analysis.axes]
    varying = [i for i, axis in enumerate(axes) if len(axis["levels"]) > 1]
    flushes = any(point.fsync is not None for point in analysis.points)
    rows: list[dict[str, Any]] = []
    for point in analysis.points:
        levels = content.level_indexes(analysis.axes, point)
        cells = [
            {
                "text": axes[i]["shown"][levels[i]],
                "value": values[levels[i]] if (values := axes[i]["values"]) else levels[i],
                "numeric": axes[i]["numeric"],
            }
            for i in varying
        ]
        if not varying:
            cells = [{"text": point.label, "value": 0, "numeric": False}]
        row = {"levels": cells, **_estimate(point.estimates.get(info.name), info.unit)}
        row["failed"] = point.failed
        if flushes:
            row["cells"] = [*row["cells"], *_flushes(point.fsync)]
        rows.append(row)
    titles = [
        {
            "title": f"{axes[i]['name']} ({axes[i]['unit']})"
            if axes[i]["unit"]
            else axes[i]["name"],
            "numeric": axes[i]["numeric"],
        }
        for i in varying
    ] or [{"title": "point", "numeric": False}]
    label = wording.metric_label(info.name, info.unit)
    return {"label": label, "axes": titles, "rows": rows, "fsync": flushes}


def _estimate(summary: Any, unit: str) -> dict[str, Any]:
    if summary is None:
        return {"n": 0, "cells": [{"text": wording.ABSENT, "value": ""}] * 5}
    interval = summary.interval
    shown = [
        (wording.quantity(summary.median, unit), summary.median),
        (
            wording.span(interval.low, interval.high, unit) if interval else wording.ABSENT,
            interval.low if interval else "",
        ),
        (wording.quantity(summary.standard_deviation, unit), summary.standard_deviation),
        (wording.quantity(summary.minimum, unit), summary.minimum),
        (wording.quantity(summary.maximum, unit), summary.maximum),
    ]
    return {
        "n": summary.n,
        "cells": [{"text": text, "value": "" if v is None else v} for text, v in shown],
    }


def _flushes(figures: FsyncFigures | None) -> list[dict[str, Any]]:
    """Flushes of the write-ahead log: how many a transaction, how long each took."""
    found = [
        (figures.flushes_per_transaction, "1") if figures else (None, "1"),
        (figures.mean_ms, "ms") if figures else (None, "ms"),
    ]
    return [
        {"text": wording.quantity(value, unit), "value": "" if value is None else value}
        for value, unit in found
    ]


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
        yield path, ", ".join(plain_text(item) for item in value) or wording.ABSENT
    else:
        yield path, plain_text(value)


def plain_text(value: Any) -> str:
    """A value as people write it: yes and no, floats without noise."""
    if value is None or value == "":
        return wording.ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def evidence_rows(analysis: Analysis) -> list[dict[str, Any]]:
    """What collectors summed up: one row a number."""
    return [
        {
            "collector": collector,
            "name": name,
            "n": facts["n"],
            "cells": [
                {"text": wording.plain(facts[key], 4), "value": facts[key]}
                for key in ("median", "minimum", "maximum")
            ],
        }
        for collector, numbers in analysis.evidence.items()
        for name, facts in numbers.items()
    ]


def cost_text(facts: Mapping[str, Any]) -> str:
    """ "0.4 % of one CPU on average; worked in 100 runs", and why it did not in others."""
    share = facts.get("cpu_share")
    parts = []
    if isinstance(share, int | float):
        parts.append(f"{wording.plain(share * 100, 2)} % of one CPU on average")
    for key, words in (("ok", "worked"), ("unavailable", "unavailable"), ("failed", "failed")):
        if facts.get(key):
            parts.append(f"{words} in {facts[key]} runs")
    return "; ".join([*parts, *(str(reason) for reason in facts.get("reasons", []))])


def libraries(manifest: Mapping[str, Any]) -> str:
    """ "Apache ECharts 6.1.0 (Apache-2.0), ..."."""
    return ", ".join(
        f"{re.sub('^echarts$', 'Apache ECharts', package['name'])} {package['version']} "
        f"({package['license']})"
        for package in manifest.get("packages", [])
    )
