"""`[server]` of a workload with a server of its own: PostgreSQL on a host beside pgbench's."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from nfslab.cluster.here import AgentHere
from nfslab.cluster.namespaces import NamespacesHere
from nfslab.errors import RunFailed
from nfslab.experiment import own_tables, spread_run
from nfslab.experiment.run_hosts import RunHost, RunHosts, told_by_agent
from nfslab.experiment.spread_run import SpreadExecution
from nfslab.machine.processes import status_of
from nfslab.machine.resources import recover
from nfslab.mounts.fuse import FuseMount
from nfslab.results.query import ResultsDatabase
from nfslab.workloads.command import CommandWorkload
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.experiment.session_support import (
    PATIENCE_S,
    left_behind,
    left_running,
    only_folder,
    processes_of_state,
)
from tests.experiment.spread_support import (
    Meddling,
    check,
    clocks_told,
    made,
    require_measured,
    written,
)

if TYPE_CHECKING:
    from nfslab.results.records import RunRecord

namespaces, postgres, fuse = (
    one.available() for one in (NamespacesHere, PgbenchWorkload, FuseMount)
)
missing = [one.reason for one in (namespaces, postgres) if not one.ok]
with_hosts = pytest.mark.skipif(bool(missing), reason="; ".join(missing) or "usable")
ENDLESS = 'duration = "600s"\n'


@pytest.fixture
def tmp_path(scratch: Path) -> Path:
    """PostgreSQL's user has to get there."""
    return scratch


def apart(
    tmp_path: Path,
    more: str,
    *,
    target: str = 'kind = "local"\npath = "{places}"',
    collectors: str = '"postgres", "system"',
    hosts: int = 2,
    host: str = "namespace",
) -> Path:
    """An experiment file: three clients on two hosts, PostgreSQL on a third one."""
    path = written(tmp_path, host="namespace", hosts=hosts, processes=1)
    head, _, _ = path.read_text().partition("[targets.server]")
    places = target.format(places=tmp_path / "places")
    path.write_text(
        head.replace('collectors = ["nfs_server"]', f"collectors = [{collectors}]")
        + f"""[targets.disk]
{places}
[client]
host = "{host}"
hosts = {hosts}
[server]
host = "namespace"
name = "filer"
[workload]
kind = "pgbench"
data = "disk"
socket = "tcp"
load = "fresh"
clients = 3
threads = 2
{more}"""
    )
    return path


def postmaster(tmp_path: Path) -> int:
    """The first process of the only PostgreSQL below this test's runner."""
    found = {pid for pid in processes_of_state(tmp_path / "state") if _is_postmaster(pid)}
    # A child of it that has just been forked has the same arguments.
    parents = {pid: status.parent for pid in found if (status := status_of(pid)) is not None}
    (pid,) = [pid for pid, parent in parents.items() if parent not in found]
    return pid


def _is_postmaster(pid: int) -> bool:
    try:
        words = arguments_of(pid)
    except OSError:  # it has ended meanwhile
        return False
    return words[0].endswith("/postgres") and "-D" in words


def arguments_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


def failed(path: Path) -> tuple[RunRecord, Path]:
    record, sealed = made(path)
    assert record.status == "failed"
    return record, sealed


@with_hosts
def test_what_all_hosts_committed_is_what_the_server_on_its_own_host_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}
    served = SpreadExecution._served

    def kept(self: SpreadExecution) -> Any:
        seen["told"] = served(self)
        return seen["told"]

    def look(clients: RunHosts) -> None:
        seen["words"] = words = arguments_of(postmaster(tmp_path))
        hba = next(word.partition("=")[2] for word in words if word.startswith("hba_file="))
        seen["hba"] = Path(hba).read_text().splitlines()

    monkeypatch.setattr(SpreadExecution, "_served", kept)
    Meddling(monkeypatch, look)
    path = apart(tmp_path, "transactions = 40\n")
    record, sealed = made(path)
    require_measured(record)
    invariant = check(record, "tpcb_invariant")
    assert (invariant.verdict, invariant.values["history_rows"]) == ("ok", 120), "by the server"
    assert record.metrics["transactions"].value == 120
    rows = pq.read_table(sealed / "samples" / "transactions.parquet").to_pylist()
    assert Counter(row["host"] for row in rows) == {"host1": 80, "host2": 40}
    assert record.metrics["server_cpu_s_per_transaction"].value > 0
    server = record.server_host
    assert server is not None
    assert (server.name, server.kind, server.processes) == ("filer", "namespace", 0)
    clients = [one.address for one in record.client_hosts]
    assert len({server.address, *clients}) == 3
    assert f"listen_addresses={server.address}" in seen["words"]
    assert seen["hba"] == [
        "local all all trust",
        *(f"host all all {one}/32 scram-sha-256" for one in (*clients, server.address)),
    ]
    assert record.places["data"].facts["postgresql"]["settings"]["fsync"] == "on"
    assert any(note.startswith("filer: PostgreSQL ") for note in record.notes)
    assert {one.collector: one.status for one in record.evidence} == {
        "postgres": "ok", "system": "ok",
    }  # fmt: skip
    tables = [table for one in record.evidence for table in one.tables]
    assert len(tables) > 3
    for table in tables:
        assert set(pq.read_table(sealed / table)["host"].to_pylist()) <= {"filer"}, table
    with ResultsDatabase([only_folder(path).path]) as results:
        told = results.ask("SELECT DISTINCT host FROM evidence_postgres_counters")
        assert told.column(0).to_pylist() == ["filer"]
    for one in record.client_hosts:
        part = json.loads((sealed / one.folder / "run.json").read_text())
        assert (part["places"], part["evidence"]) == ({}, [])
    secret = seen["told"][1]["password"].encode()
    assert len(secret) > 20
    holders = [file for file in (tmp_path / "results").rglob("*")
               if file.is_file() and secret in file.read_bytes()]  # fmt: skip
    assert holders == []
    assert left_running(tmp_path / "state") == []
    assert left_behind(tmp_path) == []


@with_hosts
@pytest.mark.skipif(not fuse.ok, reason=fuse.reason or "usable")
def test_its_files_may_be_on_nfs_that_is_served_and_mounted_there(tmp_path: Path) -> None:
    target = 'kind = "nfs"\ndirectory = "{places}"'
    path = apart(
        tmp_path, "transactions = 5\n", target=target, collectors='"nfs_server"', hosts=1,
        host="local",
    )  # fmt: skip
    record, sealed = made(path)
    require_measured(record)
    assert [one.kind for one in record.client_hosts] == ["local"]
    assert check(record, "tpcb_invariant").values["history_rows"] == 15
    assert record.places["data"].facts["nfs"]
    calls = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    assert calls.num_rows > 0
    assert set(calls["host"].to_pylist()) == {"filer"}
    assert left_behind(tmp_path) == []


@with_hosts
def test_evidence_is_on_the_clock_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that the server's clock is 60 ms ahead: its rows are moved by its start alone."""
    clocks_told(monkeypatch, {"filer": 60_000_000}, error_ns=3)
    before: dict[str, list[int]] = {}
    take = own_tables.take_table

    def kept(source: Path, *given: Any) -> None:
        before[source.name] = pq.read_table(source)["t_ns"].to_pylist()
        take(source, *given)

    monkeypatch.setattr(own_tables, "take_table", kept)
    record, sealed = made(apart(tmp_path, "transactions = 40\n", hosts=1))
    require_measured(record)
    assert record.server_host is not None
    assert {host.name for host in record.hosts.values()} == {"filer"}
    assert record.hosts["client"].clock.offset_ns == 60_000_000
    assert "system_cpu.parquet" in before
    for name, times in before.items():
        moved = pq.read_table(sealed / "evidence" / name)["t_ns"].to_pylist()
        assert moved == [time + record.server_host.t0_ns for time in times], name


@with_hosts
def test_a_server_here_leaves_its_evidence_on_our_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks_told(monkeypatch, {"host1": 60_000_000})
    path = apart(tmp_path, "transactions = 40\n", hosts=1)
    path.write_text(path.read_text().replace('[server]\nhost = "namespace"\nname = "filer"\n', ""))
    record, _ = made(path)
    require_measured(record)
    assert {host.clock.offset_ns for host in record.hosts.values()} == {0}


@with_hosts
def test_what_it_has_not_is_found_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The prime says that one more was committed than all hosts say."""
    counted = PgbenchWorkload.counted

    def one_more(self: PgbenchWorkload) -> dict[str, Any]:
        self._committed["tpcb-like"] += 1
        return counted(self)

    monkeypatch.setattr(PgbenchWorkload, "counted", one_more)
    record, _ = failed(apart(tmp_path, "transactions = 5\n"))
    assert record.failure_phase == "verify"
    invariant = check(record, "tpcb_invariant")
    assert (invariant.verdict, invariant.values["history_rows"]) == ("violation", 15)
    assert left_behind(tmp_path) == []


@with_hosts
def test_a_server_that_dies_is_the_reason_with_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread_run, "DEATH_WAIT_S", PATIENCE_S)
    Meddling(monkeypatch, lambda _: os.kill(postmaster(tmp_path), signal.SIGQUIT))
    record, sealed = failed(apart(tmp_path, ENDLESS))
    assert record.failure_phase == "measure"
    assert record.reason.startswith("server host filer: PostgreSQL died in the middle of the run")
    assert "immediate shutdown" in (sealed / "hosts/filer/logs/postgres.log").read_text()
    assert left_running(tmp_path / "state") == []
    assert left_behind(tmp_path) == []


@with_hosts
def test_a_host_that_is_lost_with_its_server_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(clients: RunHosts) -> None:
        assert clients.serving is not None
        assert isinstance(clients.serving.agent, AgentHere)
        os.kill(clients.serving.agent._child.process.pid, signal.SIGKILL)

    meddling = Meddling(monkeypatch, kill)
    record, _ = failed(apart(tmp_path, ENDLESS))
    assert record.failure_phase == "measure"
    assert "server host filer was lost" in record.reason
    assert "killed by SIGKILL" in record.reason
    meddling.assert_none_is_left()
    monkeypatch.undo()
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    recover()
    assert left_running(tmp_path / "state") == []
    assert left_behind(tmp_path) == []


def test_a_host_that_says_nothing_of_its_server_is_named() -> None:
    class Silent:
        name = "filer"

    host = RunHost(Silent(), None, serves=True)  # type: ignore[arg-type]
    for said in ({}, {"serves": {"served": None}}, {"serves": {"served": ["127.0.0.1"]}}):
        host.said = said
        with pytest.raises(RunFailed, match="server host filer did not say"):
            told_by_agent(host, "serves", "served", dict)
    host.said = {"serves": {"served": {"port": 1}}}
    assert told_by_agent(host, "serves", "served", dict) == {"port": 1}


@pytest.mark.parametrize(
    ("scripts", "has_our_files", "is_possible"),
    [([], True, True), ([], False, True), (["own.sql"], True, True), (["own.sql"], False, False)],
)
def test_own_scripts_have_to_be_there(
    scripts: list[str], has_our_files: bool, is_possible: bool
) -> None:
    given = PgbenchParameters(data="d", clients=3, duration=1, socket="tcp", scripts=scripts)
    answer = PgbenchWorkload(given).check_server(has_our_files=has_our_files)
    assert answer.ok == is_possible
    assert is_possible or "own scripts" in answer.reason


def test_others_have_their_server_here() -> None:
    """Whoever has a server of its own says itself that it may be on another host."""
    answer = CommandWorkload.check_server(CommandWorkload, has_our_files=True)  # type: ignore[arg-type]
    assert not answer.ok
    assert "brings up a server of its own" in answer.reason
