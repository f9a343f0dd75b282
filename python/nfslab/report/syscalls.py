"""System calls and syncs of a run, for all outputs: what is read, and what it says in sentences.

A run's folder has the tables and, in its record, the collector's summary (way, cost, which device
is which target, which disks lie below). Summing a run up takes about a second a million syncs, so
some runs are (`report.shown_runs`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.syscalls.sync_blocks import PARTS, split_by_blocks
from nfslab.evidence.syscalls.sync_share import log_shares
from nfslab.evidence.syscalls.sync_steps import STEPS, read_sync_steps
from nfslab.evidence.syscalls.tables import (
    has_syscalls,
    processes_of,
    read_syscall_tables,
    sum_up,
    tables_from,
)
from nfslab.report.html.wording import quantity
from nfslab.report.shown_runs import RUNS_MOST, read_shown
from nfslab.report.text import percent
from nfslab.results.catalogue import read_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nfslab.evidence.syscalls.sync_blocks import SyncBlocks
    from nfslab.evidence.syscalls.sync_series import SyncSeries
    from nfslab.evidence.syscalls.sync_share import LogShare
    from nfslab.evidence.syscalls.sync_steps import SyncSteps
    from nfslab.evidence.syscalls.tables import Syscalls, SyscallTables
    from nfslab.report.model import Analysis
    from nfslab.report.shown_runs import ShownRuns
    from nfslab.results.records import RunRecord

COLLECTORS: Final = ("syscalls", "fsync")
SERIES_SAID: Final = 4
LEVELS_SAID: Final = 6
SLOWEST_TIMES: Final = 10
"""Of the median: a slowest call that is named."""
ROWS_SAID: Final = 3
WAY_NAMES: Final = {
    "ebpf": "eBPF programs in the kernel", "shim": "a preloaded library",
    "strace": "strace --seccomp-bpf", "views": "PostgreSQL's own views and /proc",
    "read": "a text of strace or perf trace",
}  # fmt: skip
NO_ACCESSES: Final = (
    "Level counts has sizes and places of reads and writes in all, not over time: level events has "
    "each of them."
)
STEP_WORDS: Final = {
    "waiting": "waiting for writes already under way", "sending": "sending dirty pages",
    "committing": "committing", "rest": "the rest (kernel, FUSE, client)",
}  # fmt: skip
BLOCK_WORDS: Final = {
    "flush": "flushing the disk's cache", "write": "writing to the disk", "read": "reading",
    "rest": "the rest (file system, scheduler)",
}  # fmt: skip


@dataclass(slots=True)
class WatchedCalls:
    """What a watch saw, summed up."""

    found: Syscalls
    summary: Mapping[str, Any]
    """The collector's: way, level, why_not, known_cost, figures, notes."""
    tables: SyscallTables | None = None
    steps: SyncSteps | None = None
    blocks: SyncBlocks | None = None
    shares: list[LogShare] = field(default_factory=list)


def read_calls(analysis: Analysis, most: int = RUNS_MOST) -> ShownRuns[WatchedCalls]:
    """Of an experiment's counted runs, as many as may be."""
    return read_shown(analysis, has_syscalls, read_run_calls, most)


def read_run_calls(folder: Path, *, by_file: bool = False) -> WatchedCalls | None:
    """Of one sealed run; None without the evidence. ResultsError."""
    tables = read_syscall_tables(folder)
    if tables is None:
        return None
    record = read_run(folder)
    summaries = {one.collector: one.summary for one in record.evidence}
    summary = next((summaries[name] for name in COLLECTORS if name in summaries), {})
    calls = WatchedCalls(sum_up(tables, by_file=by_file), summary, tables)
    calls.steps = read_sync_steps(folder, tables, summary, summaries.get("capture", {}))
    calls.blocks = split_by_blocks(tables, summary.get("disks", {}))
    calls.shares = _shares(record, tables, summary)
    return calls


def summed_up(
    tables: Mapping[str, Any], summary: Mapping[str, Any], *, by_file: bool = False
) -> WatchedCalls:
    """Of tables as `evidence_tables` gives them, without a run around them."""
    whole = tables_from(dict(tables))
    calls = WatchedCalls(sum_up(whole, by_file=by_file), summary, whole)
    calls.blocks = split_by_blocks(whole, summary.get("disks", {}))
    return calls


def _shares(record: RunRecord, tables: SyscallTables, summary: Mapping[str, Any]) -> list[LogShare]:
    """Of a database under a known number of clients."""
    workload = record.parameters.get("workload", {})
    clients, wall_ns = workload.get("clients"), summary.get("timed_ns")
    if workload.get("kind") != "pgbench" or not clients or not wall_ns:
        return []
    metrics = {name: metric.value for name, metric in record.metrics.items()}
    seen = [e.summary.get("waits") for e in record.evidence if e.collector == "postgres"]
    waits: list[Any] = (seen[0] if seen else None) or []
    latency_ms, transactions = metrics.get("latency_mean_ms"), metrics.get("transactions")
    return log_shares(
        tables,
        processes_of(tables.syncs),
        clients=int(clients),
        wall_ns=int(wall_ns),
        transactions=None if transactions is None else int(transactions),
        latency_mean_ns=None if latency_ms is None else latency_ms * 1e6,
        waits=waits,
    )


def sentences(calls: WatchedCalls) -> list[str]:
    """What it says, the series with the most time first."""
    said = [series_sentence(one) for one in calls.found.series[:SERIES_SAID]]
    if left := len(calls.found.series) - SERIES_SAID:
        said += [f"{left} more kinds of syncs are in the table."] if left > 0 else []
    for share in calls.shares:
        said += share.sentences()
    if calls.steps is not None:
        for row in calls.steps.rows[:ROWS_SAID]:
            shares = _shares_text(row.summary.share, STEPS, STEP_WORDS)
            slow = _shares_text(row.summary.slow_share, STEPS, STEP_WORDS, most=1)
            said.append(
                f"On {row.target}, {row.summary.calls:,} x {row.what} of {row.file_class} spent "
                f"{shares}; the slowest 1 %: {slow}."
            )
    if calls.blocks is not None:
        for block in calls.blocks.rows[:ROWS_SAID]:
            shares = _shares_text(block.summary.share, PARTS, BLOCK_WORDS)
            said.append(
                f"While {block.summary.calls:,} x {block.what} of {block.file_class} lasted, the "
                f"disk spent {shares}."
            )
    return said


def _shares_text(
    shares: Sequence[float | None], names: Sequence[str], words: Mapping[str, str], most: int = 4
) -> str:
    known = [(share, name) for share, name in zip(shares, names, strict=True) if share]
    known.sort(reverse=True)
    return ", ".join(f"{percent(share)} {words[name]}" for share, name in known[:most]) or "nothing"


def series_sentence(one: SyncSeries) -> str:
    """ "PostgreSQL WAL, 242 x fdatasync: the first 57 calls take 0.4 ms, then 5.1 ms."."""
    head = f"{one.file_class}, {one.calls:,} x {one.what}: "
    return head + levels_text(one) + _slowest(one) + "."


def _slowest(one: SyncSeries) -> str:
    """The slowest call where it stands out: a stall is no level, and in no percentile of many."""
    number = int(one.latency_ns.argmax())
    if one.latency_ns[number] < SLOWEST_TIMES * one.quantiles_ns[0]:
        return ""
    at, took = _time(int(one.t_ns[number])), _time(int(one.latency_ns[number]))
    return f"; the slowest is call {number + 1:,} ({took}, at {at})"


def _time(time_ns: float) -> str:
    return quantity(time_ns, "ns")


def levels_text(one: SyncSeries) -> str:
    """The levels of a series in words, by their medians."""
    levels = one.steps.levels
    if len(levels) < 2:
        middle = _time(one.quantiles_ns[0])
        return f"{middle} in the median, {_time(one.quantiles_ns[2])} at p99, no change"
    first = f"the first {levels[0].calls:,} calls take {_time(levels[0].median_ns)}"
    if len(levels) == 2:
        return f"{first}, then {_time(levels[1].median_ns)}"
    if len(levels) > LEVELS_SAID:
        medians = [level.median_ns for level in levels]
        return (
            f"the level changes {len(levels) - 1} times, between {_time(min(medians))} "
            f"and {_time(max(medians))}; {first}"
        )
    between = ", ".join(
        f"the next {level.calls:,} {_time(level.median_ns)}" for level in levels[1:-1]
    )
    return f"{first}, {between}, then {_time(levels[-1].median_ns)}"


def facts(calls: WatchedCalls) -> list[str]:
    """How it was watched, and what is missing: sentences for the end."""
    summary = calls.summary
    way = str(summary.get("way", ""))
    said = [f"Watched by {WAY_NAMES.get(way, way or 'an unknown way')}, level {summary['level']}."
            if "level" in summary else f"Read from {WAY_NAMES['read']}."]  # fmt: skip
    if cost := summary.get("known_cost"):
        said.append(f"Cost: {cost}.")
    for other, reason in summary.get("why_not", []):
        said.append(f"Not by {WAY_NAMES.get(other, other)}: {reason}.")
    said += [f"{note[:1].upper()}{note[1:]}." for note in summary.get("notes", [])]
    if calls.found.untimed:
        said.append(f"Syncs before the timed part, in nothing here: {calls.found.untimed:,}.")
    if summary.get("level") == "counts" and summary.get("way") != "views":
        said.append(NO_ACCESSES)
    for one in calls.found.series:
        if one.errors:
            said.append(f"{one.errors:,} x {one.what} of {one.file_class} failed.")
        if one.steps.bounded:
            said.append(f"Changes of {one.what} of {one.file_class}: {one.steps.bounded}.")
    for part in (calls.steps, calls.blocks):
        said += part.notes() if part is not None else []
    return said
