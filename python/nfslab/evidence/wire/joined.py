"""The same call in two captures, at the client and at the server: what the network took.

    call's first byte ──> last │ ──> last            reply's first ──> last │ ──> last
              at the client    │                at the server               │  at the client
       sending the call    request transit    at the server    sending the reply    reply transit

Rows belong together by the client's address and port and the transaction id. Each capture's times
come from its host's wall clock, compared with its monotonic clock when the capture began; the
hosts' monotonic clocks were compared before the timed part and behind it, and how far they went
meanwhile counts as error. All that may be wrong is in `error_ns`: it moves time from one way to the
other. The two ways together do not depend on it.

A way that is below zero by more than `error_ns` says that clocks are not what they were said to be:
then no way by itself is told (`contradicted`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow.compute as pc

from nfslab.evidence.base import Facts
from nfslab.evidence.clocks import client_of, on_clock_of
from nfslab.results.catalogue import read_part
from nfslab.results.coded_texts import coded_texts, integers
from nfslab.results.evidence_tables import has_evidence, read_evidence
from nfslab.results.records import HostRecord
from nfslab.statistics.latency_parts import (
    LONGER,
    PartsSummary,
    below_zero,
    join_unique,
    parts_of,
    summarise_parts,
)
from nfslab.statistics.quantile_estimator import quantiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from nfslab.evidence.base import SealedRun
    from nfslab.results.records import RunRecord

    Integers = NDArray[np.int64]

CLIENT_TABLE: Final = "capture_calls"
SERVER_TABLE: Final = "capture_server_calls"
INSTANTS: Final = (
    (CLIENT_TABLE, "call_first_ns"), (CLIENT_TABLE, "call_last_ns"), (SERVER_TABLE, "call_last_ns"),
    (SERVER_TABLE, "reply_first_ns"), (SERVER_TABLE, "reply_last_ns"),
    (CLIENT_TABLE, "reply_last_ns"),
)  # fmt: skip
PARTS: Final = (
    "sending the call",
    "request transit",
    "at the server",
    "sending the reply",
    "reply transit",
)
THERE, BACK = PARTS.index("request transit"), PARTS.index("reply transit")
ALL: Final = "all calls"
NAMED: Final = ("client", "client_port", "xid")
COLUMNS: Final = (
    "t_ns", *NAMED, "operation", "sends", "replies", "call_first_ns", "call_last_ns",
    "reply_first_ns", "reply_last_ns",
)  # fmt: skip
QUANTILES: Final = (0.5, 0.99)


@dataclass(frozen=True, slots=True)
class OperationOnWire:
    """One operation of one client host, or all calls of it."""

    operation: str
    summary: PartsSummary
    ways_p50_ns: int
    """Both ways together."""
    ways_p99_ns: int


class HostOnWire(Facts):
    """The calls of one client host."""

    host: str
    rows: tuple[OperationOnWire, ...]
    """First all calls, then operations, the most time first; empty: none was in both captures."""
    calls: int
    left_out: dict[str, int]
    """Reason -> calls of the timed part that were not joined."""
    error_ns: int
    """How far time may be on the wrong one of the two ways."""
    contradicted_ns: int
    """By how much a way is below zero beyond that; 0: nothing speaks against the clocks."""

    @property
    def total(self) -> int:
        """All calls of the timed part, as the client's capture has them."""
        return self.calls + sum(self.left_out.values())


class WireFacts(Facts):
    """Of one run."""

    hosts: tuple[HostOnWire, ...]


def on_the_wire(run: SealedRun) -> WireFacts | None:
    """None where no client host captured its calls; ResultsError."""
    hosts = []
    served_error_ns = _error_ns(run.record, "capture_server")
    for host, calls, error_ns in _seen_by_clients(run):
        served = read_evidence(run.folder, SERVER_TABLE, COLUMNS)
        served, clocks_ns = on_clock_of(host, served)
        hosts.append(joined(host.name, calls, served, error_ns + served_error_ns + clocks_ns))
    return WireFacts(hosts=tuple(hosts)) if hosts else None


def _seen_by_clients(run: SealedRun) -> Iterator[tuple[HostRecord, pa.Table, int]]:
    """(the host whose clock t_ns counts by, its calls, how far they may be off that clock)."""
    if has_evidence(run.folder, CLIENT_TABLE):
        calls = read_evidence(run.folder, CLIENT_TABLE, COLUMNS)
        yield client_of(run.record), calls, _error_ns(run.record, "capture")
        return
    for one in run.record.client_hosts:
        part = run.folder / one.folder
        if has_evidence(part, CLIENT_TABLE):
            error_ns = _error_ns(read_part(run.folder, one.name), "capture")
            calls = read_evidence(part, CLIENT_TABLE, COLUMNS)
            t_ns = pc.add(calls["t_ns"], one.t0_ns)
            calls = calls.set_column(calls.column_names.index("t_ns"), "t_ns", t_ns)
            yield HostRecord(name=one.name), calls, error_ns + one.clock_meanwhile.error_ns


def _error_ns(record: RunRecord, collector: str) -> int:
    """How far a capture's times may be off its host's monotonic clock."""
    found = next((e.summary for e in record.evidence if e.collector == collector), {})
    clock = found.get("clock", {})
    return int(clock.get("error_ns", 0)) + abs(int(clock.get("moved_ns", 0)))


def joined(host: str, client: pa.Table, server: pa.Table, error_ns: int) -> HostOnWire:
    """The same of two tables whose `t_ns` are of one clock."""
    client = client.filter(integers(client["t_ns"]) >= 0)
    whole, left_out = client.num_rows, {}
    for why, kept in (("not answered", _answered), ("sent or answered more than once", _once)):
        before = client.num_rows
        client = client.filter(kept(client))
        left_out[why] = before - client.num_rows
    server = server.filter(_answered(server)).combine_chunks()
    server = server.filter(_once(server))
    found = join_unique(*_keys(client, server))
    left_out["not in the server's capture"] = found.unmatched
    left_out["with an id that is there more than once"] = found.repeated
    mine, theirs = client.take(found.left), server.take(found.right)
    parts = _parts(mine, theirs)
    longer = below_zero(parts[[THERE, BACK]].sum(axis=0), coded_texts(mine["operation"])[1])
    left_out[LONGER] = int(longer.sum())
    mine, theirs, parts = mine.filter(~longer), theirs.filter(~longer), parts[:, ~longer]
    left_out = {why: count for why, count in left_out.items() if count}
    assert mine.num_rows + sum(left_out.values()) == whole
    if not mine.num_rows:
        return HostOnWire(
            host=host, rows=(), calls=0, left_out=left_out, error_ns=error_ns, contradicted_ns=0
        )
    lowest = int(parts[[THERE, BACK]].min())
    return HostOnWire(
        host=host,
        rows=tuple(_rows(parts, mine)),
        calls=mine.num_rows,
        left_out=left_out,
        error_ns=error_ns,
        contradicted_ns=max(0, -lowest - error_ns),
    )


def _parts(mine: pa.Table, theirs: pa.Table) -> Integers:
    tables = {CLIENT_TABLE: mine, SERVER_TABLE: theirs}
    return parts_of([_at(tables[table], name) for table, name in INSTANTS])


def _answered(calls: pa.Table) -> Any:
    return calls["reply_last_ns"].is_valid()


def _once(calls: pa.Table) -> Any:
    return (integers(calls["sends"]) == 1) & (integers(calls["replies"]) == 1)


def _at(calls: pa.Table, instant: str) -> Integers:
    """On the clock of `t_ns`, which is that of the call's first byte."""
    found: Integers = integers(calls["t_ns"]) + (
        integers(calls[instant]) - integers(calls["call_first_ns"])
    )
    return found


def _keys(client: pa.Table, server: pa.Table) -> tuple[Integers, Integers]:
    """Address, port and transaction id of each side as one number."""
    names: dict[str, int] = {}
    made = []
    for table in (client, server):
        known, which = coded_texts(table["client"])
        places = np.array([names.setdefault(name, len(names)) for name in known], dtype=np.int64)
        address = places[which] if len(known) else which
        made.append(
            (address << 48) | (integers(table["client_port"]) << 32) | integers(table["xid"])
        )
    return made[0], made[1]


def _rows(parts: Integers, calls: pa.Table) -> Iterator[OperationOnWire]:
    names, which = coded_texts(calls["operation"])
    ways = parts[[THERE, BACK]].sum(axis=0)
    (whole,) = summarise_parts(parts, np.zeros(calls.num_rows, dtype=np.int64), 1)
    assert whole is not None
    yield _row(ALL, whole, ways)
    single = zip(names, summarise_parts(parts, which, len(names)), strict=True)
    rows = [
        _row(name, one, ways[which == number])
        for number, (name, one) in enumerate(single)
        if one is not None
    ]
    yield from sorted(rows, key=lambda row: -row.summary.sum_ns)


def _row(name: str, summary: PartsSummary, ways: Integers) -> OperationOnWire:
    middle, slow = (int(found.value) for found in quantiles(ways, QUANTILES))
    return OperationOnWire(name, summary, middle, slow)
