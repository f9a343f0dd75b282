"""What the kernel's client does for one mount: each call by sunrpc's tracepoints, queues by sysfs,
TCP by sock_diag.

It is used as the core's `RpcRecorder` of our own clients is, so that the collector `rpc` and all
that reads its tables need not know whose client it was.

    tracepoint (a call has ended) ──> totals by operation ──> samples
                                  └─> rows, when every call was asked for
    /sys/kernel/sunrpc (queues of the connections now) ─────> samples
    sock_diag (TCP of the connections now, by their ports) ─> samples

The kernel's client has a number for each mount (and others for what a server's mounts share, such
as NFSv4's lease); those whose connections lead to this mount's server are its own. So mounts of
one server cannot be told apart: they have no recorder.

Which bytes of which file a READ, WRITE or COMMIT was for comes from tracepoints of nfs, when every
call is asked for. Limits: bytes of messages are not told, a status only where it is 0. Times are
whole microseconds. "Sent" is the last time it was sent. A call without a reply is "dropped". TCP is
told of established connections, at the samples.

Source: include/trace/events/sunrpc.h (rpc_stats_latency), fs/nfs/nfstrace.h, net/sunrpc/sysfs.c
(Linux 5.14).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nfslab.machine.mounts import SYS

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    import pyarrow as pa

    from nfslab._core import Histogram, KernelCalls

CLIENTS: Final = SYS / "kernel" / "sunrpc" / "rpc-clients"
QUEUES: Final = ("backlog_q_len", "binding_q_len", "sending_q_len")
"""Of a connection: calls that wait for a slot, for a port, for their turn to be sent."""
LOCAL_PORT: Final = "src_port"
"""Of a connection: where its socket is bound now; a new one after each reconnect."""
AWAITING: Final = "pending_q_len"
"""Calls that were sent and have no reply yet."""
OWN: Final = ("client", "replied_ns")
"""Columns that other clients' records do not have."""
ABSENT: Final = ("call_bytes", "reply_bytes")
"""Columns of other clients' records that the kernel does not tell."""
TCP: Final = (
    "round_trip_us", "round_trip_deviation_us", "congestion_window", "segment_size_bytes",
    "unacknowledged", "retransmitted", "retransmission_timeout_us",
)  # fmt: skip
QUANTILES: Final = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99, "p999_ns": 0.999}


def connections(addresses: Collection[str], port: int) -> dict[int, list[Path]]:
    """Clients of a server, by number, with the folders of their connections; as sysfs has them."""
    found: dict[int, list[Path]] = {}
    for client in CLIENTS.glob("clnt-*"):
        ours = [one for one in client.glob("switch/xprt-*") if _leads_to(one, addresses, port)]
        if ours:
            found[int(client.name.removeprefix("clnt-"))] = ours
    return found


def _leads_to(connection: Path, addresses: Collection[str], port: int) -> bool:
    return _peer(connection) in addresses and _state(connection).get("dst_port") == port


def _peer(connection: Path) -> str:
    """Address of its server; empty once it has gone."""
    try:
        return (connection / "dstaddr").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _number(connection: Path) -> int:
    """The kernel's: 3 of "xprt-3-tcp"."""
    return int(connection.name.split("-")[1])


def _state(connection: Path) -> dict[str, int]:
    """Its gauges: "cong_win=256" a line; empty once it has gone."""
    found: dict[str, int] = {}
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in (connection / "xprt_info").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition("=")
            with contextlib.suppress(ValueError):
                found[name] = int(value)
    return found


@dataclass(slots=True)
class _Operation:
    """Since the recording began."""

    round_trips: Histogram
    calls: int = 0
    sends: int = 0
    queue_sum_ns: int = 0
    round_trip_sum_ns: int = 0

    def figures(self, name: str) -> dict[str, Any]:
        quantiles = {key: self.round_trips.quantile(q) for key, q in QUANTILES.items()}
        return {
            "operation": name, "calls": self.calls, "sends": self.sends,
            "queue_sum_ns": self.queue_sum_ns, "round_trip_sum_ns": self.round_trip_sum_ns,
            **quantiles, "max_ns": self.round_trips.max,
        }  # fmt: skip


@dataclass(slots=True)
class KernelRecorder:
    """Of the mount of the server at these addresses, if it is the only one of that server."""

    addresses: Collection[str]
    port: int
    _watch: KernelCalls | None = None
    _every_call: bool = False
    _interval_ns: int = 0
    _connections: dict[int, list[Path]] = field(default_factory=dict)
    _operations: dict[str, _Operation] = field(default_factory=dict)
    _totals: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("enqueued", "answered", "failed", "sends", "retransmissions"), 0
        )
    )
    _gauges: dict[str, int] = field(default_factory=lambda: {"queue": 0, "outstanding": 0})
    _kept: list[pa.Table] = field(default_factory=list)
    _sampled_ns: int = 0
    _samples: list[dict[str, int]] = field(default_factory=list)
    _by_operation: list[dict[str, Any]] = field(default_factory=list)
    _places: dict[int, int] = field(default_factory=dict)
    _by_connection: list[dict[str, int]] = field(default_factory=list)
    tcp_refused: str = ""
    """Why there are samples without TCP; empty: there are none."""

    def start(self, every_call: bool = True, interval_ns: int = 100_000_000, room: int = 0) -> None:
        """As `RpcRecorder.start`; `room` is the rings'. CoreError where it is not granted."""
        from nfslab._core import KernelCalls

        self._every_call, self._interval_ns = every_call, interval_ns
        self._connections = connections(self.addresses, self.port)
        self._watch = KernelCalls(client=True, files=every_call)

    def stop(self) -> None:
        """End it; what was recorded is still there to be taken."""
        if self._watch is not None:
            self._count(*self._watch.stop()[:2])

    def calls(self) -> pa.Table:
        """The calls that ended since the last time; columns as `RpcRecorder.calls`, some null."""
        import pyarrow as pa

        kept, self._kept = self._kept, []
        return pa.concat_tables(kept) if kept else pa.table({})

    def samples(self) -> dict[str, pa.Table]:
        """The samples since the last time: "rpc", "operations" and "tcp"."""
        import pyarrow as pa

        if self._watch is not None:
            self._count(*self._watch.take()[:2])
        samples, self._samples = self._samples, []
        by_operation, self._by_operation = self._by_operation, []
        by_connection, self._by_connection = self._by_connection, []
        number = pa.uint64()
        counted = dict.fromkeys(("at_ns", *self.counters()), number)
        named: dict[str, pa.DataType] = {"at_ns": number, "operation": pa.string(), "calls": number,
                 "round_trip_sum_ns": number}  # fmt: skip
        tcp = {"at_ns": number} | dict.fromkeys(("connection", *TCP), pa.uint32())
        return {
            "rpc": pa.Table.from_pylist(samples, schema=pa.schema(counted)),
            "operations": pa.Table.from_pylist(by_operation, schema=pa.schema(named)),
            "tcp": pa.Table.from_pylist(by_connection, schema=pa.schema(tcp)),
        }

    def counters(self) -> dict[str, int]:
        """Totals since the recording began, and gauges, by name."""
        return self._totals | self._gauges

    def operations(self) -> list[dict[str, Any]]:
        """Operations that were called."""
        return [one.figures(name) for name, one in sorted(self._operations.items())]

    def lost(self) -> dict[str, int]:
        """Calls that found no room, so far."""
        return {"calls": 0 if self._watch is None else self._watch.lost()}

    def _count(self, until_ns: int, taken: Any) -> None:
        """Calls that ended until then."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from nfslab.results.coded_texts import coded_texts
        from nfslab.results.core_tables import core_table

        table = core_table(taken)
        if table.num_rows:
            strange = set(table["client"].unique().to_pylist()) - set(self._connections)
            if strange:  # a connection's client may be a new one since the start
                self._connections |= connections(self.addresses, self.port)
            ours = pa.array(sorted(self._connections), pa.uint32())
            table = table.filter(pc.is_in(table["client"], ours))
        names, which = coded_texts(table["operation"])
        for number, name in enumerate(names):
            self._count_operation(name, table.filter(which == number))
        if self._every_call and table.num_rows:
            rows = table.drop_columns(list(OWN))
            for name in ABSENT:
                rows = rows.append_column(name, pa.nulls(rows.num_rows, pa.uint32()))
            self._kept.append(rows)
        if self._interval_ns and until_ns - self._sampled_ns >= self._interval_ns:
            self._sampled_ns = until_ns
            self._sample(until_ns)

    def _count_operation(self, name: str, calls: pa.Table) -> None:
        import numpy as np

        from nfslab._core import Histogram
        from nfslab.results.coded_texts import integers

        columns = ("enqueued_ns", "sent_last_ns", "replied_ns", "sends")
        enqueued, sent, replied, sends = (integers(calls[name], missing=0) for name in columns)
        answered = replied > 0
        trips = np.ascontiguousarray((replied - sent)[answered])
        one = self._operations.setdefault(name, _Operation(Histogram()))
        one.round_trips.record_many(trips.data)
        one.calls += len(sent)
        one.sends += int(sends.sum())
        one.queue_sum_ns += int((sent - enqueued).sum())
        one.round_trip_sum_ns += int(trips.sum())
        moved = {
            "enqueued": len(sent), "answered": int(answered.sum()),
            "failed": int((~answered).sum()), "sends": int(sends.sum()),
            "retransmissions": int((sends - 1).sum()),
        }  # fmt: skip
        for key, value in moved.items():
            self._totals[key] += value

    def _sample(self, at_ns: int) -> None:
        # Clients of one server share its connections.
        distinct = {one.resolve() for ours in self._connections.values() for one in ours}
        states = {one: _state(one) for one in sorted(distinct, key=_number)}
        self._gauges = {
            "queue": sum(state.get(name, 0) for state in states.values() for name in QUEUES),
            "outstanding": sum(state.get(AWAITING, 0) for state in states.values()),
        }
        self._sample_tcp(at_ns, states)
        self._samples.append({"at_ns": at_ns, **self.counters()})
        self._by_operation += [
            {
                "at_ns": at_ns, "operation": name, "calls": one.calls,
                "round_trip_sum_ns": one.round_trip_sum_ns,
            }
            for name, one in self._operations.items()
        ]  # fmt: skip

    def _sample_tcp(self, at_ns: int, states: Mapping[Path, Mapping[str, int]]) -> None:
        """A row of each TCP connection that is up."""
        from nfslab._core import CoreError, tcp_connections
        from nfslab.results.core_tables import core_table

        for one in states:
            self._places.setdefault(_number(one), len(self._places))
        peers = {one: _peer(one) for one in states if one.name.endswith("-tcp")}
        told: dict[tuple[str, int], dict[str, int]] = {}
        try:
            for peer in set(peers.values()) - {""}:
                rows = core_table(tcp_connections(peer, self.port)).to_pylist()
                told |= {(peer, row.pop("local_port")): row for row in rows}
        except CoreError as error:
            self.tcp_refused = str(error)
        for one, peer in peers.items():
            row = told.get((peer, states[one].get(LOCAL_PORT, 0)))
            if row is not None:
                place = self._places[_number(one)]
                self._by_connection.append({"at_ns": at_ns, "connection": place} | row)
