"""The kernel's client for the collector `rpc`: planted tracepoints and sysfs, exact totals."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import nfslab._core
import pyarrow as pa
import pytest
from nfslab.errors import RunFailed
from nfslab.evidence.collector import CollectorParameters
from nfslab.evidence.nfs_server.collector import NfsServerCollector
from nfslab.evidence.rpc.collector import RpcCollector, RpcCollectorParameters
from nfslab.mounts import kernel_recorder
from nfslab.mounts.kernel_recorder import TCP, KernelRecorder, connections
from nfslab.results.core_tables import core_table
from nfslab.servers.knfsd_records import KernelServerRecords
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.workloads.run_context import run_of

TCP_CONNECTIONS = nfslab._core.tcp_connections
SECOND = 1_000_000_000
MS = 1_000_000


def call(
    client: int, xid: int, at_ms: int, took_ms: int | None, **more: object
) -> dict[str, object]:
    """Begun at `at_ms`, 1 ms in the queue, answered `took_ms` after it was sent; None: never."""
    sent = (at_ms + 1) * MS
    row = {
        "enqueued_ns": at_ms * MS, "sent_first_ns": sent, "sent_last_ns": sent,
        "replied_ns": None if took_ms is None else sent + took_ms * MS,
        "completed_ns": sent + (took_ms or 0) * MS, "client": client, "xid": xid,
        "program": 100003, "version": 3, "procedure": 7, "operation": "WRITE",
        "outcome": "dropped" if took_ms is None else "answered", "sends": 1,
        "status": None, "file_id": None, "offset": None, "count": None,
    }  # fmt: skip
    return row | more


TYPES: dict[str, pa.DataType] = {
    "client": pa.uint32(),
    "operation": pa.string(),
    "outcome": pa.string(),
} | dict.fromkeys(
    ("xid", "program", "version", "procedure", "sends", "status", "count"), pa.uint32()
)


def rows(calls: list[dict[str, object]]) -> pa.Table:
    names = call(0, 0, 0, None)
    return pa.Table.from_pylist(
        calls, schema=pa.schema({name: TYPES.get(name, pa.uint64()) for name in names})
    )


class Tracepoints:
    """In place of the core's: what is planted, a part at each question."""

    parts: list[tuple[int, list[dict[str, object]]]]

    def __init__(self, *, client: bool = False, files: bool = False, server: bool = False) -> None:
        assert (client, server) == (True, False)
        self.files = files

    def take(self) -> tuple[int, pa.Table, pa.Table]:
        until_ns, calls = self.parts.pop(0) if self.parts else (0, [])
        return until_ns, rows(calls), pa.table({})

    stop = take

    def lost(self) -> int:
        return 3


def plant(
    folder: Path, client: int, number: int, address: str, port: int, by: str = "tcp", **state: int
) -> None:
    connection = folder / f"clnt-{client}" / "switch" / f"xprt-{number}-{by}"
    connection.mkdir(parents=True, exist_ok=True)
    (connection / "dstaddr").write_text(f"{address}\n")
    lines = [f"{name}={value}\n" for name, value in ({"cong_win": 256} | state).items()]
    (connection / "xprt_info").write_text("".join(lines) + f"dst_port={port}\n")


def no_tcp(_address: str, _port: int) -> None:
    raise nfslab._core.CoreError("no such module")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelRecorder:
    monkeypatch.setattr(kernel_recorder, "CLIENTS", tmp_path)
    monkeypatch.setattr(nfslab._core, "KernelCalls", Tracepoints)
    monkeypatch.setattr(nfslab._core, "tcp_connections", no_tcp)
    plant(tmp_path, 4, 1, "127.0.0.1", 2049, pending_q_len=5, sending_q_len=2, backlog_q_len=1)
    plant(tmp_path, 5, 2, "127.0.0.1", 2050)
    plant(tmp_path, 6, 3, "127.0.0.2", 2049)
    # Another client of the same server, by the same connection: its queues count once.
    (tmp_path / "clnt-7").mkdir()
    (tmp_path / "clnt-7" / "switch").symlink_to(tmp_path / "clnt-4" / "switch")
    Tracepoints.parts = []
    return KernelRecorder({"127.0.0.1"}, 2049)


def test_clients_are_those_whose_connections_lead_there(planted: KernelRecorder) -> None:
    assert sorted(connections({"127.0.0.1"}, 2049)) == [4, 7]
    assert sorted(connections({"127.0.0.1", "127.0.0.2"}, 2049)) == [4, 6, 7]
    assert connections({"127.0.0.3"}, 2049) == {}


def test_totals_samples_and_rows_are_of_this_mount_alone(planted: KernelRecorder) -> None:
    Tracepoints.parts = [
        (SECOND, [call(4, 1, 100, 2), call(5, 2, 100, 50), call(7, 3, 200, 4, sends=3)]),
        (2 * SECOND, [call(4, 4, 1100, None), call(4, 5, 1200, 8, operation="READ", file_id=9)]),
    ]
    planted.start(every_call=True, interval_ns=SECOND)
    samples = planted.samples()["rpc"].to_pylist()
    samples += planted.samples()["rpc"].to_pylist()
    assert [row["at_ns"] for row in samples] == [SECOND, 2 * SECOND]
    assert [row["answered"] for row in samples] == [2, 3]
    assert [row["failed"] for row in samples] == [0, 1]
    assert [row["retransmissions"] for row in samples] == [2, 2]
    assert {(row["queue"], row["outstanding"]) for row in samples} == {(3, 5)}
    calls = planted.calls()
    assert calls["xid"].to_pylist() == [1, 3, 4, 5]
    assert calls["file_id"].to_pylist() == [None, None, None, 9]
    assert calls["call_bytes"].null_count == 4
    assert planted.calls().num_rows == 0
    write, read = sorted(planted.operations(), key=lambda one: -one["calls"])
    assert (write["operation"], write["calls"], write["sends"]) == ("WRITE", 3, 5)
    assert (write["queue_sum_ns"], write["round_trip_sum_ns"]) == (3 * MS, 6 * MS)
    assert read["max_ns"] == 8 * MS
    assert planted.lost() == {"calls": 3}


def test_the_collector_takes_it_as_it_takes_ours(planted: KernelRecorder, tmp_path: Path) -> None:
    Tracepoints.parts = [
        (SECOND, [call(4, 1, 100, 2)]),
        (2 * SECOND, [call(4, 4, 1100, 4), call(4, 5, 1200, 8)]),
    ]
    workload = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    with run_of(workload, tmp_path) as run:
        run.context.timed.start_ns = 0
        run.context.services.rpc_recorders = {"share": planted}
        collector = RpcCollector(RpcCollectorParameters(calls=True, interval=1))
        collector.start(run.context)
        evidence = collector.stop()
    assert evidence.tables["rpc_calls"]["xid"].to_pylist() == [1, 4, 5]
    assert evidence.summary["clients"]["share"]["counters"]["answered"] == 3
    assert "bytes_out_per_s" not in evidence.tables["rpc_series"].column_names


ADDRESS = "127.0.0.1"


class Server:
    """A TCP server, whose clients sysfs may be made to name as the kernel's."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened
        self._listener = opened.enter_context(socket.create_server((ADDRESS, 0)))
        self.port: int = self._listener.getsockname()[1]

    def client(self) -> socket.socket:
        client = self._opened.enter_context(socket.create_connection((ADDRESS, self.port)))
        self._opened.enter_context(self._listener.accept()[0])
        return client


@pytest.fixture
def server(planted: KernelRecorder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """TCP is told of it, as of any server."""
    monkeypatch.setattr(nfslab._core, "tcp_connections", TCP_CONNECTIONS)
    with ExitStack() as opened:
        made = Server(opened)
        try:
            nfslab._core.tcp_connections(ADDRESS, made.port)
        except nfslab._core.CoreError as error:
            pytest.skip(str(error))
        yield made


def port_of(client: socket.socket) -> int:
    port: int = client.getsockname()[1]
    return port


def told_by_itself(client: socket.socket) -> dict[str, int]:
    """`struct tcp_info` (linux/tcp.h): eight bytes, then 32 bits each."""
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    fields = struct.unpack("=8x24I", info)
    return dict(zip(TCP, (fields[place] for place in (15, 16, 18, 2, 4, 23, 0)), strict=True))


@pytest.mark.system
def test_tcp_is_of_the_sockets_that_sysfs_names(
    planted: KernelRecorder, server: Server, tmp_path: Path
) -> None:
    first, second, other, by_udp = (server.client() for _ in range(4))
    plant(tmp_path, 8, 12, ADDRESS, server.port, src_port=port_of(second))
    plant(tmp_path, 8, 9, ADDRESS, server.port, src_port=port_of(first))
    plant(tmp_path, 8, 10, ADDRESS, server.port, "udp", src_port=port_of(by_udp))
    recorder = KernelRecorder({ADDRESS, "127.0.0.9"}, server.port)
    Tracepoints.parts = [(second * SECOND, []) for second in (1, 2, 3)]
    recorder.start(interval_ns=SECOND)

    def sampled() -> list[dict[str, int]]:
        rows: list[dict[str, int]] = recorder.samples()["tcp"].to_pylist()
        return rows

    assert sampled() == [
        {"at_ns": SECOND, "connection": 0, **told_by_itself(first)},
        {"at_ns": SECOND, "connection": 2, **told_by_itself(second)},
    ]
    first.close()
    assert [row["connection"] for row in sampled()] == [2]
    # It has connected again, from another port; another connection of a lower number is a new one.
    plant(tmp_path, 8, 9, ADDRESS, server.port, src_port=port_of(server.client()))
    plant(tmp_path, 9, 5, ADDRESS, server.port, src_port=port_of(other))
    recorder._connections = connections({ADDRESS}, server.port)
    assert sorted(row["connection"] for row in sampled()) == [0, 2, 3]
    assert recorder.tcp_refused == ""


@pytest.mark.system
def test_tcp_has_the_columns_of_our_own_client(planted: KernelRecorder, server: Server) -> None:
    told = core_table(nfslab._core.tcp_connections(ADDRESS, server.port))
    assert told.column_names == ["local_port", *TCP]
    Tracepoints.parts = [(SECOND, [])]
    planted.start(interval_ns=SECOND)
    kinds = {one.name: one.type for one in planted.samples()["tcp"].schema}
    assert kinds == {"at_ns": pa.uint64(), "connection": pa.uint32()} | dict.fromkeys(
        TCP, pa.uint32()
    )


@pytest.mark.system
@pytest.mark.parametrize("granted", [True, False])
def test_the_collector_has_a_table_of_tcp_or_says_why_not(
    planted: KernelRecorder,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    granted: bool,
) -> None:
    if not granted:
        monkeypatch.setattr(nfslab._core, "tcp_connections", no_tcp)
    client = server.client()
    plant(tmp_path, 8, 1, ADDRESS, server.port, src_port=port_of(client))
    Tracepoints.parts = [(SECOND, []), (2 * SECOND, [])]
    workload = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    with run_of(workload, tmp_path) as run:
        run.context.timed.start_ns = 0
        run.context.services.rpc_recorders = {"share": KernelRecorder({ADDRESS}, server.port)}
        collector = RpcCollector(RpcCollectorParameters(interval=1))
        collector.start(run.context)
        evidence = collector.stop()
    if granted:
        own = {"connection": 0, "target": "share", **told_by_itself(client)}
        rows = [{"t_ns": second * SECOND, **own} for second in (1, 2)]
        assert evidence.tables["rpc_tcp"].to_pylist() == rows
        assert evidence.summary["notes"] == ["share: 3 calls were lost: they came too fast"]
    else:
        assert "rpc_tcp" not in evidence.tables
        assert "share: TCP is not told: no such module" in evidence.summary["notes"]


def test_a_kernel_that_does_not_let_it_be_watched_says_what_to_do(
    planted: KernelRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**_: bool) -> None:
        error = nfslab._core.CoreError("the tracepoints of the kernel cannot be reached")
        error.kind, error.fix = "tracefs", "mount tracefs"
        raise error

    monkeypatch.setattr(nfslab._core, "KernelCalls", refused)
    workload = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    with run_of(workload, tmp_path) as run:
        run.context.services.rpc_recorders = {"share": planted}
        with pytest.raises(RunFailed, match="cannot be watched") as client:
            RpcCollector(RpcCollectorParameters()).start(run.context)
        run.context.services.nfs_servers = {"share": KernelServerRecords({})}
        watching = NfsServerCollector(CollectorParameters())
        with pytest.raises(RunFailed, match="cannot be watched") as server:
            watching.start(run.context)
        watching.stop()  # as the experiment does with all that were started
        assert not (run.context.folder / "nfs-server-records").exists()
    assert client.value.fix == server.value.fix == "mount tracefs"
