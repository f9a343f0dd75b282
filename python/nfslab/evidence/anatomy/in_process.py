"""A transaction of a database that is a library: its own calls on files, in its client's process.

Every thread of the process is a client's, so a call that one makes keeps a transaction waiting: the
parts are the times of all calls by class of file, over the transactions. What is left is the
program on a processor, or a pause that it makes while another one writes: not told apart.

Calls of opening and closing the database are in the sums: of a run of some thousand transactions
they are little.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.evidence.anatomy.parts import TRANSACTION, AnatomyFacts, PartFacts, with_rest
from nfslab.evidence.syscalls.sync_share import LOGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.syscalls.facts import SyscallFacts
    from nfslab.evidence.syscalls.tables import ClassRow

DATABASE: Final = "SQLite database"


def anatomy(run: SealedRun, syscalls: SyscallFacts | None) -> AnatomyFacts | None:
    """None: the latency is not there, or no call was watched."""
    metrics = {name: metric.value for name, metric in run.record.metrics.items()}
    number, mean_ms = metrics.get("transactions"), metrics.get("latency_mean_ms")
    if syscalls is None or not number or not mean_ms:
        return None
    sums: dict[str, float] = {}
    for row in syscalls.classes:
        for name, ns in _of_class(row):
            sums[name] = sums.get(name, 0.0) + ns
    parts = [
        PartFacts(name=name, ns=sums[name] / number, source="exact")
        for name in ("wal_fsync", "wal_write", "buffer_read", "buffer_write", "other_files")
        if sums.get(name)
    ]
    return AnatomyFacts(
        operation=TRANSACTION,
        operations=number,
        mean_ns=mean_ms * 1e6,
        parts=tuple(with_rest(parts, mean_ms * 1e6)),
        wants=() if syscalls.has_counts else ("syscalls",),
    )


def _of_class(row: ClassRow) -> Iterator[tuple[str, float]]:
    """(part, time of its calls, ns); a write that returns when its bytes are durable is a sync."""
    durable_ns = row.synchronous.latency_sum_ns
    syncs_ns, writes_ns = row.sync_ns, row.group("writes").latency_sum_ns - durable_ns
    every = [*row.groups.values(), *row.others.values()]
    all_ns = sum(one.latency_sum_ns for one in every)
    if row.name in LOGS:
        yield "wal_fsync", syncs_ns
        yield "wal_write", writes_ns
    elif row.name == DATABASE:
        yield "buffer_read", row.group("reads").latency_sum_ns
        yield "buffer_write", syncs_ns + writes_ns
        all_ns -= row.group("reads").latency_sum_ns
    else:
        yield "other_files", all_ns
        return
    yield "other_files", all_ns - syncs_ns - writes_ns
