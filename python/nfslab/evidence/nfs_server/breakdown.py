"""Where the time of a run's NFS calls went: the client's record and the server's, joined.

Needs two tables of one run, both with every call: `rpc_calls` (collector `rpc` with
`calls = true`) and `nfs_server_calls` (collector `nfs_server`). Rows belong together by target
and transaction id. Client and server run on one machine and read CLOCK_MONOTONIC; every
instant is read *before* the step that lets the other side go on, so no part should be below
zero. The parts:

    RPC backlog        taken by the client -> about to be given to its kernel
    request transit    -> its last byte has been read by the server (both kernels, the wire, and
                          a server whose thread was busy elsewhere)
    waiting            -> the server begins with it (a thread, or a worker of the model, is free)
    server processing  -> the procedure is done (with the model's service time, disk and stalls)
    sending            -> the server is about to give its kernel the reply's last byte (the model's
                          bandwidth on the way out, delay and jitter lie here)
    reply transit      -> the client has noticed the reply (both kernels and the wire again)

Where by the two clocks a transit is below zero, on average of a kind of call, by more than they
may be off, both transits of all calls are told as one, as the request transit (`ways_joined`).

Only calls that were answered and sent once, in the timed part, and that are in both tables
once, are taken apart; all others are counted by the reason (`left_out`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.evidence.base import Facts
from nfslab.evidence.clocks import on_clock_of
from nfslab.evidence.nfs_server.together import (
    SIZES,
    TogetherFacts,
    shared_time,
    sizes,
    together,
    wire_ns_per_byte,
)
from nfslab.evidence.slowest import SlowestFacts, slowest
from nfslab.results.coded_texts import coded_texts, integers
from nfslab.results.evidence_tables import read_evidence
from nfslab.results.upgrade import table_host
from nfslab.statistics.latency_parts import (
    LONGER,
    PartsSummary,
    below_zero,
    join_unique,
    parts_of,
    summarise_parts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

CLIENT_TABLE: Final = "rpc_calls"
SERVER_TABLE: Final = "nfs_server_calls"
INSTANTS: Final = (
    (CLIENT_TABLE, "enqueued_ns"), (CLIENT_TABLE, "sent_first_ns"),
    (SERVER_TABLE, "received_ns"), (SERVER_TABLE, "started_ns"), (SERVER_TABLE, "finished_ns"),
    (SERVER_TABLE, "sent_ns"), (CLIENT_TABLE, "completed_ns"),
)  # fmt: skip
PARTS: Final = (
    "RPC backlog",
    "request transit",
    "waiting",
    "server processing",
    "sending",
    "reply transit",
)
WIRE: Final = ("request transit", "sending", "reply transit")
"""Parts that lie between client and server (a modelled delay or wire, too)."""
THERE, BACK = PARTS.index("request transit"), PARTS.index("reply transit")
ALL: Final = "all calls"
WAYS_JOINED: Final = (
    "By the clocks of client and server a transit takes less than no time, by more than they "
    "may be off: the request transit holds both."
)
CALL: Final = "NFS call"
COMMON: Final = ("target", "xid", "program", "procedure")


@dataclass(frozen=True, slots=True)
class OperationBreakdown:
    """One operation of one target, or all calls of it."""

    target: str
    operation: str
    summary: PartsSummary
    bytes_mean: float | None = None
    """Of call and reply together; None: the client's table does not tell."""

    @property
    def largest(self) -> tuple[int, float] | None:
        """The part that is the largest of all, and its share."""
        return _largest(self.summary.share)

    @property
    def largest_slow(self) -> tuple[int, float] | None:
        """The part that is the largest among the slowest calls, and its share there."""
        return _largest(self.summary.slow_share)


class BreakdownFacts(Facts):
    """A run's calls taken apart."""

    rows: tuple[OperationBreakdown, ...] = ()
    """By target; first all its calls, then its operations, the most time first."""
    calls: int = 0
    """Calls that were taken apart."""
    left_out: dict[str, int]
    """Reason -> calls in the timed part that were not; none of them is zero."""
    negative: dict[str, int]
    """Part -> calls in which it is below zero (and is in all sums as it is)."""
    together: TogetherFacts | None = None
    """What they did together; None: nothing was taken apart of a run's tables."""
    wire_ns_per_byte: float | None = None
    """By how much the transits are longer for a byte more; None: sizes hardly differ."""
    shared_ns: tuple[float, ...] = ()
    """Of each of `PARTS`: all calls' time, each instant shared among those under way."""
    slowest: SlowestFacts | None = None
    """The slowest 1 % of the answered calls, of all kinds and targets."""
    ways_joined: bool = False
    """Are both transits told as one, of the request, and the other as nothing?"""
    clock_error_ns: int = 0
    """How far the server's instants may be off against the client's: in the transits."""

    @property
    def slowest_calls(self) -> tuple[SlowestFacts, ...]:
        """None or one."""
        return () if self.slowest is None else (self.slowest,)

    @property
    def notes(self) -> list[str]:
        """What a reader has to know, in sentences."""
        notes = []
        if self.left_out:
            listed = ", ".join(f"{count:,} {why}" for why, count in self.left_out.items())
            notes.append(f"Left out: {listed}.")
        if self.negative:
            listed = ", ".join(
                f"{part} in {count:,} calls" for part, count in self.negative.items()
            )
            notes.append(f"Below zero, and in all sums as they are: {listed}.")
        if self.ways_joined:
            notes.append(WAYS_JOINED)
        if self.clock_error_ns:
            error_us = self.clock_error_ns / 1000
            notes.append(f"The clocks of client and server agree within {error_us:.1f} us.")
        return notes

    @property
    def total(self) -> int:
        """All calls in the timed part."""
        return self.calls + sum(self.left_out.values())

    @property
    def several(self) -> bool:
        """Are there calls to more than one target?"""
        return len({row.target for row in self.rows}) > 1


def read_breakdown(run: Path, window_ns: tuple[int, int] | None = None) -> BreakdownFacts:
    """The calls of a sealed run's folder with both tables, on the client's clock. ResultsError.

    `window_ns`: only those sent first from then until then, after the start of the timed part.
    """
    client = [name for table, name in INSTANTS if table == CLIENT_TABLE]
    server = [name for table, name in INSTANTS if table == SERVER_TABLE]
    more = ["t_ns", "operation", "outcome", "sends", "sent_last_ns", *SIZES]
    taken = read_evidence(run, CLIENT_TABLE, [*COMMON, *client, *more])
    if window_ns is not None:
        t_ns = integers(taken["t_ns"])
        taken = taken.filter((t_ns >= window_ns[0]) & (t_ns < window_ns[1]))
    served = read_evidence(run, SERVER_TABLE, [*COMMON, "operation", *server, *SIZES])
    served, error_ns = on_clock_of(table_host(taken.schema.metadata), served, server)
    found = take_apart(taken, served, error_ns)
    return found.model_copy(
        update={"clock_error_ns": error_ns, "together": together(taken, served)}
    )


def take_apart(client: pa.Table, server: pa.Table, error_ns: int = 0) -> BreakdownFacts:
    """The same of the two tables, with the columns that they have as evidence.

    `error_ns`: how far the server's instants may be off.
    """
    timed = integers(client["t_ns"]) >= 0
    answered = np.array(_equal(client["outcome"], "answered"))
    once = integers(client["sends"]) == 1
    left_out = {
        "not answered": int((timed & ~answered).sum()),
        "retransmitted": int((timed & answered & ~once).sum()),
    }
    clock = shared_time(client.filter(timed & answered))
    wholes = integers(client["completed_ns"]) - integers(client["enqueued_ns"])
    wholes = wholes[timed & answered]
    client = client.filter(timed & answered & once)
    targets = sorted({*_distinct(client["target"]), *_distinct(server["target"])})
    joined = join_unique(_keys(client, targets), _keys(server, targets))
    mine, theirs = client.take(joined.left), server.take(joined.right)
    same = np.ones(mine.num_rows, dtype=bool)
    for name in ("program", "procedure"):
        same &= integers(mine[name]) == integers(theirs[name])
    mine, theirs = mine.filter(same), theirs.filter(same)
    mine, theirs, longer, ways_joined = _possible(mine, theirs, error_ns)
    left_out |= {
        "not in the server's record": joined.unmatched,
        "with an id that is there more than once": joined.repeated,
        "with another procedure on the server": int((~same).sum()),
        LONGER: longer,
    }
    left_out = {why: count for why, count in left_out.items() if count}
    if not mine.num_rows:
        return BreakdownFacts(left_out=left_out, negative={})
    tables = {CLIENT_TABLE: mine, SERVER_TABLE: theirs}
    at = [integers(tables[table][name]) for table, name in INSTANTS]
    parts = parts_of(at)
    below = (parts < 0).sum(axis=1).tolist()
    size_bytes = sizes(mine if mine[SIZES[0]].null_count < mine.num_rows else theirs)
    on_the_way = parts[[PARTS.index(part) for part in WIRE]].sum(axis=0).astype(np.float64)
    return BreakdownFacts(
        rows=tuple(_rows(parts, size_bytes, mine, targets, ways_joined)),
        ways_joined=ways_joined,
        wire_ns_per_byte=wire_ns_per_byte(on_the_way, size_bytes),
        shared_ns=tuple(float(clock.between(*ends).sum()) for ends in pairwise(at)),
        slowest=slowest(CALL, PARTS, parts, wholes),
        calls=mine.num_rows,
        left_out=left_out,
        negative={part: n for part, n in zip(PARTS, below, strict=True) if n},
    )


def _possible(
    client: pa.Table, server: pa.Table, error_ns: int
) -> tuple[pa.Table, pa.Table, int, bool]:
    """(both without kinds of calls of which the ways together are below zero, how many these are,
    were the server's instants moved so that both transits are the request's?).

    By one clock (`error_ns` is 0) the server's instants are put between the client's first.
    """

    import pyarrow as pa

    def put(name: str, ns: NDArray[np.int64]) -> pa.Table:
        return server.set_column(server.column_names.index(name), name, pa.array(ns))

    sent_ns, completed_ns = integers(client["sent_first_ns"]), integers(client["completed_ns"])
    if not error_ns:
        # By one clock nothing waits before it was sent, nor is it sent when it has come: nfsd's
        # tracepoints (svc_xprt_received, svc_send) tell of connections, and behind the send.
        waits_ns = np.maximum(integers(server["received_ns"]), sent_ns)
        left_ns = np.minimum(integers(server["sent_ns"]), completed_ns)
        server = put("received_ns", np.minimum(waits_ns, integers(server["started_ns"])))
        server = put("sent_ns", np.maximum(left_ns, integers(server["finished_ns"])))
    kinds = coded_texts(client["operation"])[1]
    ways = [integers(server["received_ns"]) - sent_ns, completed_ns - integers(server["sent_ns"])]
    longer = below_zero(ways[0] + ways[1], kinds)
    client, server, kinds = client.filter(~longer), server.filter(~longer), kinds[~longer]
    back = ways[1][~longer]
    joined = any(below_zero(way[~longer], kinds, error_ns).any() for way in ways)
    for table, name in INSTANTS if joined else ():
        if table == SERVER_TABLE:
            server = put(name, integers(server[name]) + back)
    return client, server, int(longer.sum()), joined


def _rows(
    parts: NDArray[np.int64],
    size_bytes: NDArray[np.float64],
    calls: pa.Table,
    targets: list[str],
    ways_joined: bool,
) -> Iterator[OperationBreakdown]:
    names, which = coded_texts(calls["operation"])
    place = _places(calls["target"], targets)
    whole = summarise_parts(parts, place, len(targets))
    groups, n_groups = place * len(names) + which, len(targets) * len(names)
    single = summarise_parts(parts, groups, n_groups)
    for one in (*whole, *single) if ways_joined else ():
        if one is not None:
            one.share[BACK] = one.slow_share[BACK] = None
    counts = np.bincount(groups, minlength=n_groups)
    sums = np.bincount(groups, size_bytes, minlength=n_groups)
    for i, target in enumerate(targets):
        if (summary := whole[i]) is None:
            continue
        mine = slice(i * len(names), (i + 1) * len(names))
        rows = [
            OperationBreakdown(target, name, one, float(total / n))
            for name, one, total, n in zip(
                names, single[mine], sums[mine], counts[mine], strict=True
            )
            if one is not None
        ]
        yield OperationBreakdown(target, ALL, summary, float(sums[mine].sum() / summary.calls))
        yield from sorted(rows, key=lambda row: -row.summary.sum_ns)


def _largest(shares: list[float | None]) -> tuple[int, float] | None:
    known = [(share, -i) for i, share in enumerate(shares) if share is not None]
    if not known:
        return None
    share, place = max(known)
    return -place, share


def _keys(table: pa.Table, targets: list[str]) -> NDArray[np.uint64]:
    """Target and transaction id in one number."""
    high = _places(table["target"], targets).astype(np.uint64) << np.uint64(32)
    keys: NDArray[np.uint64] = high | integers(table["xid"]).astype(np.uint64)
    return keys


def _places(column: Any, names: list[str]) -> NDArray[np.int64]:
    """Of every text its place among the names."""
    known, which = coded_texts(column)
    places = np.array([names.index(name) for name in known], dtype=np.int64)
    return places[which]


def _distinct(column: Any) -> list[str]:
    return [str(value) for value in column.unique().to_pylist()]


def _equal(column: Any, value: str) -> Any:
    names, which = coded_texts(column)
    return which == (names.index(value) if value in names else -1)
