"""System calls and syncs of a run as facts: classes, series with their levels, what syncs wait for.

    tables (`tables.py`) ─► sums by class ─► series ─► steps on NFS, block requests, shares of time
                                       └────────────────────► facts (cached with the run)

Summing a run up takes about a second a million syncs; facts are that once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from nfslab.evidence.base import Facts
from nfslab.evidence.syscalls.accesses import accesses_of, as_content
from nfslab.evidence.syscalls.sync_blocks import BlocksRow, split_by_blocks
from nfslab.evidence.syscalls.sync_share import LogShare, log_shares, threads_of
from nfslab.evidence.syscalls.sync_steps import StepsRow, read_sync_steps
from nfslab.evidence.syscalls.tables import (
    ClassRow,
    processes_of,
    read_syscall_tables,
    sum_up,
    tables_from,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.syscalls.sync_blocks import SyncBlocks
    from nfslab.evidence.syscalls.sync_series import SyncSeries
    from nfslab.evidence.syscalls.sync_steps import SyncSteps
    from nfslab.evidence.syscalls.tables import SyscallTables
    from nfslab.results.records import RunRecord

COLLECTORS: Final = ("syscalls", "fsync")
WATCH: Final = ("way", "level", "why_not", "known_cost", "figures", "notes")
"""What facts keep of the collector's summary."""


class LevelFacts(NamedTuple):
    """Calls between two changes of a series."""

    start: int
    """Number of the first one, from 0."""
    calls: int
    median_ns: int
    mean_ns: float


class SlowestCall(NamedTuple):
    """The slowest call of a series."""

    number: int
    """From 1."""
    latency_ns: int
    t_ns: int


class SeriesFacts(Facts):
    """Successive syncs of one kind on one class of files."""

    file_class: str
    what: str
    calls: int
    errors: int
    sum_ns: int
    min_ns: int
    quantiles_ns: tuple[int, ...]
    """At `sync_series.QUANTILES`."""
    levels: tuple[LevelFacts, ...]
    p_values: tuple[float, ...]
    """Of the change between two levels."""
    bounded: str
    """Which bound the search for changes reached; empty: none."""
    slowest: SlowestCall

    @classmethod
    def of(cls, one: SyncSeries) -> SeriesFacts:
        """Of a series with at least one call."""
        number = int(one.latency_ns.argmax())
        return cls(
            file_class=one.file_class,
            what=one.what,
            calls=one.calls,
            errors=one.errors,
            sum_ns=one.sum_ns,
            min_ns=int(one.latency_ns.min()),
            quantiles_ns=tuple(one.quantiles_ns),
            levels=tuple(
                LevelFacts(level.start, level.calls, level.median_ns, level.mean_ns)
                for level in one.steps.levels
            ),
            p_values=tuple(one.steps.p_values),
            bounded=one.steps.bounded,
            slowest=SlowestCall(number + 1, int(one.latency_ns[number]), int(one.t_ns[number])),
        )


class WaitFacts(Facts):
    """What syncs wait for: on NFS, or on local disks."""

    steps: tuple[StepsRow, ...] | None
    """None: no record of NFS calls beside."""
    steps_notes: tuple[str, ...]
    blocks: tuple[BlocksRow, ...] | None
    """None: no record of block requests."""
    blocks_notes: tuple[str, ...]

    @classmethod
    def of(cls, steps: SyncSteps | None, blocks: SyncBlocks | None) -> WaitFacts:
        """Of what was taken apart."""
        return cls(
            steps=None if steps is None else tuple(steps.rows),
            steps_notes=() if steps is None else tuple(steps.notes()),
            blocks=None if blocks is None else tuple(blocks.rows),
            blocks_notes=() if blocks is None else tuple(blocks.notes()),
        )


class SyscallFacts(Facts):
    """What a watch saw, summed up."""

    watch: dict[str, Any]
    """`WATCH` of the collector's summary."""
    has_counts: bool
    """Were all calls counted, or only those that make bytes durable?"""
    untimed: int
    """Syncs before the timed part: in nothing here."""
    classes: tuple[ClassRow, ...]
    files: tuple[ClassRow, ...] = ()
    """Only where it was asked for."""
    total: ClassRow
    series: tuple[SeriesFacts, ...]
    """The most time first."""
    waits: WaitFacts
    shares: tuple[LogShare, ...] = ()
    accesses: tuple[dict[str, Any], ...] = ()
    """Single reads and writes by class: counts (`accesses.as_content`)."""


def facts_of_run(run: SealedRun) -> SyscallFacts | None:
    """None without the evidence. ResultsError: it cannot be read."""
    tables = read_syscall_tables(run.folder)
    if tables is None:
        return None
    summaries = {one.collector: one.summary for one in run.record.evidence}
    summary = next((summaries[name] for name in COLLECTORS if name in summaries), {})
    steps = read_sync_steps(run.folder, tables, summary, summaries.get("capture", {}))
    return facts_of(tables, summary, steps=steps, shares=_shares(run.record, tables, summary))


def facts_of_watch(
    tables: Mapping[str, Any], summary: Mapping[str, Any], *, by_file: bool = False
) -> tuple[SyscallFacts, SyscallTables]:
    """Of tables as `seen.evidence_tables` gives them, without a run around them."""
    whole = tables_from(dict(tables))
    return facts_of(whole, summary, by_file=by_file), whole


def facts_of(
    tables: SyscallTables,
    summary: Mapping[str, Any],
    *,
    by_file: bool = False,
    steps: SyncSteps | None = None,
    shares: tuple[LogShare, ...] = (),
) -> SyscallFacts:
    """Everything that the tables tell."""
    found = sum_up(tables, by_file=by_file)
    return SyscallFacts(
        watch={name: summary[name] for name in WATCH if name in summary},
        has_counts=found.has_counts,
        untimed=found.untimed,
        classes=tuple(found.classes),
        files=tuple(found.files),
        total=found.total,
        series=tuple(SeriesFacts.of(one) for one in found.series if one.calls),
        waits=WaitFacts.of(steps, split_by_blocks(tables, summary.get("disks", {}))),
        shares=shares,
        accesses=tuple(as_content(accesses_of(tables, by_file=by_file), 0)),
    )


def _shares(
    record: RunRecord, tables: SyscallTables, summary: Mapping[str, Any]
) -> tuple[LogShare, ...]:
    """Of a database under a known number of clients."""
    clients = record.load.clients if record.load is not None else None
    wall_ns = summary.get("timed_ns")
    if not clients or not wall_ns:
        return ()
    metrics = {name: metric.value for name, metric in record.metrics.items()}
    seen = [e.summary.get("waits") for e in record.evidence if e.collector == "postgres"]
    waits: list[Any] = (seen[0] if seen else None) or []
    latency_ms, transactions = metrics.get("latency_mean_ms"), metrics.get(record.operations)
    served = next((e.summary for e in record.evidence if e.collector == "mariadb"), {})
    found = log_shares(
        tables,
        processes_of(tables.syncs),
        clients=int(clients),
        wall_ns=int(wall_ns),
        transactions=None if transactions is None else int(transactions),
        latency_mean_ns=None if latency_ms is None else latency_ms * 1e6,
        waits=waits,
        threads=threads_of(served),
    )
    return tuple(found)
