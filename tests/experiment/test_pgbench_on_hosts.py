"""pgbench from several client hosts against the prime's server: exact sums, ways to fail."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from nfslab.context import Share
from nfslab.databases.postgres.database import PostgresDatabase
from nfslab.databases.postgres.server import _write_access
from nfslab.errors import UsageError
from nfslab.experiment import spread_run
from nfslab.experiment.run_hosts import RunHosts
from nfslab.hosts.base import Link
from nfslab.machine.resources import recover
from nfslab.workloads.pgbench.hosts import part_of
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from nfslab.workloads.tpcc.parameters import TpccParameters
from nfslab.workloads.tpcc.postgres.workload import TpccOnPostgres

from tests.experiment.session_support import (
    PATIENCE_S,
    left_behind,
    left_running,
    only_folder,
    processes_of_state,
    records,
    run,
)
from tests.experiment.spread_support import (
    KINDS,
    Meddling,
    check,
    clocks_told,
    lose,
    made,
    require_measured,
    written,
)

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from nfslab.results.records import RunRecord

_usable = PgbenchWorkload.available()
with_postgres = pytest.mark.skipif(not _usable.ok, reason=_usable.reason or "usable")
WORKLOAD = """[workload]
kind = "pgbench"
data = "disk"
socket = "tcp"
load = "fresh"
clients = 3
threads = 2
"""
ENDLESS = 'duration = "600s"\n'


@pytest.fixture
def tmp_path(scratch: Path) -> Path:
    """PostgreSQL's user has to get there."""
    return scratch


def on_hosts(tmp_path: Path, more: str, host: str = "local") -> Path:
    """An experiment file: three clients on two hosts, PostgreSQL here."""
    path = written(tmp_path, host=host, processes=1)
    head, _, rest = path.read_text().partition("[targets.server]")
    head = head.replace('collectors = ["nfs_server"]', 'collectors = ["postgres"]')
    client = rest[rest.index("[client]") : rest.index("[workload]")].replace("processes = 1\n", "")
    places = tmp_path / "places"
    target = f'[targets.disk]\nkind = "local"\npath = "{places}"\n'
    path.write_text(head + target + client + WORKLOAD + more)
    return path


@with_postgres
@pytest.mark.parametrize("host", KINDS)
def test_transactions_of_all_hosts_are_what_the_server_has(host: str, tmp_path: Path) -> None:
    record, sealed = made(on_hosts(tmp_path, "transactions = 40\n", host))
    require_measured(record)
    invariant = check(record, "tpcb_invariant")
    assert (invariant.verdict, invariant.values["history_rows"]) == ("ok", 120), "by the server"
    assert record.metrics["transactions"].value == 120
    assert check(record, "pgbench_log").verdict == "ok"
    table = pq.read_table(sealed / "samples" / "transactions.parquet")
    rows = table.to_pylist()
    times = [row["t_ns"] for row in rows]
    assert times == sorted(times)
    assert Counter((row["host"], row["client"]) for row in rows) == {
        ("host1", 0): 40, ("host1", 1): 40, ("host2", 2): 40,
    }  # fmt: skip
    assert min(row["t_ns"] - row["latency_ns"] for row in rows) == 0, "from the first one's start"
    latencies = sorted(row["latency_ns"] for row in rows)
    assert record.metrics["latency_p50_ms"].value == latencies[59] / 1e6, "rank 60 of 120"
    assert record.metrics["latency_max_ms"].value == latencies[-1] / 1e6
    span_s = record.metrics["measured_s"].value
    assert record.metrics["tps"].value == pytest.approx(120 / span_s, rel=1e-9)
    assert max(times) <= span_s * 1e9 + 1e6
    assert record.metrics["server_cpu_s_per_transaction"].value > 0
    assert [one.operations for one in record.client_hosts] == [80, 40]
    assert [one.planned_share for one in record.client_hosts] == [2 / 3, 1 / 3]
    parts = [json.loads((sealed / one.folder / "run.json").read_text())
             for one in record.client_hosts]  # fmt: skip
    seeds = {re.search(r"--random-seed (\d+)", " ".join(part["commands"][-1]))[1] for part in parts}  # type: ignore[index]
    assert len(seeds) == 2, "or all would change the same rows"
    assert not any(part["places"] for part in parts), "the database is the prime's"
    assert {one.collector: one.status for one in record.evidence} == {"postgres": "ok"}
    assert record.places["data"].facts["postgresql"]["settings"]["fsync"] == "on"
    if host == "namespace":
        addresses = {one.address for one in record.client_hosts}
        assert len(addresses) == 2
        argv = " ".join(parts[0]["commands"][-1])
        assert "127.0.0.1" not in argv
    assert left_running(tmp_path / "state") == []
    assert left_behind(tmp_path) == []


@with_postgres
def test_no_record_has_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, Any]] = []
    taken = PgbenchWorkload.handed_on

    def seen(self: PgbenchWorkload) -> dict[str, Any]:
        told.append(taken(self))
        return told[-1]

    monkeypatch.setattr(PgbenchWorkload, "handed_on", seen)
    script = tmp_path / "own.sql"
    script.write_text("SELECT 1;\n")
    more = f'transactions = 5\nscripts = ["{script}"]\nbuiltin = {{select-only = 3}}\n'
    record, sealed = made(on_hosts(tmp_path, more))
    require_measured(record)
    assert record.metrics["transactions"].value == 15
    assert told[0]["scripts"] == ["SELECT 1;\n"]
    for one in record.client_hosts:
        assert (sealed / one.folder / "logs" / "script-0.sql").read_text() == "SELECT 1;\n"
    names = set(pq.read_table(sealed / "samples" / "statements.parquet")["script_name"].to_pylist())
    assert names == {"select-only", "own.sql"}
    secret = told[0]["password"].encode()
    assert len(secret) > 20
    holders = [file for file in (tmp_path / "results").rglob("*")
               if file.is_file() and secret in file.read_bytes()]  # fmt: skip
    assert holders == []


@with_postgres
def test_transactions_lie_on_the_axis_of_the_prime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that host2's clock is 60 ms ahead, it begins so much later, and says that it did not."""
    ahead_ns = 60_000_000
    clocks_told(monkeypatch, {"host2": ahead_ns})
    record, sealed = made(on_hosts(tmp_path, "transactions = 30\n"))
    require_measured(record)
    begins, firsts = [], []
    for number, one in enumerate(record.client_hosts):
        handed = json.loads((sealed / one.folder / "logs" / "pgbench.json").read_text())
        begins.append(handed["start_ns"] - ahead_ns * number)
        table = pq.read_table(sealed / one.folder / "samples" / "transactions.parquet")
        firsts.append(table["t_ns"][0].as_py())
    rows = pq.read_table(sealed / "samples" / "transactions.parquet").to_pylist()
    for name, begin, first in zip(("host1", "host2"), begins, firsts, strict=True):
        mine = next(row["t_ns"] for row in rows if row["host"] == name)
        assert mine == begin - min(begins) + first


@with_postgres
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.long)]
)
def test_a_lost_host_fails_the_run_with_its_name_and_the_server_is_down(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(clients: RunHosts) -> None:
        lose(clients.hosts[1], number, monkeypatch)

    meddling = Meddling(monkeypatch, once)
    record = failed(on_hosts(tmp_path, ENDLESS))
    assert record.failure_phase == "measure"
    assert "client host host2 was lost" in record.reason
    meddling.assert_none_is_left()
    deadline = time.monotonic() + PATIENCE_S
    while "postgres" in commands_of(processes_of_state(tmp_path / "state")):
        assert time.monotonic() < deadline, "the server goes on"
    monkeypatch.undo()
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))
    recover()
    assert left_behind(tmp_path) == [], "the next start removes what the lost agent had made"


@with_postgres
def test_a_server_that_dies_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    servers: list[int] = []
    brought_up = PostgresDatabase.bring_up

    def bring_up(self: PostgresDatabase, *given: Any) -> None:
        brought_up(self, *given)
        servers.append(self.server().process.pid)

    monkeypatch.setattr(PostgresDatabase, "bring_up", bring_up)
    monkeypatch.setattr(spread_run, "DEATH_WAIT_S", PATIENCE_S)
    Meddling(monkeypatch, lambda _: os.kill(servers[0], signal.SIGQUIT))
    record = failed(on_hosts(tmp_path, ENDLESS))
    assert record.failure_phase == "measure"
    assert record.reason.startswith("PostgreSQL died in the middle of the run")
    assert left_running(tmp_path / "state") == []


def failed(path: Path) -> RunRecord:
    run(path)
    (record,) = records(only_folder(path))
    assert record.status == "failed"
    return record


def commands_of(pids: list[int]) -> str:
    found = []
    for pid in pids:
        with (
            contextlib.suppress(OSError),  # ended meanwhile
            open(f"/proc/{pid}/comm", encoding="utf-8") as file,
        ):
            found.append(file.read())
    return " ".join(found)


def test_clients_and_rate_are_dealt_out() -> None:
    whole = PgbenchParameters(data="d", clients=8, threads=3, duration=5, rate=100.0, socket="tcp")
    parts = [part_of(whole, Share(host, 3, 1)) for host in range(3)]
    assert [part.clients for part in parts] == [3, 3, 2]
    assert [part.rate for part in parts] == [37.5, 37.5, 25.0]
    assert [part.effective_threads for part in parts] == [3, 3, 2]
    assert part_of(whole, Share(0, 1, 1)).rate == 100


@pytest.mark.parametrize(
    ("changes", "hosts", "processes", "says"),
    [
        ({}, 3, 1, ""),
        ({}, 4, 1, "3 clients are too few for 4 client hosts"),
        ({}, 2, 2, "pgbench runs once on each client host"),
        ({"socket": "unix"}, 2, 1, "client hosts reach the server over a network"),
    ],
)
def test_what_cannot_be_is_refused(
    changes: dict[str, Any], hosts: int, processes: int, says: str
) -> None:
    given = {"data": "d", "clients": 3, "duration": 1, "socket": "tcp"} | changes
    answer = PgbenchWorkload(PgbenchParameters(**given)).check_hosts(hosts, processes)
    assert (answer.ok, answer.reason) == (not says, answer.reason)
    assert answer.reason.startswith(says)


def test_an_experiment_with_too_few_clients_does_not_begin(tmp_path: Path) -> None:
    path = on_hosts(tmp_path, 'duration = "1s"\n')
    path.write_text(path.read_text().replace("hosts = 2", "hosts = 4"))
    with pytest.raises(UsageError, match="cannot run here") as refused:
        run(path)
    assert "too few for 4 client hosts" in " ".join(refused.value.lines())
    assert not (tmp_path / "results").exists() or not list((tmp_path / "results").iterdir())


def test_tpcc_is_still_one_hosts() -> None:
    work = TpccOnPostgres(TpccParameters(data="d", duration=1))
    assert not work.check_hosts(2, 1).ok


def test_only_the_hosts_of_the_run_may_connect(tmp_path: Path) -> None:
    link = Link("10.9.0.1", "10.9.0.0/26", ("10.9.0.2", "10.9.0.7"))
    lines = _write_access(tmp_path, None, link).read_text().splitlines()
    assert lines == [
        "local all all trust",
        *(f"host all all {one}/32 scram-sha-256" for one in ("10.9.0.2", "10.9.0.7", "10.9.0.1")),
    ]
