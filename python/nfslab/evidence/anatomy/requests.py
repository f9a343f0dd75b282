"""A web server's request in a closed load: its mean time, in parts.

The time is from one reply to the next on a connection: connections times seconds, by requests. In a
closed load that is exact (Little's law), also of the load with its warm-up, over which the server's
calls are counted: parts and whole are of the same requests.

A call that opens or reads a document is made for one request, which waits for it; whether a worker
makes it or a thread of a pool is the same. So are a write and a sync of the log of POSTs; several
POSTs may wait for one sync, which is counted once. What is left is "elsewhere": the server's own
work, waiting while it is at other requests, the connection, the generator. A server that is busy in
calls for others makes that longer: findings say that it may follow.

Within these calls NFS calls are told by kind: READs where documents are read, names and attributes
where they are opened, each kind by its own time, as far as it fits in.

Not told: of lines with a speed (their time is the line's, and the calls lie within it), of open
loads (no record has the latency of the warm-up, and calls are counted with it), of a server that
runs elsewhere. In no part, hence elsewhere: closing, the access log (nginx writes it behind the
reply), and stat, which is not watched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.evidence.anatomy.calls import divided_by_calls
from nfslab.evidence.anatomy.parts import ELSEWHERE, REQUEST, AnatomyFacts, PartFacts, with_rest
from nfslab.evidence.web.storage import DOCUMENTS, POSTS, requests_of, row_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.nfs_server.breakdown import BreakdownFacts
    from nfslab.evidence.syscalls.facts import SyscallFacts

READS: Final = ("READ",)
WRITES: Final = ("WRITE", "COMMIT", "CREATE", "SETATTR")
"""NFS calls of logs: of no document."""
NGINX_ALONE: Final = (
    "nginx's own calls alone are seen: those of the application behind it are elsewhere"
)


def anatomy(
    run: SealedRun, syscalls: SyscallFacts | None, calls: BreakdownFacts | None
) -> AnatomyFacts | None:
    """None: of such a load nothing is told, or no call was watched. ResultsError."""
    load, requests = run.record.load, requests_of(run)
    workload = run.record.parameters.get("workload", {})
    if syscalls is None or not syscalls.has_counts or load is None or requests is None:
        return None
    if workload.get("load") != "closed" or not load.clients:
        return None
    mean_ns = load.clients * requests.timed_ns / requests.timed
    parts = [
        PartFacts(name=name, ns=ns / requests.all, source="exact")
        for name, ns in _sums(syscalls)
        if ns
    ]
    if calls is not None:
        parts = [_within(part, calls, requests.all) for part in parts]
    left_ns = mean_ns - sum(part.ns for part in parts)
    if left_ns > 0:
        parts.append(PartFacts(name=ELSEWHERE, ns=left_ns, source="exact"))
    over_nfs = any("nfs" in place.facts for place in run.record.places.values())
    half = workload.get("server") == "nginx" and syscalls.watch.get("way") != "ebpf"
    return AnatomyFacts(
        operation=REQUEST,
        operations=requests.all,
        mean_ns=mean_ns,
        parts=tuple(with_rest(parts, mean_ns)),
        notes=(NGINX_ALONE,) if half else (),
        wants=("rpc", "nfs_server") if calls is None and over_nfs else (),
    )


def _sums(syscalls: SyscallFacts) -> Iterator[tuple[str, int]]:
    """(part, time of its calls)."""
    documents, posts = (row_of(syscalls.classes, name) for name in (DOCUMENTS, POSTS))
    yield "log_fsync", posts.sync_ns
    yield "log_write", posts.group("writes").latency_sum_ns
    yield "document_open", documents.group("opens").latency_sum_ns
    yield "document_read", documents.group("reads").latency_sum_ns


def _within(part: PartFacts, calls: BreakdownFacts, number: int) -> PartFacts:
    match part.name:
        case "document_read":
            return divided_by_calls(part, calls, number, lambda kind: kind in READS)
        case "document_open":
            return divided_by_calls(part, calls, number, lambda kind: kind not in (*READS, *WRITES))
        case _:
            return part
