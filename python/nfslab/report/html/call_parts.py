"""The page's section "Where a call's time goes": bars and tables of calls taken apart.

First a bar for all calls of each run, so that points can be compared by eye, then each run by
operation. All bars share one scale (0 to 100 % of the time) and one set of colours. Nothing of
single calls is in the page: the section is small and never gives way to series.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab.evidence.nfs_server.breakdown import ALL, PARTS
from nfslab.report.call_parts import EXPLAINED, sentences, slowest
from nfslab.report.html.capture.cells import Cell, Column, Table, count, latency, text
from nfslab.report.html.columns import pack_json
from nfslab.report.html.wording import quantity
from nfslab.report.text import percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.evidence.nfs_server.breakdown import LatencyBreakdown, OperationBreakdown
    from nfslab.report.shown_runs import ShownRun, ShownRuns

NS = 1e9
COLOURS = ("c8", "c1", "c5", "c3", "c4", "c6")
"""By part: the client is grey, the ways are blue, the server's parts have colours of their own."""
TITLE = "Where a call's time goes"
CAPTION = (
    "Shares of the summed time of the calls, from their being taken by the client to its noticing "
    "the reply; beside each bar the mean of the whole."
)
OPERATIONS_MOST = 24
"""Bars of one run: those with most time; the table has all."""


@dataclass(slots=True)
class RunSection:
    """One run: its table, its figure's data name, what has to be said."""

    label: str
    figure: str
    sentences: list[str]
    table: Table
    notes: list[str]


@dataclass(slots=True)
class PartsSection:
    """Everything of the section; no runs: there is none."""

    runs: list[RunSection] = field(default_factory=list)
    overview: str = ""
    """Name of the data of the bars of all runs; empty for one run."""
    explained: str = EXPLAINED
    left_out: int = 0
    problems: list[str] = field(default_factory=list)
    chunks: dict[str, str] = field(default_factory=dict)


def parts_section(
    found: ShownRuns[LatencyBreakdown], name: str, label: Callable[[int, int], str]
) -> PartsSection:
    """The section of these runs. `name`: of the experiment; `label` gets point and block."""
    made = PartsSection(left_out=found.left_out, problems=list(found.problems))
    shown = [run for run in found.runs if run.found.rows]
    for number, run in enumerate(shown):
        key = f"call-parts-{number}"
        several = len({row.target for row in run.found.rows}) > 1
        rows = [_bar(row, _name(row, several)) for row in run.found.rows[:OPERATIONS_MOST]]
        made.chunks[key] = _figure(name, f"{TITLE}, by operation", rows)
        table, called = _table(run.found, several), label(run.point, run.block)
        made.runs.append(RunSection(called, key, sentences(run.found), table, run.found.notes()))
    for run in found.runs:
        if not run.found.rows:
            why = " ".join(run.found.notes()) or "there were none in the timed part"
            called = label(run.point, run.block)
            made.problems.append(f"{called}: no call could be taken apart. {why}")
    if len(shown) > 1:
        made.overview = "call-parts"
        rows = [
            _bar(row, _whole_name(run, row, label(run.point, run.block)))
            for run in shown
            for row in run.found.rows
            if row.operation == ALL
        ]
        made.chunks[made.overview] = _figure(name, f"{TITLE}: all calls of each run", rows)
    return made


def _name(row: OperationBreakdown, several: bool) -> str:
    return f"{row.operation} · {row.target}" if several else row.operation


def _whole_name(run: ShownRun[LatencyBreakdown], row: OperationBreakdown, label: str) -> str:
    several = len({one.target for one in run.found.rows}) > 1
    return f"{label} · {row.target}" if several else label


def _bar(row: OperationBreakdown, label: str) -> dict[str, Any]:
    one = row.summary
    return {
        "label": label,
        "shares": [share or 0.0 for share in one.share],
        "means_s": [mean / NS for mean in one.mean_ns],
        "whole_s": one.whole_mean_ns / NS,
        "calls": one.calls,
    }


def _figure(name: str, title: str, rows: Sequence[dict[str, Any]]) -> str:
    """The payload of a figure as the captures' `split` takes it."""
    parts = [{"label": part, "colour": c} for part, c in zip(PARTS, COLOURS, strict=True)]
    split = {"title": title, "caption": CAPTION, "parts": parts, "rows": rows}
    payload = {"name": name, "captures": [], "split": split}
    return pack_json(payload)


def _table(parts: LatencyBreakdown, several: bool) -> Table:
    columns = [Column("target", numeric=False)] if several else []
    columns += [Column("operation", numeric=False), Column("calls"), Column("mean")]
    columns += [Column(part, hint="mean, and share of the time") for part in PARTS]
    columns += [
        Column("p99", hint="of the whole"),
        Column("largest in the slowest 1 %", numeric=False, hint="and its share there"),
    ]
    rows = []
    for row in parts.rows:
        one = row.summary
        cells = [text(row.target)] if several else []
        cells += [text(row.operation), count(one.calls), latency(one.whole_mean_ns)]
        cells += [_part(*part) for part in zip(one.mean_ns, one.share, strict=True)]
        rows.append([*cells, latency(one.whole_p99_ns), text(slowest(row), "nowrap")])
    return Table(title=f"{TITLE}, by operation", columns=columns, rows=rows)


def _part(mean_ns: float, share: float | None) -> Cell:
    return Cell(f"{quantity(mean_ns, 'ns')} ({percent(share)})", mean_ns)
