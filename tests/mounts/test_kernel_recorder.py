"""The kernel's client for the collector `rpc`: planted tracepoints and sysfs, exact totals."""

from __future__ import annotations

from pathlib import Path

import nfslab._core
import pyarrow as pa
import pytest
from nfslab.errors import RunFailed
from nfslab.evidence.collector import CollectorParameters
from nfslab.evidence.nfs_server.collector import NfsServerCollector
from nfslab.evidence.rpc.collector import RpcCollector, RpcCollectorParameters
from nfslab.mounts import kernel_recorder
from nfslab.mounts.kernel_recorder import KernelRecorder, connections
from nfslab.servers.knfsd_records import KernelServerRecords
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.workloads.run_context import run_of

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
    }  # fmt: skip
    return row | more


TYPES = {"client": pa.uint32(), "operation": pa.string(), "outcome": pa.string()} | dict.fromkeys(
    ("xid", "program", "version", "procedure", "sends"), pa.uint32()
)


def rows(calls: list[dict[str, object]]) -> pa.Table:
    names = call(0, 0, 0, None)
    return pa.Table.from_pylist(
        calls, schema=pa.schema({name: TYPES.get(name, pa.uint64()) for name in names})
    )


class Tracepoints:
    """In place of the core's: what is planted, a part at each question."""

    parts: list[tuple[int, list[dict[str, object]]]]

    def __init__(self, *, client: bool = False, server: bool = False) -> None:
        assert (client, server) == (True, False)

    def take(self) -> tuple[int, pa.Table, pa.Table]:
        until_ns, calls = self.parts.pop(0) if self.parts else (0, [])
        return until_ns, rows(calls), pa.table({})

    stop = take

    def lost(self) -> int:
        return 3


def plant(folder: Path, client: int, number: int, address: str, port: int, **state: int) -> None:
    connection = folder / f"clnt-{client}" / "switch" / f"xprt-{number}-tcp"
    connection.mkdir(parents=True)
    (connection / "dstaddr").write_text(f"{address}\n")
    lines = [f"{name}={value}\n" for name, value in ({"cong_win": 256} | state).items()]
    (connection / "xprt_info").write_text("".join(lines) + f"dst_port={port}\n")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelRecorder:
    monkeypatch.setattr(kernel_recorder, "CLIENTS", tmp_path)
    monkeypatch.setattr(nfslab._core, "KernelCalls", Tracepoints)
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
        (2 * SECOND, [call(4, 4, 1100, None), call(4, 5, 1200, 8, operation="READ")]),
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
    assert calls["file_id"].null_count == 4
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


def test_a_kernel_that_does_not_let_it_be_watched_says_what_to_do(
    planted: KernelRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*, client: bool = False, server: bool = False) -> None:
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
        with pytest.raises(RunFailed, match="cannot be watched") as server:
            NfsServerCollector(CollectorParameters()).start(run.context)
        assert not (run.context.folder / "nfs-server-records").exists()
    assert client.value.fix == server.value.fix == "mount tracefs"
