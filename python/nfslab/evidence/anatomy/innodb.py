"""A MariaDB transaction's mean time: what its connection's thread did, or waited for.

Where every pause of the threads was timed (`mariadb`, eBPF) all parts are exact: their times by
the call that the thread was in, over the transactions; a call that blocked nobody is time on a
processor. Elsewhere threads were looked at, and Little's law gives a part's time, as with
PostgreSQL's backends; how long the log's syncs took is exact where system calls were watched.

What is left of the mean latency is the client's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from nfslab.evidence.anatomy.backend_times import parts_of_times
from nfslab.evidence.anatomy.parts import TRANSACTION, AnatomyFacts, divided
from nfslab.evidence.anatomy.sampled import (
    LEAST_SEEN,
    LEAST_STRETCHES,
    by_littles_law,
    mean_numbers,
    with_exact_syncs,
)
from nfslab.evidence.anatomy.whole import whole_of
from nfslab.evidence.mariadb import calls
from nfslab.evidence.mariadb.descriptors import DURABLE
from nfslab.evidence.mariadb.exact_times import TIMES_TABLE
from nfslab.evidence.mariadb.looks import RUNNING, WAITS_TABLE
from nfslab.evidence.over_time import NS, read_rows
from nfslab.evidence.syscalls.sync_share import LOGS
from nfslab.results.evidence_tables import evidence_path, read_evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nfslab.evidence.anatomy.parts import PartFacts
    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.syscalls.facts import SyscallFacts

DATA: Final = ("InnoDB data", "InnoDB system tablespace", "InnoDB undo", "InnoDB doublewrite")
WAITS: Final = {
    calls.ROW_LOCK: "row_lock_waits", calls.FLUSH: "group_commit_wait", calls.LATCH: "lwlock_waits",
    calls.FAULT: "unreported", RUNNING: "running",
    "another's flush": "group_commit_wait",  # what earlier results call it
}  # fmt: skip
OF_CLIENT: Final = (calls.CLIENT, calls.IDLE)
SYNCS: Final = frozenset(calls.SYNCS.values())
READS: Final = frozenset(calls.READS.values())
WRITES: Final = frozenset(calls.WRITES.values())
ON_FILES: Final = frozenset({*SYNCS, *READS, *WRITES, *calls.ON_FILES.values(),
                             *calls.ON_NAMES.values()})  # fmt: skip
LOOKS_DOUBT: Final = 0.5
"""Of a part that was looked at: how far looks were off exact times (0.51 to 1.50 of them on a
busy machine, with what is chance)."""


def part_of(wait: str, file_class: str) -> str | None:
    """Which part a thread with this wait is in; None: it is the client's time."""
    if wait in OF_CLIENT:
        return None
    if wait in WAITS:
        return WAITS[wait]
    if wait not in ON_FILES:
        return "other"
    name, durable = file_class.removesuffix(DURABLE), file_class.endswith(DURABLE)
    if name in LOGS and (wait in SYNCS or (durable and wait in WRITES)):
        return "wal_fsync"
    if name in LOGS:
        return "wal_write"
    if name in DATA and wait in READS:
        return "buffer_read"
    return "buffer_write" if name in DATA and wait in WRITES | SYNCS else "other_files"


def anatomy(run: SealedRun, syscalls: SyscallFacts | None) -> AnatomyFacts | None:
    """None: the latency or the rate is not there."""
    metrics = {name: metric.value for name, metric in run.record.metrics.items()}
    number, seconds = metrics.get(run.record.operations), metrics.get("measured_s")
    mean_ms = metrics.get("latency_mean_ms")
    if not number or not seconds or not mean_ms:
        return None
    summary, notes = run.summary("mariadb"), list[str]()
    exact = bool(summary) and evidence_path(run.folder, TIMES_TABLE).is_file()
    if exact:
        parts, missed = _timed(run, number)
    else:
        parts, missed = _looked_at(run, number, seconds)
        if parts is not None:
            notes += with_exact_syncs(parts, syscalls)
            if "running" in parts:
                parts["running"] = _divided(parts["running"], summary.get("processors", {}))
    notes += [*_limits(run), *([missed] if missed else [])]
    return AnatomyFacts(
        operation=TRANSACTION,
        operations=number,
        mean_ns=mean_ms * 1e6,
        parts=tuple(whole_of(parts, mean_ms * 1e6)),
        notes=tuple(notes),
        wants=("mariadb",) if parts is None else () if syscalls is not None else ("fsync",),
    )


def _divided(running: PartFacts, seen: Mapping[str, int]) -> PartFacts:
    """On a processor, or waiting for one: by the scheduler's account of the same threads."""
    on_cpu, queued = seen.get("on_cpu_ns", 0), seen.get("queued_ns", 0)
    if on_cpu + queued <= 0:
        return running
    share = queued / (on_cpu + queued)
    return divided(running, [("run_queue", share), ("on_cpu", 1.0 - share)])


def _limits(run: SealedRun) -> Iterator[str]:
    """What was asked for and could not be watched, and why; what could not be told apart."""
    summary = run.summary("mariadb")
    if "not_exact" in summary:
        yield f"Pauses are not timed, threads are looked at: {summary['not_exact']}."
    if "not_told" in summary:
        yield f"What MariaDB's threads wait for is not told: {summary['not_told']}."
    if mixed := summary.get("mixed_descriptors"):
        yield f"Calls on {mixed} descriptors of files of several classes are among other files."


def _too_few(run: SealedRun, seen: float) -> str:
    clients = run.record.load.clients if run.record.load is not None else None
    if seen and seen >= LEAST_SEEN * (clients or 0):
        return ""
    return (
        f"Of {clients or 'the'} clients' threads {seen:.2g} were seen: what they wait for is not "
        "told."
    )


def _timed(run: SealedRun, number: float) -> tuple[dict[str, PartFacts] | None, str]:
    """Part -> its mean time of a transaction; or why there is none."""
    rows = [row for row in read_evidence(run.folder, TIMES_TABLE).to_pylist() if row["client"]]
    clients = run.record.load.clients if run.record.load is not None else None
    seen = len({row["tid"] for row in rows if row["kind"] == "running"})
    if not seen or seen < (clients or 0):
        # A part of them would make the rest the client's time.
        return None, _too_few(run, seen) or f"Of {clients} clients' threads {seen} were timed."
    return parts_of_times(
        (row["kind"], part_of(row["wait"], row["file_class"]), row["ns"] / number) for row in rows
    ), ""


def _looked_at(
    run: SealedRun, number: float, seconds: float
) -> tuple[dict[str, PartFacts] | None, str]:
    rows = read_rows(run, WAITS_TABLE, ["t_ns", "over_ns", "wait", "file_class", "threads"])
    if rows is None:
        return None, ""
    t_ns, over_ns = rows["t_ns"].to_numpy(), rows["over_ns"].to_numpy()
    rows = rows.filter(pa.array((t_ns - over_ns >= 0) & (t_ns <= seconds * NS)))
    t_ns, threads = rows["t_ns"].to_numpy(), rows["threads"].to_numpy()
    looks = np.unique(t_ns).size
    if looks < LEAST_STRETCHES:
        return None, ""
    if missed := _too_few(run, float(threads.sum()) / looks):
        return None, missed
    waits, classes = (map(str, rows[name].to_pylist()) for name in ("wait", "file_class"))
    names = [part_of(*one) for one in zip(waits, classes, strict=True)]
    found = mean_numbers(t_ns, names, threads, in_stretches=True)
    return by_littles_law(found, seconds / number, LOOKS_DOUBT), ""
