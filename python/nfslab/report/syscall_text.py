"""System calls as plain text and as JSON: the terminal, `nfslab show`, Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.syscalls.accesses import accesses_of
from nfslab.evidence.syscalls.accesses import as_content as accesses_content
from nfslab.report.html.syscall_tables import tables_of
from nfslab.report.syscalls import facts, read_calls, sentences
from nfslab.report.text import printable, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.evidence.syscalls.tables import CallGroup, ClassRow
    from nfslab.report.html.capture.cells import Table
    from nfslab.report.model import Analysis
    from nfslab.report.syscalls import WatchedCalls


def lines(
    calls: WatchedCalls, *, by_file: bool = False, heading: Callable[[str], str] = str
) -> list[str]:
    """What a person reads on a terminal."""
    found = []
    for one in tables_of(calls, by_file=by_file):
        found += [heading(one.title), text_of(one)]
        found += [one.note] if one.note else []
        found.append("")
    if not found:
        totals_only = calls.summary.get("way") == "views"
        nothing = (
            "Nothing was added to any total." if totals_only else "No call on a file was seen."
        )
        found += [nothing, ""]
    found += [printable(line) for line in sentences(calls)]
    return [*found, *(printable(line) for line in facts(calls))]


def text_of(one: Table) -> str:
    """A table of cells, aligned; columns that are empty throughout are left out."""
    kept = [
        i for i in range(len(one.columns))
        if i == 0 or any(row[i].text not in ("", "–", "0") for row in one.rows)
    ]  # fmt: skip
    header = [one.columns[i].title for i in kept]
    rows = [[row[i].text for i in kept] for row in one.rows]
    right = tuple(k for k, i in enumerate(kept) if one.columns[i].numeric)
    return table(header, rows, right=right)


ACCESSES_MOST: Final = 2000
"""Single reads and writes of a class in JSON; Parquet has all of them."""


def content(
    calls: WatchedCalls, *, by_file: bool = False, accesses_most: int = ACCESSES_MOST
) -> dict[str, Any]:
    """Everything for programs: integers in nanoseconds, shares 0 to 1."""
    found = calls.found
    made: dict[str, Any] = {
        "way": calls.summary.get("way"),
        "level": calls.summary.get("level"),
        "why_not": calls.summary.get("why_not", []),
        "known_cost": calls.summary.get("known_cost", ""),
        "figures": dict(calls.summary.get("figures", {})),
        "notes": facts(calls),
        "sentences": sentences(calls),
        "classes": [_row(row) for row in found.classes],
        "files": [_row(row) for row in found.files],
        "total": _row(found.total),
        "series": [
            {
                "class": one.file_class, "call": one.what, "calls": one.calls,
                "errors": one.errors, "sum_ns": one.sum_ns,
                "p50_ns": one.quantiles_ns[0], "p90_ns": one.quantiles_ns[1],
                "p99_ns": one.quantiles_ns[2], "max_ns": one.quantiles_ns[3],
                "levels": [
                    {"first": level.start, "calls": level.calls, "median_ns": level.median_ns,
                     "mean_ns": level.mean_ns}
                    for level in one.steps.levels
                ],
                "change_p_values": one.steps.p_values,
            }
            for one in found.series
        ],
    }  # fmt: skip
    if calls.steps is not None:
        made["steps"] = [
            {"target": row.target, "class": row.file_class, "call": row.what,
             "calls": row.summary.calls, "mean_ns": row.summary.mean_ns,
             "share": row.summary.share, "slow_share": row.summary.slow_share,
             "writes": row.writes, "write_bytes": row.write_bytes, "commits": row.commits,
             "without_calls": row.without_calls}
            for row in calls.steps.rows
        ]  # fmt: skip
    if calls.blocks is not None:
        made["blocks"] = [
            {"class": row.file_class, "call": row.what, "calls": row.summary.calls,
             "mean_ns": row.summary.mean_ns, "share": row.summary.share,
             "flushes": row.flushes, "writes": row.writes, "write_bytes": row.write_bytes,
             "reads": row.reads}
            for row in calls.blocks.rows
        ]  # fmt: skip
    if calls.tables is not None:
        found_accesses = accesses_of(calls.tables, by_file=by_file)
        made["accesses"] = accesses_content(found_accesses, accesses_most)
    made["log"] = [
        {"log": one.log, "syncs": one.syncs, "by_backends": one.by_backends,
         "backend_sync_ns": one.backend_sync_ns, "share_of_clients": one.share_of_clients,
         "share_of_latency": one.share_of_latency, "waits": one.waits}
        for one in calls.shares
    ]  # fmt: skip
    return made


def as_content(analysis: Analysis) -> list[dict[str, Any]]:
    """Of an experiment's runs, for its JSON: without single calls, which their folders have."""
    found = read_calls(analysis)
    return [
        {"run": run.run_id, "point": run.point, "block": run.block}
        | content(run.found, accesses_most=0)
        for run in found.runs
    ]


def _row(row: ClassRow) -> dict[str, Any]:
    groups = {name: _group(one) for name, one in {**row.groups, **row.others}.items()}
    return {
        "name": row.name, "class": row.file_class, "files": row.files, "calls": groups,
        "synchronous_writes": _group(row.synchronous), "sync_ns": row.sync_ns,
    }  # fmt: skip


def _group(one: CallGroup) -> dict[str, Any]:
    from nfslab.evidence.syscalls.tables import PLACES

    return {
        "calls": one.calls, "errors": one.errors, "bytes": one.bytes, "mean_ns": one.mean_ns,
        "latency_sum_ns": one.latency_sum_ns, "latency_max_ns": one.latency_max_ns,
        "places": dict(zip(PLACES, one.places, strict=True)),
    }  # fmt: skip
