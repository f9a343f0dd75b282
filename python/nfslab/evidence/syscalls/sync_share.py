"""Which share of its time a transaction waits for the log's fdatasync, said as what it is.

Two figures of one run with a database whose log's syncs were timed:

* syncing: the time that the clients' backends spent in syncs of the log themselves, over
  clients x wall time: the mean share of the backends that are inside such a call.
* of a transaction: the same time over the transactions, beside their mean latency.

Both are lower bounds of what the log costs. One backend syncs for a group: the others wait for a
lock meanwhile (PostgreSQL's wait event LWLock:WALWrite), which is no system call and in neither
figure. The collector `postgres` samples those waits; what it saw stands beside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.evidence.syscalls.sync_series import classes_of
from nfslab.evidence.syscalls.tables import SyscallTables, names_of, timed
from nfslab.results.coded_texts import integers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

LOGS: Final = ("PostgreSQL WAL", "InnoDB redo log", "SQLite WAL", "SQLite rollback journal")
"""Classes that are a database's log."""
BACKGROUND: Final = (
    "walwriter", "checkpointer", "background writer", "autovacuum", "archiver", "walsender",
    "walreceiver", "logical replication", "startup",
)  # fmt: skip
WAITS: Final = ("WALSync", "WalSync", "WALWrite", "WalWrite")
"""Wait events of the log: names before and since PostgreSQL 17."""


@dataclass(frozen=True, slots=True)
class LogShare:
    """What the log's syncs are of a run's time."""

    log: str
    syncs: int
    by_backends: int
    """Of them, by processes that serve clients."""
    backend_sync_ns: int
    clients: int
    wall_ns: int
    transactions: int | None
    latency_mean_ns: float | None
    waits: dict[str, float] = field(default_factory=dict)
    """Wait event -> mean number of client backends in it, as sampled."""

    @property
    def share_of_clients(self) -> float | None:
        """Of clients x wall time."""
        whole = self.clients * self.wall_ns
        return self.backend_sync_ns / whole if whole > 0 else None

    @property
    def share_of_latency(self) -> float | None:
        """Sync time of backends a transaction, over its mean latency."""
        if not self.transactions or not self.latency_mean_ns:
            return None
        return self.backend_sync_ns / self.transactions / self.latency_mean_ns

    def sentences(self) -> list[str]:
        """As what it is."""
        if self.share_of_clients is None:
            return []
        told = (
            f"Client backends are inside the log's own syncs {self.share_of_clients:.1%} of their "
            f"time ({self.by_backends:,} of {self.syncs:,} syncs of {self.log})"
        )
        if self.share_of_latency is not None and self.latency_mean_ns is not None:
            told += f": {self.share_of_latency:.1%} of a transaction's mean latency"
        found = [told + ". One syncs for a group: others wait for its lock, which is not in this."]
        if self.waits:
            seen = ", ".join(f"{count:.2f} in {name}" for name, count in sorted(self.waits.items()))
            mean = f"{seen} (a mean of {self.clients} client backends)"
            found.append(f"Sampled beside it: {mean}.")
        return found


def log_shares(
    tables: SyscallTables,
    processes: Mapping[int, str],
    *,
    clients: int,
    wall_ns: int,
    transactions: int | None = None,
    latency_mean_ns: float | None = None,
    waits: list[dict[str, Any]] | None = None,
    threads: Collection[int] | None = None,
) -> list[LogShare]:
    """One for each log that was synced. `processes`: pid -> title; `waits`: of `postgres`;
    `threads`: those that serve clients, of a server that is one process (`threads_of`)."""
    syncs, _ = timed(tables.syncs)
    if not syncs.num_rows:
        return []
    classes, of_class = classes_of(syncs, names_of(tables.files)[0])
    latencies = integers(syncs["latency_ns"])
    by_backend = _by_backends(syncs, processes, threads)
    seen = _waits(waits or [])
    found = []
    for log in LOGS:
        own = of_class == (classes.index(log) if log in classes else -1)
        if own.any():
            share = LogShare(
                log, int(own.sum()), int((own & by_backend).sum()),
                int(latencies[own & by_backend].sum()), clients, wall_ns, transactions,
                latency_mean_ns, seen if log == LOGS[0] else {},
            )  # fmt: skip
            found.append(share)
    return found


def log_syncs_of_backends(
    tables: SyscallTables, processes: Mapping[int, str], threads: Collection[int] | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Begin and end of every sync of a database's log by a process that serves clients, in ns from
    the start of the timed part. `processes`: pid -> title."""
    syncs, _ = timed(tables.syncs)
    if not syncs.num_rows:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    classes, of_class = classes_of(syncs, names_of(tables.files)[0])
    logs = [number for number, name in enumerate(classes) if name in LOGS]
    syncs = syncs.filter(np.isin(of_class, logs) & _by_backends(syncs, processes, threads))
    begun = integers(syncs["t_ns"])
    return begun, begun + integers(syncs["latency_ns"])


def threads_of(summary: Mapping[str, Any]) -> Collection[int] | None:
    """Threads that serve clients, as the collector `mariadb` summed up; None: not known."""
    found: list[int] | None = summary.get("threads")
    return found or None


def _by_backends(
    syncs: pa.Table, processes: Mapping[int, str], threads: Collection[int] | None
) -> NDArray[np.bool_]:
    if threads is not None:
        serving: NDArray[np.bool_] = np.isin(
            integers(syncs["tid"]), np.array(sorted(threads), dtype=np.int64)
        )
        return serving
    background = [pid for pid, title in processes.items() if is_background(title)]
    found: NDArray[np.bool_] = ~np.isin(
        integers(syncs["pid"]), np.array(background, dtype=np.int64)
    )
    return found


def is_background(title: str) -> bool:
    """Is this a process of PostgreSQL that serves no client? Other servers are one process."""
    return title.startswith("postgres:") and any(name in title for name in BACKGROUND)


def _waits(rows: list[dict[str, Any]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in rows:
        if row.get("backend_type") == "client backend" and row.get("wait_event") in WAITS:
            name = f"{row['wait_event_type']}:{row['wait_event']}"
            found[name] = found.get(name, 0.0) + float(row["mean_backends"])
    return found
