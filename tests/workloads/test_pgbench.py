"""Real runs on real PostgreSQL: the system's and both embedded ones, never as root."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from nfslab.databases.base import LATE_SESSIONS
from nfslab.databases.postgres import cluster
from nfslab.errors import RunFailed
from nfslab.machine.processes import all_statuses
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.machine import needs
from tests.workloads.postgres import every_postgres, needs_postgres, newest_postgres
from tests.workloads.run_context import carry_out, kept_up, run_of, unique_name

pytestmark = [needs_postgres, pytest.mark.system]


def workload(**values: Any) -> PgbenchWorkload:
    given = {"data": "disk", "wal": "log", "transactions": 50, "clients": 2, "threads": 2}
    return PgbenchWorkload(PgbenchParameters(**(given | values)))


@pytest.fixture(scope="module")
def up(scratch: Path) -> Iterator[PgbenchWorkload]:
    """A server for runs that need no settings of their own."""
    work = workload()
    with run_of(work, scratch, name=unique_name()) as run:
        work.prepare(run.context)
        with kept_up(work.database, run.context):
            yield work


def emptied(up: PgbenchWorkload, **values: Any) -> PgbenchWorkload:
    """A load on that server, whose tables are as if newly made."""
    with up.database.session() as session:
        for table, column in (("accounts", "abalance"), ("tellers", "tbalance"),
                              ("branches", "bbalance")):  # fmt: skip
            session.rows(f"UPDATE pgbench_{table} SET {column} = 0 WHERE {column} <> 0")
        session.rows("TRUNCATE pgbench_history")
    work = workload(**values)
    work.__dict__["database"] = up.database
    return work


@every_postgres
def test_a_run_with_the_log_apart(postgres: str, scratch: Path) -> None:
    work = workload(postgres=postgres)
    assert work.check().ok
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
        service = run.context.services.postgres
        if os.geteuid() == 0:
            owner = os.stat(f"/proc/{service.pid}").st_uid
            assert owner == work.owner() != 0, "PostgreSQL must not run as root"
        data, wal = (run.context.places[role].path for role in ("data", "wal"))
        assert (data / "pgdata" / "pg_wal").resolve() == wal / "pgwal"
        assert any(len(p.name) == 24 for p in (wal / "pgwal").iterdir()), "no log segment"
        # Nobody but the server's user gets to the socket, and no port is open.
        socket_folder = Path(psycopg.conninfo.conninfo_to_dict(service.conninfo)["host"])
        assert socket_folder.stat().st_mode & 0o077 == 0
        with psycopg.connect(service.conninfo, autocommit=True) as connection:
            row = connection.execute("SHOW listen_addresses").fetchone()
            assert row == ("",)
        with work.server().connect() as connection:
            query = "SELECT relpages, relallvisible FROM pg_class WHERE relname = %s"
            (sizes,) = connection.execute(query, ("pgbench_accounts",)).fetchall()
            # Most was not changed: a scan of an index alone need not look at the table for it.
            assert sizes[0] > 1000
            assert sizes[1] == sizes[0], "as it was loaded"
        children = [s.identity for s in all_statuses() if s.parent == service.pid]
        assert children
        work.finish(run.context)
        assert not {one.identity for one in all_statuses() if one.alive} & set(children)
        log = (run.context.logs / "postgres.log").read_text()
        assert "received fast shutdown request" in log, "one that was verified ends in peace"
        assert "database system is shut down" in log
    metrics = {key: metric.value for key, metric in outcome.metrics.items()}
    assert metrics["transactions"] == 100
    assert metrics["failed"] == 0
    table = outcome.samples["transactions"]
    assert table.num_rows == 100
    assert sorted(set(table["client"].to_pylist())) == [0, 1]
    times = table["t_ns"].to_pylist()
    assert times == sorted(times)
    # t = 0 is the start of the first transaction; all ended within the measured time.
    latency = table["latency_ns"].to_pylist()
    starts = [end - took for end, took in zip(times, latency, strict=True)]
    assert min(starts) == 0
    assert max(times) <= metrics["measured_s"] * 1e9 + 1e6
    assert metrics["tps"] == pytest.approx(100 / metrics["measured_s"], rel=1e-9)
    latencies = sorted(latency)
    assert metrics["latency_p50_ms"] == latencies[49] / 1e6, "rank 50 of 100, exactly"
    assert metrics["latency_p99_ms"] == latencies[98] / 1e6
    assert metrics["latency_max_ms"] == latencies[99] / 1e6
    assert metrics["server_cpu_s_per_transaction"] > 0
    histogram = outcome.samples["latency_histogram"]
    assert sum(histogram["count"].to_pylist()) == 100
    low, high = histogram["low_ns"].to_pylist(), histogram["high_ns"].to_pylist()
    assert low[0] <= latencies[0]
    assert high[-1] >= latencies[-1]
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    facts = run.context.places["data"].facts["postgresql"]
    assert facts["settings"]["fsync"] == "on"
    assert run.context.places["data"].durability.level == "stable"
    leftovers = list(Path("/tmp").glob(f"{run.context.resources.name}*"))
    assert leftovers == []


@newest_postgres
def test_over_tcp_a_password_is_needed(postgres: str, scratch: Path) -> None:
    work = workload(postgres=postgres, socket="tcp", protocol="prepared")
    with run_of(work, scratch, name=unique_name()) as run:
        work.prepare(run.context)
        conninfo = run.context.services.postgres.conninfo
        parts = psycopg.conninfo.conninfo_to_dict(conninfo)
        assert parts["host"] == "127.0.0.1"
        with psycopg.connect(conninfo) as connection:
            row = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = user")
            assert row.fetchone()[0].startswith("SCRAM-SHA-256$")  # type: ignore[index]
        for wrong in ("", "guess"):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(conninfo, password=wrong)
        outcome = work.measure(run.context)
        assert work.verify(run.context, outcome)[0].verdict == "ok"
        shown = " ".join(word for argv in run.context.commands for word in argv)
        assert parts["password"] not in shown, "the password is in no argument list"
        assert parts["password"] not in str(run.context.notes)
        logs = run.context.folder / "logs"
        assert all(parts["password"] not in p.read_text() for p in logs.iterdir())


@newest_postgres
@pytest.mark.long
def test_rate_with_a_limit_skips_and_counts_late_ones(postgres: str, scratch: Path) -> None:
    """Far more is asked for than a server can do: skipped and late ones are in the samples.

    All are planned within 1 s, and each of two clients waits 20 ms for each: so not 10,000."""
    asked: dict[str, Any] = {"rate": 10_000, "latency_limit": "300ms", "max_tries": 2}
    asked["planted_delay"] = {"log_sync": "20ms"}
    work = workload(postgres=postgres, transactions=5_000, **asked)
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
        printed = (run.context.folder / "logs" / "pgbench.out").read_text()
    values = {key: metric.value for key, metric in outcome.metrics.items()}
    table = outcome.samples["transactions"]
    status = table["status"].to_pylist()
    assert table.num_rows == 10_000
    assert values["skipped"] == status.count(2) > 0
    assert values["transactions"] == status.count(0) > 0
    latency = table["latency_ns"].to_pylist()
    late = sum(s == 0 and took > 300_000_000 for took, s in zip(latency, status, strict=True))
    assert values["late"] == late
    assert f"number of transactions above the 300.0 ms latency limit: {late}/" in printed
    assert all((took is None) == (s == 2) for took, s in zip(latency, status, strict=True))
    lags = table["lag_ns"].to_pylist()
    assert all((lag is None) == (s == 2) for lag, s in zip(lags, status, strict=True))
    done = [lag for lag in lags if lag is not None]
    assert values["lag_mean_ms"] == pytest.approx(sum(done) / len(done) / 1e6, abs=0.0006)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert any("planned instant" in note for note in run.context.notes)


@pytest.mark.long
@newest_postgres
def test_mixed_scripts_and_a_warm_up_keep_the_invariant(postgres: str, scratch: Path) -> None:
    work = workload(
        postgres=postgres,
        transactions=40,
        warm_up=1,
        builtin={"tpcb-like": 2, "simple-update": 1, "select-only": 1},
        threads=1,
        load="fresh",
        fillfactor=70,
        partitions=2,
        foreign_keys=True,
        data_checksums=True,
        wal_segment_size="1M",
        settings={"synchronous_commit": False, "shared_buffers": "16MB"},
    )
    called: list[str] = []
    with run_of(work, scratch, name=unique_name(), places={"data": scratch / unique_name()}) as run:
        work.prepare(run.context)
        run.context.timed.at_start(lambda: called.append(run.phases[-1]))
        outcome = work.measure(run.context)
        checks = outcome.checks + work.verify(run.context, outcome)
        with psycopg.connect(run.context.services.postgres.conninfo) as connection:
            shown = [
                connection.execute(f"SHOW {setting}").fetchone()
                for setting in ("data_checksums", "wal_segment_size", "shared_buffers")
            ]
        durability = run.context.places["data"].durability
    assert called == ["warm-up"], "told once, after the warm-up and before the timed part"
    assert shown == [("on",), ("1MB",), ("16MB",)]
    assert {check.verdict for check in checks} == {"ok"}, checks
    invariant = next(check for check in checks if check.name == "tpcb_invariant")
    scripts = outcome.samples["transactions"]["script"].to_pylist()
    assert set(scripts) == {0, 1, 2}
    assert invariant.values["history_rows"] > sum(1 for s in scripts if s in (0, 1)), "warm-up"
    assert durability.level == "volatile"
    assert "synchronous_commit = off" in durability.reasons[0]
    assert any("loaded anew" in note for note in run.context.notes)
    assert LATE_SESSIONS not in run.context.notes


@pytest.mark.long
def test_failed_and_retried_transactions_are_kept_apart(scratch: Path) -> None:
    """Serializable updates of one branch row: most conflict; each is done, or counted as failed."""
    work = workload(
        clients=8,
        transactions=40,
        max_tries=2,
        settings={"default_transaction_isolation": "serializable"},
    )
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
    values = {key: metric.value for key, metric in outcome.metrics.items()}
    rows = outcome.samples["transactions"].to_pylist()
    assert len(rows) == 320
    assert values["failed"] == sum(row["status"] == 1 for row in rows) > 0
    assert values["transactions"] == sum(row["status"] == 0 for row in rows) > 0
    assert values["retries"] == sum(row["retries"] for row in rows) > 0
    assert all((row["latency_ns"] is None) == (row["status"] == 1) for row in rows)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert any("scale 1 is below the 8 clients" in note for note in run.context.notes)


def test_a_connection_for_each_transaction(up: PgbenchWorkload, scratch: Path) -> None:
    work = emptied(up, transactions=10, connect_each=True, builtin="select-only", threads=8)
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
    assert outcome.metrics["transactions"].value == 20
    assert outcome.metrics["connect_mean_ms"].value > 0
    assert "initial_connect_ms" not in outcome.metrics
    assert checks["tpcb_invariant"].verdict == "ok", "select-only leaves everything at zero"
    assert any("2 threads" in note for note in run.context.notes)


def test_own_scripts_are_kept_with_the_run(
    up: PgbenchWorkload, scratch: Path, tmp_path: Path
) -> None:
    # A name that a shell, or pgbench's own weight syntax, would take apart.
    script = tmp_path / "a @ 'b'; $(touch x).sql"
    script.write_text("\\set n random(1, :top)\nSELECT :n;\n")
    work = emptied(up, scripts=[str(script)], variables={"top": 5}, transactions=5)
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
        kept = (run.context.folder / "logs" / "script-0.sql").read_text()
    assert kept == script.read_text()
    assert outcome.metrics["transactions"].value == 10
    invariant = checks["tpcb_invariant"]
    assert (invariant.verdict, invariant.values) == ("unknown", {"applicable": False})
    assert "not applicable" in invariant.message


def test_a_share_of_the_log_is_said_to_be_one(up: PgbenchWorkload, scratch: Path) -> None:
    work = emptied(up, transactions=200, sampling_rate=0.3, latency_limit="1h")
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
    assert 0 < outcome.samples["transactions"].num_rows < 400
    assert outcome.metrics["transactions"].value == 400
    assert "latency_max_ms" not in outcome.metrics
    assert checks["pgbench_log"].verdict == "unknown"
    assert checks["tpcb_invariant"].verdict == "ok"
    assert any("share of 0.3" in note for note in run.context.notes)


@pytest.mark.long
def test_every_run_starts_from_the_same_bytes(scratch: Path) -> None:
    """Two restored clusters are alike, file by file."""

    def digest(folder: Path) -> dict[str, str]:
        return {
            str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(folder.rglob("*"))
            if p.is_file()
        }

    seen = []
    for _ in range(2):
        work = workload()
        with run_of(work, scratch, name=unique_name()) as run:
            deployment = work.database._deployment(run.context)
            source, _ = cluster.template(
                deployment,
                run.context.cache,
                work.database._shape(work.tables()),
                run.context.places,
            )
            place = cluster.cluster_place(run.context.places)
            cluster.restore(deployment, source, place, run.context.places)
            seen.append((digest(place.data), digest(place.wal or place.data)))
    assert seen[0] == seen[1]
    assert "postmaster.pid" not in seen[0][0]
    assert any(path.startswith("base/") for path in seen[0][0])


@pytest.mark.long
@needs.root
def test_a_cache_that_the_servers_user_cannot_reach(scratch: Path) -> None:
    """Results below a private folder (/root): the template is built elsewhere, copied by root."""
    root = scratch / unique_name()
    (root / "cache").mkdir(parents=True)
    (root / "cache").chmod(0o700)
    work = workload(transactions=5, wal=None)
    with run_of(
        work, root, name=unique_name(), places={"data": root / "data"}, cache=root / "cache"
    ) as run:
        outcome, checks = carry_out(work, run)
        pgdata = run.context.places["data"].path / "pgdata"
        assert pgdata.stat().st_uid == work.owner()
    assert outcome.metrics["transactions"].value == 10
    assert checks["tpcb_invariant"].verdict == "ok"


def test_a_restored_file_has_no_holes(scratch: Path) -> None:
    """A hole would be allocated by the first write to it, inside the measurement."""
    work = workload(wal=None)
    with run_of(work, scratch, name=unique_name(), places={"data": scratch / unique_name()}) as run:
        source = run.context.folder / "source"
        (source / "data").mkdir(parents=True)
        (source / "wal").mkdir()
        with (source / "data" / "hollow").open("wb") as stream:
            stream.truncate(1 << 20)
        assert (source / "data" / "hollow").stat().st_blocks == 0
        places = run.context.places
        place = cluster.cluster_place(places)
        if work.owner() is not None:
            for path in (source, source / "data", source / "wal", source / "data" / "hollow"):
                os.chown(path, work.owner() or 0, -1)
        cluster.restore(work.database._deployment(run.context), source, place, places)
        assert (place.data / "hollow").stat().st_blocks * 512 >= 1 << 20


def test_a_planted_delay_is_in_every_commit(scratch: Path) -> None:
    """One client: each transaction that writes syncs the log once, which waits 20 ms."""
    work = workload(clients=1, threads=1, transactions=10, planted_delay={"log_sync": "20ms"})
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, _ = carry_out(work, run)
        work.server().stop(hurry=True)
        with pytest.raises(RunFailed, match="cannot be reached"):
            work.verify(run.context, outcome)
    assert outcome.metrics["latency_mean_ms"].value >= 20
