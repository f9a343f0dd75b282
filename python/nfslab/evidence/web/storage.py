"""What requests asked of the storage: calls of the web server on its files, and NFS calls.

Each is a count or a time over the requests that it was made for. System calls count from the load's
start to its end, NFS calls in the timed part: each has the requests of the same time. In the server
they may overlap with sending and with each other, so they are costs of a request, and no parts of
its latency (`evidence.anatomy.requests` has these, where there are any).

Limits: a stat of a document is not watched; where attributes are not kept, its GETATTRs are in the
NFS calls, and in no system call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.base import Facts
from nfslab.evidence.cache import facts_of
from nfslab.evidence.mountstats.kind import MountstatsEvidence
from nfslab.evidence.nfs_server.kind import NfsServerEvidence
from nfslab.evidence.over_time import NS
from nfslab.evidence.rpc.kind import RpcEvidence
from nfslab.evidence.syscalls.kind import SyscallsEvidence
from nfslab.evidence.syscalls.tables import CallGroup, ClassRow
from nfslab.results.evidence_tables import sample_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nfslab.evidence.base import SealedRun

DOCUMENTS: Final = "web document"
POSTS: Final = "web log of POSTs"
LOGS: Final = ("web log", POSTS)
"""Classes of files (`shipped/file_classes.toml`)."""


class StorageFacts(Facts):
    """Of a request, in the mean. None: nobody watched."""

    opens: float | None = None
    open_ns: float | None = None
    reads: float | None = None
    """Also sendfile."""
    read_ns: float | None = None
    read_bytes: float | None = None
    log_writes: float | None = None
    log_syncs: float | None = None
    log_ns: float | None = None
    """Writing and syncing both logs."""
    nfs: dict[str, float] | None = None
    """Operation -> calls."""
    nfs_read_bytes: float | None = None
    """Of READs, what is around their data included."""


@dataclass(frozen=True, slots=True)
class Requests:
    """How many got their reply."""

    all: int
    """Of the load, those that were under way at its end included."""
    timed: int
    """Until the timed part's end, in whole intervals."""
    timed_ns: int
    """These intervals."""


def requests_of(run: SealedRun) -> Requests | None:
    """Of the load, with its warm-up. None: the run does not tell. ResultsError."""
    rows = sample_rows(run.folder, "series")
    workload = run.record.parameters.get("workload", {})
    long_s = workload.get("warm_up"), workload.get("duration")
    if len(rows) < 2 or None in long_s:
        return None
    interval_ns = rows[1]["t_ns"] - rows[0]["t_ns"]
    whole_ns = round(sum(long_s) * NS) // interval_ns * interval_ns
    timed = sum(row["operations"] for row in rows if row["t_ns"] < whole_ns)
    every = sum(row["operations"] for row in rows)
    return Requests(every, timed, whole_ns) if timed else None


def storage_of(run: SealedRun) -> StorageFacts | None:
    """None: nobody watched, or nothing was done. ResultsError."""
    requests = requests_of(run)
    if requests is None:
        return None
    made = _of_calls(run, requests.all) | _of_nfs(run, requests)
    return StorageFacts(**made) if made else None


def row_of(rows: tuple[ClassRow, ...], name: str) -> ClassRow:
    """That class of files; an empty row where it has none."""
    return next((row for row in rows if row.name == name), ClassRow(name, name))


def _of_calls(run: SealedRun, number: int) -> dict[str, Any]:
    seen = facts_of(SyscallsEvidence(), run)
    if seen is None or not seen.has_counts:
        return {}
    documents = row_of(seen.classes, DOCUMENTS)
    opens, reads = documents.group("opens"), documents.group("reads")
    logs = [row_of(seen.classes, name) for name in LOGS]
    writes, syncs = ([part(log) for log in logs] for part in (_writes, _syncs))
    return {
        "opens": opens.calls / number,
        "open_ns": opens.latency_sum_ns / number,
        "reads": reads.calls / number,
        "read_ns": reads.latency_sum_ns / number,
        "read_bytes": reads.bytes / number,
        "log_writes": sum(one.calls for one in writes) / number,
        "log_syncs": sum(one.calls for one in syncs) / number,
        "log_ns": sum(one.latency_sum_ns for one in (*writes, *syncs)) / number,
    }


def _writes(row: ClassRow) -> CallGroup:
    return row.group("writes")


def _syncs(row: ClassRow) -> CallGroup:
    """nfslab's servers sync by fdatasync alone, and nginx not at all."""
    return row.group("fdatasync")


def _of_nfs(run: SealedRun, requests: Requests) -> dict[str, Any]:
    counts = _of_ours(run) or _of_kernels(run)
    if not counts:
        return {}
    made: dict[str, Any] = {"nfs": {name: count / requests.timed for name, count in counts.items()}}
    taken = facts_of(NfsServerEvidence(), run)
    reads = [row for row in taken.rows if row.operation == "READ"] if taken is not None else []
    if reads and taken is not None and not taken.left_out:
        size = sum((row.bytes_mean or 0.0) * row.summary.calls for row in reads)
        made["nfs_read_bytes"] = size / requests.all
    return made


def _of_ours(run: SealedRun) -> dict[str, float]:
    """By our own clients' records."""
    found = facts_of(RpcEvidence(), run)
    clients = found.clients if found is not None else ()
    return _summed((one.operation, one.timed_calls) for each in clients for one in each.operations)


def _of_kernels(run: SealedRun) -> dict[str, float]:
    """By the kernel's mounts."""
    found = facts_of(MountstatsEvidence(), run)
    mounts = found.mounts if found is not None else ()
    return _summed((one.operation, one.calls) for each in mounts for one in each.operations)


def _summed(counts: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    """Of each operation that was called."""
    sums: dict[str, float] = {}
    for operation, count in counts:
        if count:
            sums[operation] = sums.get(operation, 0.0) + count
    return sums
