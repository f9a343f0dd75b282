"""The slowest 1 % of transactions of one client: how much of each lay in syncs of the log.

pgbench's log has every transaction's begin and end, a watch of system calls every sync; both read
one clock (CLOCK_MONOTONIC; pgbench writes it to whole microseconds). With one client the log's
syncs by processes that serve clients are that client's own, so that what of a transaction's time
they cover is its own waiting, exactly. With more clients it is not recorded which process served
which client, and that some sync was under way is no part of anybody's time: nothing is said.

Where syncs were lost, or part of their time lies in no transaction (clocks or processes are not
what they are taken for), nothing is said either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.evidence.slowest import SlowestFacts, slowest
from nfslab.evidence.syscalls.facts import COLLECTORS
from nfslab.evidence.syscalls.sync_share import log_syncs_of_backends, threads_of
from nfslab.evidence.syscalls.tables import processes_of, read_syscall_tables
from nfslab.results.coded_texts import integers
from nfslab.results.evidence_tables import evidence_path, read_evidence
from nfslab.statistics.interval_cover import cover

if TYPE_CHECKING:
    from nfslab.evidence.base import SealedRun

TABLE: Final = "transactions"
OK: Final = 0
WITHIN: Final = 0.95
"""Of the syncs' time that lies in some transaction."""
PARTS: Final = ("late", "wal_fsync", "other")
SEVERAL: Final = (
    "Of the transactions above p99 nothing is said with several clients: which process served "
    "which of them is not recorded."
)


def slow_transactions(run: SealedRun) -> tuple[SlowestFacts, ...]:
    """None or one. ResultsError."""
    clients = run.record.load.clients if run.record.load is not None else None
    logged = run.record.parameters.get("workload", {}).get("sampling_rate", 1.0)
    if clients != 1 or logged < 1 or not evidence_path(run.folder, TABLE, "samples").is_file():
        return ()
    tables = read_syscall_tables(run.folder)
    if tables is None or _lost(run) or (tables.beyond is not None and tables.beyond.num_rows):
        return ()
    threads = threads_of(run.summary("mariadb"))
    begun, ended = log_syncs_of_backends(tables, processes_of(tables.syncs), threads)
    rows = read_evidence(
        run.folder, TABLE, ["t_ns", "latency_ns", "lag_ns", "status"], folder="samples"
    )
    rows = rows.filter(integers(rows["status"]) == OK)
    over, whole_ns = integers(rows["t_ns"]), integers(rows["latency_ns"])
    late_ns = integers(rows["lag_ns"], missing=0)
    synced_ns = cover(begun, ended, over - whole_ns + late_ns, over)
    if not begun.size or synced_ns.sum() < WITHIN * (ended - begun).sum():
        return ()
    parts = np.stack([late_ns, synced_ns, whole_ns - late_ns - synced_ns])
    kept = np.flatnonzero(parts.any(axis=1))
    found = slowest("transaction", [PARTS[k] for k in kept], parts[kept], whole_ns)
    return () if found is None else (found,)


def _lost(run: SealedRun) -> bool:
    """Did the watch lose syncs?"""
    figures = [run.summary(name).get("figures", {}) for name in COLLECTORS]
    return any(one.get("lost_syncs") for one in figures)
