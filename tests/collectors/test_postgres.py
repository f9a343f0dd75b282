"""PostgreSQL's evidence against what is known otherwise: a planted lock, pgbench's counts."""

from __future__ import annotations

import re
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from nfslab import clock
from nfslab.databases.postgres.installation import find_installation
from nfslab.evidence.collector import Evidence
from nfslab.evidence.postgres import memory_waits as memory
from nfslab.evidence.postgres import sql_waits as module
from nfslab.evidence.postgres.collector import (
    PostgresCollector,
    PostgresCollectorParameters,
    _differences,
    _nested,
)
from nfslab.evidence.postgres.wait_numbers import io_events
from nfslab.workloads.base import Outcome
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.machine import needs
from tests.waiting import until
from tests.workloads.postgres import every_postgres, newest_postgres
from tests.workloads.run_context import Run, kept_up, run_of, scratch_folder

UPDATE = "UPDATE pgbench_branches SET bbalance = bbalance WHERE bid = 1"


class Watched:
    """A prepared run with the collector to start."""

    def __init__(self, work: PgbenchWorkload, run: Run) -> None:
        self.work, self.run = work, run
        self.service = run.context.services.postgres

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self.service.conninfo, dbname=self.service.database, application_name="planted"
        )


@contextmanager
def prepared(work: PgbenchWorkload, root: Path) -> Iterator[Run]:
    name = f"watched-{uuid.uuid4().hex[:8]}"
    with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as run:
        work.prepare(run.context)
        yield run


def workload(postgres: str, **options: Any) -> PgbenchWorkload:
    given = {"data": "disk", "transactions": 50, "clients": 2, "settings": {"autovacuum": False}}
    return PgbenchWorkload(PgbenchParameters(**(given | options), postgres=postgres))


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def up(root: Path, postgres: str) -> Iterator[PgbenchWorkload]:
    """One server of each PostgreSQL for all of this module."""
    work = workload(postgres)
    with prepared(work, root) as run, kept_up(work.database, run.context):
        yield work


@pytest.fixture
def watch(root: Path, up: PgbenchWorkload, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """A run on it; parametrized with options of the load."""
    work = workload(up.driver.postgres, **getattr(request, "param", {}))
    work.__dict__["database"] = up.database
    with prepared(work, root) as run:
        watched = Watched(work, run)
        _is_left(watched)
        yield watched


def with_options(**options: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("watch", [pytest.param(options, id="")], indirect=True)


def collect(watched: Watched, **parameters: Any) -> tuple[Outcome, Evidence]:
    collector = PostgresCollector(PostgresCollectorParameters(**parameters))
    collector.start(watched.run.context)
    _has_looked(collector)
    outcome = watched.work.measure(watched.run.context)
    return outcome, collector.stop()


def _has_looked(collector: PostgresCollector, times: int = 1) -> None:
    """A short load may be over before its thread has a processor."""
    watch = collector._watch
    assert watch is not None

    def looked() -> bool:
        looks = watch._sql.looks if watch._memory is None else len(watch._memory._told)
        # A thread that has ended has said why.
        return looks >= times or not watch._thread.is_alive()

    until(looked)


def _is_left(watch: Watched) -> None:
    """Those who were there before have told what they did, and are gone."""
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
    with psycopg.connect(watch.service.conninfo, autocommit=True) as connection:
        until(lambda: connection.execute(others, (watch.service.database,)).fetchone() == (0,))


def _waits_for(watch: Watched, *backends: tuple[psycopg.Connection[Any], str]) -> None:
    """A backend says that it is idle a moment before it waits for its client."""
    query = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
    with psycopg.connect(watch.service.conninfo, autocommit=True) as other:
        for one, event in backends:
            pid = one.info.backend_pid
            until(lambda: other.execute(query, (pid,)).fetchone() == (event,))  # noqa: B023


@newest_postgres
def test_a_planted_lock_wait_is_seen(watch: Watched) -> None:
    """One session holds a row's lock, another waits for it: Lock:transactionid."""
    collector = PostgresCollector(PostgresCollectorParameters(interval=0.02, waits="sql"))
    with watch.connect() as holder, watch.connect() as waiter:
        holder.execute(UPDATE)
        waiting = threading.Thread(target=waiter.execute, args=(UPDATE,))
        waiting.start()
        _waits_for(watch, (waiter, "transactionid"), (holder, "ClientRead"))
        collector.start(watch.run.context)
        _has_looked(collector, 5)
        holder.rollback()
        waiting.join()
        waiter.rollback()
    table = collector.stop().tables["postgres_waits"].to_pylist()
    first = min(row["t_ns"] for row in table)
    seen = [
        row
        for row in table
        if (row["wait_event_type"], row["wait_event"]) == ("Lock", "transactionid")
    ]
    assert seen[0]["t_ns"] == first, "already in the first sample"
    assert all(
        (row["backend_type"], row["state"], row["backends"]) == ("client backend", "active", 1)
        for row in seen
    )
    holding = [r for r in table if r["t_ns"] == first and r["state"] == "idle in transaction"]
    assert [(r["wait_event"], r["backends"]) for r in holding] == [("ClientRead", 1)]
    # The collector does not see itself: one active client backend in the first sample.
    active = [r for r in table if r["t_ns"] == first and r["state"] == "active"]
    assert sum(r["backends"] for r in active if r["backend_type"] == "client backend") == 1


@every_postgres
@with_options(warm_up=1)
def test_the_servers_counts_are_pgbenchs(watch: Watched) -> None:
    """pg_stat_database over the timed part: pgbench's transactions, and what is known else.

    Each session begins with a transaction of its own (InitPostgres), and pgbench asks two
    questions before it starts (number of branches, partitions). The warm-up is not counted.
    """
    outcome, evidence = collect(watch, interval=0.05)
    assert evidence.summary["complete"] is True
    database = evidence.summary["deltas"]["pg_stat_database"]
    done = outcome.metrics["transactions"].value
    assert done == 100
    assert database["sessions"] == 3, "pgbench's first connection and its two clients"
    # The look for sessions of the warm-up is a transaction, too, and may be told of late.
    assert database["xact_commit"] - (done + database["sessions"] + 2) in (0, 1)
    assert database["tup_inserted"] == done, "one row of history a transaction"
    assert database["tup_updated"] == 3 * done
    assert database["xact_rollback"] == 0
    wal = evidence.summary["deltas"]["pg_stat_wal"]
    assert wal["wal_bytes"] > 100 * done
    if watch.service.major >= 16:
        rows = evidence.summary["deltas"]["pg_stat_io"]
        assert rows["client backend/relation/normal"]["hits"] > 0
    if watch.service.major >= 17:
        assert evidence.summary["deltas"]["pg_stat_checkpointer"]["num_requested"] == 0
    # The same from the table: last value minus one before t = 0.
    counts = evidence.tables["postgres_counters"].to_pylist()
    mine = [row for row in counts if row["name"] == "pg_stat_database.xact_commit"]
    before = {row["value"] for row in mine if row["t_ns"] < 0}
    assert mine[-1]["value"] - database["xact_commit"] in before
    # Nothing is named in memory that pg_stat_activity has no such name for, of clients.
    looks = evidence.tables["postgres_waits"].to_pylist()
    assert looks[0]["t_ns"] - looks[0]["over_ns"] < 0, "it watched the warm-up too"
    assert evidence.summary["memory"]["looks"] == evidence.summary["samples"] > 0
    of_clients = [row for row in looks if row["backend_type"] == "client backend"]
    assert {row["wait_event"] for row in of_clients if row["wait_event_type"] == "Client"} <= {
        "ClientRead"
    }
    assert {row["state"] for row in looks} <= {"", "active"}
    cost = evidence.summary["cost"]
    assert evidence.cpu_s == pytest.approx(cost["collector_cpu_s"] + cost["backend_cpu_s"])
    assert cost["collector_cpu_s"] > 0
    assert evidence.wall_s is not None
    assert cost["share_of_one_cpu"] == pytest.approx(evidence.cpu_s / evidence.wall_s)


@newest_postgres
def test_two_clients_are_somewhere_at_every_look(watch: Watched) -> None:
    collector = PostgresCollector(PostgresCollectorParameters(interval=0.02, waits="sql"))
    over = threading.Event()

    def work(connection: psycopg.Connection[Any]) -> None:
        while not over.is_set():
            connection.execute("SELECT count(*) FROM pgbench_branches")
            connection.commit()

    with watch.connect() as one, watch.connect() as other:
        others = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' "
            "AND NOT pid = ANY(%s)"
        )
        both = [one.info.backend_pid, other.info.backend_pid]

        def alone() -> bool:  # the run's own have ended
            found = one.execute(others, (both,)).fetchone()
            one.rollback()
            return found == (0,)

        until(alone)
        threads = [threading.Thread(target=work, args=(each,)) for each in (one, other)]
        for thread in threads:
            thread.start()
        try:
            collector.start(watch.run.context)
            _has_looked(collector, 20)
            evidence = collector.stop()
        finally:
            over.set()
            for thread in threads:
                thread.join()
    seen: Counter[int] = Counter()
    for row in evidence.tables["postgres_waits"].to_pylist():
        seen[row["t_ns"]] += row["backends"] * (row["backend_type"] == "client backend")
    assert len(seen) == evidence.summary["samples"] >= 20
    assert set(seen.values()) == {2}


@needs.ebpf
@newest_postgres
def test_every_pause_is_timed_by_what_it_waited_for(watch: Watched) -> None:
    """Bounds by this side's clock, whatever else runs: a wait lasts at most as long as the call, at
    least as long as was asked for, without its time on a processor and waiting for one."""
    collector = PostgresCollector(PostgresCollectorParameters(exact=True))
    collector.start(watch.run.context)
    before_ns = clock.monotonic_ns()
    with watch.connect() as holder, watch.connect() as waiter:
        connected_ns, pid = clock.monotonic_ns(), waiter.info.backend_pid
        for _ in range(5):
            waiter.execute("SELECT pg_sleep(0.04)")
        slept_ns = clock.monotonic_ns() - connected_ns
        holder.execute(UPDATE)
        waiting = threading.Thread(target=waiter.execute, args=(UPDATE,))
        from_ns = clock.monotonic_ns()
        waiting.start()
        _waits_for(watch, (waiter, "transactionid"))
        waits_ns = clock.monotonic_ns()
        holder.execute("SELECT pg_sleep(0.2)")
        released_ns = clock.monotonic_ns()
        holder.rollback()
        waiting.join()
        until_ns = clock.monotonic_ns()
        waiter.rollback()
    evidence = collector.stop()
    assert "not_exact" not in evidence.summary
    assert evidence.summary["exact"]["uncounted"] == 0
    rows = [r for r in evidence.tables["postgres_times"].to_pylist() if r["pid"] == pid]
    assert {r["backend_type"] for r in rows} == {"client backend"}
    of = {(r["kind"], r["wait_event_type"]): 0 for r in rows}
    for row in rows:
        of[row["kind"], row["wait_event_type"]] += row["ns"]
    busy_ns = of["running", ""] + of.get(("queued", ""), 0)
    assert 2e8 - busy_ns <= of["blocked", "Timeout"] <= slept_ns
    assert of["blocked", "Lock"] <= until_ns - from_ns
    assert of["blocked", "Lock"] - (released_ns - waits_ns) >= -busy_ns
    whole_ns = sum(of.values())
    assert whole_ns - (until_ns - connected_ns) >= -busy_ns
    assert whole_ns <= clock.monotonic_ns() - before_ns


@pytest.mark.long
@every_postgres
def test_what_is_seen_in_memory_is_what_was_planted(watch: Watched) -> None:
    """pg_sleep and a row's lock: at least as long as was asked for, at most as long as the calls
    took by this side's clock."""
    collector = PostgresCollector(PostgresCollectorParameters(interval=0.05, waits="memory"))
    collector.start(watch.run.context)
    watcher = collector._watch
    assert watcher is not None
    assert watcher._memory is not None, watcher._not_memory
    with watch.connect() as holder, watch.connect() as waiter:
        pids = {holder.info.backend_pid, waiter.info.backend_pid}
        until(lambda: pids <= set(watcher._memory._sampler.live().values()))
        from_ns = clock.monotonic_ns()
        waiter.execute("SELECT pg_sleep(0.3)")
        slept_ns = clock.monotonic_ns() - from_ns
        holder.execute(UPDATE)
        waiting = threading.Thread(target=waiter.execute, args=(UPDATE,))
        waits_ns = clock.monotonic_ns()
        waiting.start()
        holder.execute("SELECT pg_sleep(0.5)")
        holder.rollback()
        waiting.join()
        waited_ns = clock.monotonic_ns() - waits_ns
        waiter.rollback()
        # So long that all was confirmed while they lived.
        from_ns = clock.monotonic_ns()
        waiter.execute("SELECT pg_sleep(0.2)")
        last_ns = clock.monotonic_ns() - from_ns
    evidence = collector.stop()
    rows = evidence.tables["postgres_waits"].to_pylist()
    figures = evidence.summary["memory"]
    of: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        spent_ns = row["backends"] * row["over_ns"]
        of[row["backend_type"], row["wait_event_type"], row["wait_event"]] += round(spent_ns)
    # An end of a wait is seen within an interval, two ends each; looks that were late or left out.
    doubt_ns = 8 * figures["interval_ns"] + 0.1e9
    doubt_ns += (figures["missed"] + figures["late"] + figures["dropped"]) * figures["interval_ns"]
    locked_ns = of["client backend", "Lock", "transactionid"]
    # How long it took to begin to wait, and to be told, this side's clock has, too.
    assert locked_ns + (waited_ns - 0.5e9) >= 0.5e9 - doubt_ns
    assert locked_ns <= waited_ns + doubt_ns
    slept = sum(n for key, n in of.items() if key[:2] == ("client backend", "Timeout"))
    assert 1e9 - doubt_ns <= slept <= slept_ns + waited_ns + last_ns + doubt_ns
    assert of["checkpointer", "Activity", ""] > 0


@newest_postgres
def test_where_memory_may_not_be_read_sql_is_asked_and_the_summary_says_why(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SYMBOL", "no_such_name")
    _, evidence = collect(watch)
    assert "exports no such name" in evidence.summary["not_memory"]
    assert "memory" not in evidence.summary
    assert evidence.tables["postgres_waits"].num_rows > 0
    assert evidence.summary["complete"] is True


@every_postgres
def test_numbers_of_io_events_are_those_of_the_headers(watch: Watched) -> None:
    """wait_event.h or wait_event_types.h of the same installation, where it has its headers."""
    programs = find_installation(watch.work.parameters.postgres).bindir
    folder = programs.parent / "include" / "postgresql" / "server" / "utils"
    found = [folder / name for name in ("wait_event_types.h", "wait_event.h")]
    header = next((path for path in found if path.is_file()), None)
    if header is None:
        pytest.skip(f"no headers of PostgreSQL in {folder}")
    text = header.read_text("utf-8")
    (names,) = re.findall(r"(\w+) = PG_WAIT_IO,([^}]*)", text)
    events = [names[0], *(name.strip() for name in names[1].split(",") if name.strip())]
    with psycopg.connect(watch.service.conninfo) as connection:
        known = io_events(connection, watch.service.major)
    for number, name in known.items():
        there = events[number].removeprefix("WAIT_EVENT_").replace("_", "")
        assert there == name.upper(), number
    names = {name.upper() for name in known.values()}  # WalSync since 17
    assert {"WALSYNC", "WALWRITE", "DATAFILEREAD", "DATAFILEEXTEND"} <= names


@newest_postgres
def test_a_reset_of_the_counters_is_flagged(watch: Watched) -> None:
    collector = PostgresCollector(PostgresCollectorParameters())
    watch.work.measure(watch.run.context)
    collector.start(watch.run.context)
    with watch.connect() as connection:
        connection.execute("SELECT pg_stat_reset()")
    resets = collector.stop().summary["resets"]
    assert "pg_stat_database.*" in resets
    assert "pg_stat_database.xact_commit" in resets


@newest_postgres
def test_too_many_rows_end_the_sampling_and_say_so(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One look has more: there may be no other in so short a run.
    monkeypatch.setattr(module, "ROWS_MAX", 1)
    _, evidence = collect(watch, interval=0.01, waits="sql")
    assert evidence.tables["postgres_waits"].num_rows <= 1
    assert evidence.summary["complete"] is False
    assert "more than 1 rows" in evidence.summary["incomplete"]


def test_differences_by_hand() -> None:
    first = {"pg_stat_wal.wal_bytes": 10.0, "pg_stat_io.client backend/relation/normal.reads": 1.0}
    last = first | {
        "pg_stat_wal.wal_bytes": 25.0,
        "pg_stat_io.walwriter/wal/normal.writes": 4.0,
    }
    assert _nested(_differences(first, last)) == {
        "pg_stat_wal": {"wal_bytes": 15.0},
        "pg_stat_io": {"walwriter/wal/normal": {"writes": 4.0}},
    }
