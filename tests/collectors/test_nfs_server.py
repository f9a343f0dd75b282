"""The collector `nfs_server`: planted instants come back as exact figures, losses are told."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.evidence.collector import CollectorParameters
from nfslab.evidence.nfs_server import collector as nfs_server
from nfslab.evidence.nfs_server.collector import NfsServerCollector
from nfslab.hosts.base import Link
from nfslab.hosts.local import LocalHost
from nfslab.servers import embedded_process as embedded_server
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.cli.serving import null
from tests.collectors.planted_nfs_server import Recording
from tests.workloads.run_context import Run, run_of

SECOND = 10**9
CALLS = [
    {"at": [10 * SECOND + 5, 10 * SECOND + 8, 10 * SECOND + 20, 10 * SECOND + 21], "xid": 2},
    {"at": [9 * SECOND, 9 * SECOND + 1, 9 * SECOND + 7, 9 * SECOND + 17], "xid": 1},
    {"at": [11 * SECOND, 11 * SECOND, 11 * SECOND + 2, 11 * SECOND + 9], "xid": 3,
     "operation": "WRITE", "procedure": 7},
]  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    workload = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    with run_of(workload, tmp_path) as made:
        made.context.timed.start_ns, made.context.timed.end_ns = 10 * SECOND, 11 * SECOND - 1
        yield made


def collector() -> NfsServerCollector:
    return NfsServerCollector(CollectorParameters())


def test_instants_and_figures_are_exact(run: Run) -> None:
    planted = Recording(CALLS)
    run.context.services.nfs_servers = {"share": planted}
    watching = collector()
    watching.start(run.context)
    ((file, rows_max),) = planted.asked
    assert file.parent.parent == run.context.folder
    assert rows_max == nfs_server.CALL_ROWS_MAX
    evidence = watching.stop()
    rows = evidence.tables["nfs_server_calls"].to_pylist()
    assert [(row["t_ns"], row["xid"], row["target"]) for row in rows] == [
        (-SECOND, 1, "share"), (5, 2, "share"), (SECOND, 3, "share"),
    ]  # fmt: skip
    assert rows[1]["finished_ns"] == 10 * SECOND + 20
    summary = evidence.summary["servers"]["share"]
    assert (summary["rows"], summary["lost"], summary["left_out"]) == (3, 0, 0)
    read, write = summary["operations"]
    assert (read["timed_calls"], write["timed_calls"]) == (1, 0), "of the timed part"
    assert (read["operation"], read["calls"], write["operation"]) == ("READ", 2, "WRITE")
    # Waiting 3 and 1, service 12 and 6, sending 1 and 10.
    means = [read[f"{span}_mean_ns"] for span in nfs_server.SPANS]
    assert means == [2, 9, 5.5]
    assert [read[f"service_{q}_ns"] for q in ("p50", "p90", "p99")] == [6, 12, 12]
    assert evidence.summary["notes"] == []
    assert "incomplete" not in evidence.summary
    assert not file.parent.exists()


def test_losses_are_told(run: Run) -> None:
    run.context.services.nfs_servers = {"share": Recording(CALLS, lost=7, left_out=9)}
    watching = collector()
    watching.start(run.context)
    notes = watching.stop().summary["notes"]
    assert [note.split(":")[1].split()[0] for note in notes] == ["7", "9"]


def test_of_two_servers_the_one_that_dies_takes_nothing_with_it(run: Run) -> None:
    servers = {"data": Recording([], fails="end"), "log": Recording(CALLS)}
    run.context.services.nfs_servers = servers
    watching = collector()
    watching.start(run.context)
    evidence = watching.stop()
    assert set(evidence.tables["nfs_server_calls"]["target"].to_pylist()) == {"log"}
    assert evidence.summary["incomplete"].split()[-1] == "data"
    (note,) = evidence.summary["notes"]
    assert note.startswith("data: its calls are lost")
    assert "signal 9" in note
    assert run.context.notes == [f"collector nfs_server: {note}"], "the run says so"


def test_one_that_does_not_begin_leaves_none_recording(run: Run) -> None:
    servers = {"data": Recording(CALLS), "log": Recording([], fails="record")}
    run.context.services.nfs_servers = servers
    watching = collector()
    with pytest.raises(RunFailed, match="does not record"):
        watching.start(run.context)
    watching.stop()
    assert (servers["data"].ends, servers["log"].ends) == (1, 0)
    assert list(run.context.folder.glob("nfs-*")) == []


def test_without_an_embedded_server_it_is_moot(run: Run) -> None:
    answer = collector().applies(run.context)
    assert (answer.ok, answer.moot) == (False, True)


@pytest.mark.system
def test_a_real_server_is_recorded_and_a_killed_one_told(run: Run, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    servers = {}
    for folder in folders:
        folder.mkdir()
        arguments = ["--memory", "--service-time", "2ms"]
        servers[folder.name] = embedded_server.start(
            arguments, folder, run.context.resources, host=LocalHost(), link=Link()
        )
    run.context.services.nfs_servers = servers
    run.context.timed.start_ns = began_ns = clock.monotonic_ns()
    watching = collector()
    watching.start(run.context)
    for xid in range(20):
        for server in servers.values():
            assert null(server.port, xid) == 0
    os.kill(servers["two"].process.pid, signal.SIGKILL)
    servers["two"].process.wait()
    evidence = watching.stop()
    rows = evidence.tables["nfs_server_calls"].to_pylist()
    assert [(row["target"], row["xid"]) for row in rows] == [("one", xid) for xid in range(20)]
    assert all(row["received_ns"] >= began_ns for row in rows)
    (operation,) = evidence.summary["servers"]["one"]["operations"]
    assert (operation["operation"], operation["calls"]) == ("NULL", 20)
    assert operation["service_p50_ns"] >= 2_000_000
    assert evidence.summary["incomplete"].split()[-1] == "two"
    assert "SIGKILL" in evidence.summary["notes"][0]
    assert list(run.context.folder.glob("nfs-*")) == []
    for server in servers.values():
        server.stop()
