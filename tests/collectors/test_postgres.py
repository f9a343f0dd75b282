"""PostgreSQL's evidence against what is known otherwise: a planted lock, pgbench's counts."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from nfslab._core import syscalls_grants
from nfslab.databases.postgres import clients
from nfslab.databases.postgres.installation import find_installation
from nfslab.errors import Unavailable
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

from tests.workloads.run_context import Run, run_of, scratch_folder

PATIENCE_S = 120


_usable = PgbenchWorkload.available()
pytestmark = pytest.mark.skipif(not _usable.ok, reason=_usable.reason or "usable")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections whose backends get no processor for some seconds are waited for."""
    monkeypatch.setattr(clients, "GONE_LIMIT_S", PATIENCE_S)


def there(postgres: str) -> bool:
    try:
        find_installation(postgres)
    except Unavailable:
        return False
    return True


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


class Watched:
    """A prepared run with the collector to start."""

    def __init__(self, work: PgbenchWorkload, run: Run) -> None:
        self.work, self.run = work, run
        self.service = run.context.services.postgres

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            self.service.conninfo, dbname=self.service.database, application_name="planted"
        )


@pytest.fixture
def watch(root: Path, request: pytest.FixtureRequest) -> Iterator[Watched]:
    options = {"data": "disk", "transactions": 50, "clients": 2, "settings": {"autovacuum": False}}
    work = PgbenchWorkload(PgbenchParameters(**(options | request.param)))
    name = f"watched-{uuid.uuid4().hex[:8]}"
    with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as run:
        work.prepare(run.context)
        yield Watched(work, run)


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
    deadline = time.monotonic() + PATIENCE_S
    # A thread that has ended has said why.
    while watch._thread.is_alive():
        looks = watch._sql.looks if watch._memory is None else len(watch._memory._told)
        if looks >= times:
            return
        assert time.monotonic() < deadline, "nobody looks"
        time.sleep(0.01)


def with_postgres(**options: Any) -> Any:
    """Parametrize the fixture `watch` over all PostgreSQLs, with options of the load."""
    return pytest.mark.parametrize(
        "watch",
        [
            pytest.param(
                {"postgres": p} | options,
                id=p,
                marks=pytest.mark.skipif(not there(p), reason=f"no PostgreSQL {p!r} here"),
            )
            for p in ("system", "embedded-16", "embedded")
        ],
        indirect=True,
    )


@with_postgres()
def test_a_planted_lock_wait_is_seen(watch: Watched) -> None:
    """One session holds a row's lock, another waits for it: Lock:transactionid."""
    update = "UPDATE pgbench_branches SET bbalance = bbalance WHERE bid = 1"
    collector = PostgresCollector(PostgresCollectorParameters(interval=0.02, waits="sql"))
    with watch.connect() as holder, watch.connect() as waiter:
        holder.execute(update)
        waiting = threading.Thread(target=waiter.execute, args=(update,))
        waiting.start()
        with psycopg.connect(watch.service.conninfo, autocommit=True) as other:
            query = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
            deadline = time.monotonic() + PATIENCE_S
            # A backend says that it is idle a moment before it waits for its client.
            for one, event in ((waiter, "transactionid"), (holder, "ClientRead")):
                while other.execute(query, (one.info.backend_pid,)).fetchone() != (event,):
                    assert time.monotonic() < deadline, "it waits for something else"
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


@with_postgres()
def test_the_servers_counts_are_pgbenchs(watch: Watched) -> None:
    """pg_stat_database over the timed part: pgbench's transactions, and what is known else.

    Each session begins with a transaction of its own (InitPostgres), and pgbench asks two
    questions before it starts (number of branches, partitions).
    """
    outcome, evidence = collect(watch, interval=0.05)
    assert evidence.summary["complete"] is True
    database = evidence.summary["deltas"]["pg_stat_database"]
    done = outcome.metrics["transactions"].value
    assert done == 100
    assert database["sessions"] == 3, "pgbench's first connection and its two clients"
    assert database["xact_commit"] == done + database["sessions"] + 2
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
    # The same from the table: last value minus one before t = 0. On a busy machine pgbench's
    # sessions may have begun when the last of these was read.
    counts = evidence.tables["postgres_counters"].to_pylist()
    mine = [row for row in counts if row["name"] == "pg_stat_database.xact_commit"]
    before = {row["value"] for row in mine if row["t_ns"] < 0}
    assert mine[-1]["value"] - database["xact_commit"] in before


@with_postgres(warm_up=1, builtin="simple-update")
def test_the_warm_up_is_not_counted(watch: Watched) -> None:
    outcome, evidence = collect(watch)
    done = outcome.metrics["transactions"].value
    assert evidence.summary["deltas"]["pg_stat_database"]["tup_inserted"] == done == 100
    first = evidence.tables["postgres_waits"].slice(0, 1).to_pylist()[0]
    assert first["t_ns"] - first["over_ns"] < 0, "it watched the warm-up too"


@pytest.mark.parametrize("watch", [{"transactions": None, "duration": 2}], indirect=True)
def test_the_cost_is_said_and_every_look_is_counted_or_said_to_be_missed(watch: Watched) -> None:
    """What it costs a second, benches/collector_cost.py measures."""
    used_s = time.process_time()
    _, evidence = collect(watch, waits="sql")
    used_s = time.process_time() - used_s
    cost = evidence.summary["cost"]
    assert evidence.cpu_s == pytest.approx(cost["collector_cpu_s"] + cost["backend_cpu_s"])
    assert cost["backend_cpu_s"] > 0
    assert 0 < cost["collector_cpu_s"] <= used_s
    assert evidence.wall_s is not None
    assert cost["share_of_one_cpu"] == pytest.approx(evidence.cpu_s / evidence.wall_s)
    # Each tick of its thread's grid is a look or missed; what went by before the first look and
    # behind the last one, when the thread had no processor or had been told to end, has no tick.
    times = evidence.tables["postgres_waits"]["t_ns"].to_pylist()
    looks = evidence.summary["samples"] + evidence.summary["missed_ticks"]
    assert (times[-1] - times[0]) / TICK_NS - 1 < looks <= evidence.wall_s * 1e9 / TICK_NS + 1


TICK_NS = 100_000_000


@pytest.mark.parametrize("watch", [{}], indirect=True)
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
        deadline = time.monotonic() + PATIENCE_S
        while one.execute(others, (both,)).fetchone() != (0,):  # the run's own, which has ended
            assert time.monotonic() < deadline, "somebody else is there"
            one.rollback()
        one.rollback()
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


@pytest.mark.skipif(not syscalls_grants()["ok"], reason=f"eBPF: {syscalls_grants()['why']}")
@with_postgres()
def test_every_pause_is_timed_by_what_it_waited_for(watch: Watched) -> None:
    """Bounds by this side's clock, whatever else runs: a wait lasts at most as long as the call, at
    least as long as was asked for, without its time on a processor and waiting for one."""
    update = "UPDATE pgbench_branches SET bbalance = bbalance WHERE bid = 1"
    collector = PostgresCollector(PostgresCollectorParameters(exact=True))
    collector.start(watch.run.context)
    before_ns = time.monotonic_ns()
    with watch.connect() as holder, watch.connect() as waiter:
        connected_ns, pid = time.monotonic_ns(), waiter.info.backend_pid
        for _ in range(5):
            waiter.execute("SELECT pg_sleep(0.1)")
        slept_ns = time.monotonic_ns() - connected_ns
        holder.execute(update)
        waiting = threading.Thread(target=waiter.execute, args=(update,))
        from_ns = time.monotonic_ns()
        waiting.start()
        with psycopg.connect(watch.service.conninfo, autocommit=True) as other:
            query = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
            deadline = time.monotonic() + PATIENCE_S
            while other.execute(query, (pid,)).fetchone() != ("transactionid",):
                assert time.monotonic() < deadline, "it waits for something else"
        waits_ns = time.monotonic_ns()
        holder.execute("SELECT pg_sleep(0.4)")
        released_ns = time.monotonic_ns()
        holder.rollback()
        waiting.join()
        until_ns = time.monotonic_ns()
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
    assert 5e8 - busy_ns <= of["blocked", "Timeout"] <= slept_ns
    assert released_ns - waits_ns - busy_ns <= of["blocked", "Lock"] <= until_ns - from_ns
    whole_ns = sum(of.values())
    assert until_ns - connected_ns - busy_ns <= whole_ns <= time.monotonic_ns() - before_ns


@with_postgres()
def test_what_is_seen_in_memory_is_what_was_planted(watch: Watched) -> None:
    """pg_sleep and a row's lock: at least as long as was asked for, at most as long as the calls
    took by this side's clock."""
    update = "UPDATE pgbench_branches SET bbalance = bbalance WHERE bid = 1"
    collector = PostgresCollector(PostgresCollectorParameters(interval=0.05, waits="memory"))
    collector.start(watch.run.context)
    watcher = collector._watch
    assert watcher is not None
    assert watcher._memory is not None, watcher._not_memory
    with watch.connect() as holder, watch.connect() as waiter:
        pids = {holder.info.backend_pid, waiter.info.backend_pid}
        deadline = time.monotonic() + PATIENCE_S
        while not pids <= set(watcher._memory._sampler.live().values()):
            assert time.monotonic() < deadline, "they are not looked at"
            time.sleep(0.01)
        from_ns = time.monotonic_ns()
        waiter.execute("SELECT pg_sleep(1)")
        slept_ns = time.monotonic_ns() - from_ns
        holder.execute(update)
        waiting = threading.Thread(target=waiter.execute, args=(update,))
        waits_ns = time.monotonic_ns()
        waiting.start()
        holder.execute("SELECT pg_sleep(1.5)")
        holder.rollback()
        waiting.join()
        waited_ns = time.monotonic_ns() - waits_ns
        waiter.rollback()
        # So long that all was confirmed while they lived.
        from_ns = time.monotonic_ns()
        waiter.execute("SELECT pg_sleep(0.5)")
        last_ns = time.monotonic_ns() - from_ns
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
    assert 1.5e9 - (waited_ns - 1.5e9) - doubt_ns <= locked_ns <= waited_ns + doubt_ns
    slept = sum(n for key, n in of.items() if key[:2] == ("client backend", "Timeout"))
    assert 3e9 - doubt_ns <= slept <= slept_ns + waited_ns + last_ns + doubt_ns
    assert of["checkpointer", "Activity", ""] > 0


@with_postgres(transactions=2000)
def test_names_in_memory_are_those_that_the_server_shows(watch: Watched) -> None:
    """Nothing is named in memory that pg_stat_activity has no such name for, of IO and of locks."""
    _, evidence = collect(watch)
    assert evidence.summary["memory"]["looks"] == evidence.summary["samples"] > 0
    rows = evidence.tables["postgres_waits"].to_pylist()
    clients = {
        row["wait_event"]
        for row in rows
        if row["backend_type"] == "client backend" and row["wait_event_type"] == "Client"
    }
    assert clients == {"ClientRead"}
    assert {row["state"] for row in rows} == {"", "active"}
    cost = evidence.summary["cost"]
    assert evidence.cpu_s == pytest.approx(cost["collector_cpu_s"] + cost["backend_cpu_s"])


@pytest.mark.parametrize("watch", [{}], indirect=True)
def test_where_memory_may_not_be_read_sql_is_asked_and_the_summary_says_why(
    watch: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SYMBOL", "no_such_name")
    _, evidence = collect(watch)
    assert "exports no such name" in evidence.summary["not_memory"]
    assert "memory" not in evidence.summary
    assert evidence.tables["postgres_waits"].num_rows > 0
    assert evidence.summary["complete"] is True


@with_postgres()
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


@pytest.mark.skipif(not syscalls_grants()["ok"], reason=f"eBPF: {syscalls_grants()['why']}")
@with_postgres(transactions=2000)
def test_names_by_number_are_those_that_the_server_shows(watch: Watched) -> None:
    """pg_stat_activity names events itself; a sync that it showed five times has had a pause."""
    _, evidence = collect(watch, interval=0.01, waits="sql", exact=True)
    shown: Counter[str] = Counter()
    for row in evidence.tables["postgres_waits"].to_pylist():
        if (row["backend_type"], row["wait_event_type"]) == ("client backend", "IO"):
            shown[row["wait_event"]] += row["backends"]
    timed = {r["wait_event"] for r in evidence.tables["postgres_times"].to_pylist()}
    told = {name for name, number in shown.items() if number >= 5 and name in NAMED}
    assert told <= timed


NAMED = ("WALSync", "WalSync")
"""What always blocks: reads and writes may be answered from the page cache."""


@pytest.mark.parametrize("watch", [{}], indirect=True)
def test_a_reset_of_the_counters_is_flagged(watch: Watched) -> None:
    collector = PostgresCollector(PostgresCollectorParameters())
    watch.work.measure(watch.run.context)
    collector.start(watch.run.context)
    with watch.connect() as connection:
        connection.execute("SELECT pg_stat_reset()")
    resets = collector.stop().summary["resets"]
    assert "pg_stat_database.*" in resets
    assert "pg_stat_database.xact_commit" in resets


@pytest.mark.parametrize("watch", [{}], indirect=True)
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
