"""Every sync timed: what PostgreSQL itself counts, and what is planted in the server's model."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from nfslab import clock
from nfslab.databases.postgres import clients
from nfslab.databases.postgres.installation import find_installation
from nfslab.errors import Unavailable
from nfslab.evidence.collector import Evidence
from nfslab.evidence.syscalls import ways as syscall_ways
from nfslab.evidence.syscalls.collector import NOT_COUNTED, FsyncCollector, FsyncParameters
from nfslab.evidence.syscalls.tables import Syscalls, SyscallTables, sum_up, tables_from
from nfslab.evidence.syscalls.ways import BLIND, Way, ebpf_grants, shim_missing
from nfslab.workloads.command import CommandParameters, CommandWorkload
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.collectors.watched_nfs import plain
from tests.disk import DISK
from tests.machine import needs
from tests.waiting import until
from tests.workloads.run_context import run_of, scratch_folder

MS = 1_000_000


@contextlib.contextmanager
def on_disk() -> Iterator[Path]:
    """A folder that every user can enter, where a sync takes its time."""
    with tempfile.TemporaryDirectory(prefix="nfslab-test-", dir=DISK) as name:
        root = Path(name)
        root.chmod(0o755)
        yield root


def found_of(evidence: Evidence) -> tuple[SyscallTables, Syscalls]:
    tables = plain(evidence)
    return tables_from(dict(tables)), sum_up(tables_from(dict(tables)))


def counting_postgres() -> str:
    """One whose pg_stat_wal counts its syncs (14 to 17; 18 has them in pg_stat_io), or a skip."""
    for name in ("auto", "embedded-16"):
        try:
            if 14 <= find_installation(name).major <= 17:
                return name
        except Unavailable:
            continue
    pytest.skip("no PostgreSQL 14 to 17, whose pg_stat_wal has its syncs")


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("ebpf", marks=[needs.ebpf, pytest.mark.long]),
        pytest.param("shim", marks=pytest.mark.system),
    ],
)
def test_the_number_is_that_of_pg_stat_wal_and_the_time_within_its(way: Way) -> None:
    if way == "shim" and (missing := shim_missing()):
        pytest.skip(missing)
    work = PgbenchWorkload(
        PgbenchParameters(
            data="disk",
            transactions=200,
            clients=2,
            # The log's writer syncs now and then, and tells of it later: as seldom as can be.
            settings={"track_wal_io_timing": "on", "wal_writer_delay": "10s"},
            postgres=counting_postgres(),
        )
    )
    if not work.check().ok:
        pytest.skip(work.check().reason)
    with on_disk() as root, run_of(work, root, name="counted") as run:
        collector = FsyncCollector(FsyncParameters(way=way))
        collector.ready(run.context)
        work.prepare(run.context)
        service = run.context.services.postgres
        assert collector.applies(run.context).ok
        collector.start(run.context)
        with psycopg.connect(service.conninfo, autocommit=True) as connection:
            marks: list[Any] = []

            def mark() -> None:
                marks.append((_wal(connection), clock.monotonic_ns()))

            run.context.timed.at_start(mark)
            work.measure(run.context)
            _settled(connection, service.client_name)
            ended, end_ns = _wal(connection), clock.monotonic_ns()
            of_server = _of_server(connection)
        evidence = collector.stop()
    (began, begin_ns) = marks[0]
    tables, _ = found_of(evidence)
    syncs = tables.syncs
    starts = syncs["start_ns"].to_numpy().astype(np.int64)
    clients = ~np.isin(syncs["pid"].to_numpy(), of_server)
    log = {
        row["file_id"]
        for row in tables.files.to_pylist()
        if row["class"] == "PostgreSQL WAL"
    }  # fmt: skip
    of_log = np.isin(syncs["file_id"].to_numpy(), list(log))
    of_log &= np.array(syncs["call"].to_pylist()) == "fdatasync"
    wanted = of_log & clients & (starts >= begin_ns) & (starts <= end_ns)
    ms = float(syncs["latency_ns"].to_numpy()[wanted].astype(np.int64).sum()) / MS
    calls = int(wanted.sum())
    # Backends have told of theirs before they are gone; what the server's own processes did, also
    # before the load, they tell of when they have a processor.
    others = int((of_log & ~clients & (starts <= end_ns)).sum())
    assert 100 < calls <= ended[0] - began[0] <= calls + others
    # Each lies within what the server timed, in whole microseconds. That it is no shorter than the
    # call is, tests/core/test_syscall_watch.py asks call by call.
    assert 0 < ms <= ended[1] - began[1] + 0.001 * calls
    assert evidence.summary["figures"]["lost_syncs"] == 0
    assert evidence.summary["way"] == way


@pytest.mark.system
def test_a_server_that_starts_is_watched_where_ebpf_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The way of the dry run is that of the run; without the library the views are left."""
    refused = ebpf_grants() | {"ok": False, "what": "planted", "why": "", "fix": ""}
    monkeypatch.setattr(syscall_ways, "ebpf_grants", lambda: refused)
    work = PgbenchWorkload(PgbenchParameters(data="disk", transactions=1))
    collector = FsyncCollector(FsyncParameters())
    for missing, name in (("", "a preloaded library"), ("planted", "PostgreSQL's views and /proc")):
        monkeypatch.setattr(syscall_ways, "shim_missing", lambda said=missing: said)
        how = collector.expected(work).how
        assert how.startswith(f"by {name}; not by eBPF: planted")
        assert how.endswith(BLIND["shim" if not missing else "views"])
        with run_of(work, tmp_path, name=f"run-{name[:5]}") as run:
            collector.ready(run.context)
            assert (run.context.services.server_watcher is None) == bool(missing)
            collector.abandon()
            assert run.context.services.server_watcher is None


@pytest.mark.system
def test_a_library_that_nobody_loaded_has_seen_nothing(tmp_path: Path) -> None:
    """A launch of a static program, which preloads nothing."""
    if missing := shim_missing():
        pytest.skip(missing)
    with run_of(CommandWorkload(CommandParameters(data="disk", argv=["true"])), tmp_path) as run:
        collector = FsyncCollector(FsyncParameters(way="shim"))
        collector.start(run.context)
        watcher = run.context.timed.watcher
        assert watcher is not None
        watcher.wrapped(["true"], {}, None)  # and it is started without this environment
        watcher.launched(lambda: False)
        evidence = collector.stop()
    assert "no process loaded" in evidence.incomplete
    assert not any(table.num_rows for table in evidence.tables.values())


def _wal(connection: psycopg.Connection[Any]) -> tuple[int, float]:
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute("SELECT wal_sync, wal_sync_time FROM pg_stat_wal").fetchone()
    assert row is not None
    return int(row[0]), float(row[1])


def _of_server(connection: psycopg.Connection[Any]) -> list[int]:
    """Processes that serve no client."""
    rows = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE backend_type <> 'client backend'"
    )
    return [pid for (pid,) in rows]


def _settled(connection: psycopg.Connection[Any], name: str) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    until(lambda: connection.execute(query, (name,)).fetchone() == (0,))


@pytest.mark.system
def test_where_nothing_was_ever_started_it_says_so(tmp_path: Path) -> None:
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    with run_of(work, tmp_path) as run:
        collector = FsyncCollector(FsyncParameters())
        if not collector.applies(run.context).ok:
            pytest.skip(collector.applies(run.context).reason)
        collector.start(run.context)
        assert collector.stop().incomplete


@pytest.mark.system
def test_the_last_way_reads_what_the_server_says_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = {"data": "disk", "transactions": 50, "clients": 2, "postgres": counting_postgres()}
    work = PgbenchWorkload(PgbenchParameters.model_validate(parameters))
    if not work.check().ok:
        pytest.skip(work.check().reason)
    with scratch_folder() as root, run_of(work, root, name="views") as run:
        work.prepare(run.context)
        collector, other = (FsyncCollector(FsyncParameters(way="views")) for _ in range(2))
        collector.start(run.context)
        outcome = work.measure(run.context)
        # Its sessions tell of their syncs when they go, which may be after their client.
        evidence = collector.stop()
        other.start(run.context)
        service = run.context.services.postgres
        monkeypatch.setattr(clients, "GONE_LIMIT_S", 0)
        with psycopg.connect(service.conninfo, application_name=service.client_name):
            said = other.stop().summary["notes"]
    assert NOT_COUNTED in said
    assert NOT_COUNTED not in evidence.summary["notes"]
    assert evidence.summary["way"] == "views"
    assert not evidence.tables
    figures = evidence.summary["figures"]
    # Group commit: at least one flush, at most one a transaction and what the server adds (its
    # log writer five times a second).
    most = outcome.metrics["transactions"].value + 50 + 10 * (evidence.wall_s or 0)
    assert 0 < figures["pg_stat_wal.wal_sync"] <= most
    assert any("totals only" in note for note in evidence.summary["notes"])
