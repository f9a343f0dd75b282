"""System calls of a program that a test knows: the table has every call, by whatever way."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from nfslab.databases.postgres.installation import find_installation
from nfslab.evidence.collector import Evidence
from nfslab.evidence.syscalls.accesses import KINDS, PLACE_NAMES, FoundAccesses, accesses_of
from nfslab.evidence.syscalls.collector import SyscallsCollector, SyscallsParameters
from nfslab.evidence.syscalls.tables import PREFIX, Syscalls, sum_up, tables_from
from nfslab.evidence.syscalls.ways import Asked, Subject, obstacle
from nfslab.workloads.command import CommandParameters, CommandWorkload
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.machine import needs
from tests.waiting import until
from tests.workloads.run_context import run_of, scratch_folder

CLASSES = """
[[class]]
name = "log"
patterns = ["**/log.bin"]

[[class]]
name = "data"
patterns = ["**/data.bin"]
"""
PROGRAM = """
import os, sys
folder = sys.argv[1]
log = os.open(os.path.join(folder, "log.bin"), os.O_RDWR | os.O_CREAT)
for n in range(10):
    os.pwrite(log, b"l" * 4096, n // 2 * 4096)   # each page twice: 5 rewrites
    os.fdatasync(log)
if os.fork() == 0:
    again = os.dup(log)
    os.pwrite(again, b"c" * 100, 5 * 4096)
    os.fsync(again)
    os._exit(0)
os.wait()
data = os.open(os.path.join(folder, "data.bin"), os.O_RDWR | os.O_CREAT | os.O_DSYNC)
for n in (3, 0, 2):
    os.pwrite(data, b"d" * 8192, n * 8192)
for n in range(4):
    os.pread(data, 4096, n * 4096)
os.close(data)
os.rename(os.path.join(folder, "data.bin"), os.path.join(folder, "old.bin"))
try:
    os.pread(log, -1 if False else 10, -5)
except OSError:
    pass
"""


def watch(tmp_path: Path, way: str, level: str = "counts") -> Evidence:
    (tmp_path / "classes.toml").write_text(CLASSES, "utf-8")
    work = CommandWorkload(
        CommandParameters(data="disk", argv=[sys.executable, "-S", "-c", PROGRAM, "{data}"])
    )
    with run_of(work, tmp_path) as run:
        collector = SyscallsCollector(
            SyscallsParameters.model_validate(
                {"way": way, "level": level, "classes": tmp_path / "classes.toml"}
            )
        )
        collector.start(run.context)
        assert run.context.timed.watcher is not None
        work.measure(run.context)
        evidence = collector.stop()
        assert run.context.timed.watcher is None
    return evidence


def found_of(evidence: Evidence) -> Syscalls:
    tables = {name.removeprefix(PREFIX): table for name, table in evidence.tables.items()}
    return sum_up(tables_from(tables))


@pytest.mark.system
@pytest.mark.parametrize(
    ("way", "level"),
    [
        pytest.param("ebpf", "counts", marks=pytest.mark.long),
        ("ebpf", "events"),
        ("shim", "events"),
    ],
)
def test_every_call_of_a_known_program_is_in_its_class(
    tmp_path: Path, way: str, level: str
) -> None:
    reason, _ = obstacle(way, Asked("counts"), Subject(argv=[sys.executable]))  # type: ignore[arg-type]
    if reason:
        pytest.skip(f"{way}: {reason}")
    evidence = watch(tmp_path, way, level)
    assert evidence.summary["way"] == way
    rows = {row.name: row for row in found_of(evidence).classes}
    log, data = rows["log"], rows["data"]
    assert log.group("opens").calls == 1
    assert (log.group("writes").calls, log.group("writes").bytes) == (11, 10 * 4096 + 100)
    assert (log.group("fdatasync").calls, log.group("fsync").calls) == (10, 1)
    assert log.group("reads").errors == 1
    assert (data.group("writes").calls, data.group("writes").bytes) == (3, 3 * 8192)
    assert (data.group("reads").calls, data.group("reads").bytes) == (4, 4 * 4096)
    assert data.group("closes").calls == 1
    places = dict(zip(("first", "sequential", "rewrite", "forward", "backward"),
                      log.group("writes").places, strict=True))  # fmt: skip
    assert places == {"first": 1, "sequential": 5, "rewrite": 5, "forward": 0, "backward": 0}
    assert data.group("writes").places == [1, 0, 0, 1, 1]
    assert data.synchronous.calls == 3
    if level == "events":
        events = evidence.tables["syscall_events"].to_pylist()
        names = evidence.tables["syscall_files"].to_pylist()
        own = {row["file_id"] for row in names if row["class"] == "data"}
        writes = [row for row in events if row["file_id"] in own and row["call"] == "pwrite64"]
        assert [row["offset"] for row in writes] == [3 * 8192, 0, 2 * 8192]


@pytest.mark.system
def test_a_way_that_cannot_be_had_is_said_and_nothing_else_is_used(tmp_path: Path) -> None:
    missing = watch(tmp_path, "views").incomplete
    assert "views" in missing or "server" in missing


QUIET_SERVER = {
    "autovacuum": "off", "bgwriter_lru_maxpages": 0, "checkpoint_timeout": "1h",
    "synchronize_seqscans": "off", "full_page_writes": "on", "max_parallel_workers_per_gather": 0,
}  # fmt: skip
PAGE_BYTES = 8192


@pytest.mark.system
@needs.ebpf
@pytest.mark.long
def test_tables_and_indexes_by_their_names_are_what_postgresql_counts(tmp_path: Path) -> None:
    """pg_statio_all_tables has the pages read; a checkpoint writes each changed page once."""
    work = PgbenchWorkload(PgbenchParameters(data="disk", transactions=5, settings=QUIET_SERVER))
    if not work.check().ok:
        pytest.skip(work.check().reason)
    if find_installation("auto").major >= 18:
        # Its I/O workers read a table's parts side by side; a SELECT is a line if it reads itself.
        one_by_one = QUIET_SERVER | {"io_method": "sync"}
        work = PgbenchWorkload(PgbenchParameters(data="disk", transactions=5, settings=one_by_one))
    with scratch_folder() as root, run_of(work, root, name="named") as run:
        work.prepare(run.context)
        service = run.context.services.postgres
        with psycopg.connect(service.conninfo, dbname=service.database, autocommit=True) as sql:
            sql.execute("CREATE TABLE known (x int) WITH (fillfactor = 40)")
            sql.execute("INSERT INTO known SELECT generate_series(1, 5000)")
            sql.execute("CHECKPOINT")
            (before,) = _row(sql, "SELECT pg_relation_filepath('pgbench_accounts_pkey')")
            collector = SyscallsCollector(
                SyscallsParameters(way="ebpf", level="events", by_relation=True)
            )
            collector.start(run.context)
            counted = _pages_read(service)
            with psycopg.connect(
                service.conninfo, dbname=service.database, application_name="reader"
            ) as reader:
                reader.execute("SELECT count(*), sum(abalance) FROM pgbench_accounts")
                reader.execute("UPDATE known SET x = x + 1")
            (pages,) = _row(sql, "SELECT pg_relation_size('known') / 8192")
            sql.execute("CHECKPOINT")
            after_reading = _pages_read(service)
            sql.execute("REINDEX INDEX pgbench_accounts_pkey")
            (after,) = _row(sql, "SELECT pg_relation_filepath('pgbench_accounts_pkey')")
            sql.execute("CREATE TABLE brief AS SELECT 1; DROP TABLE brief")
            begun = _row(sql, WRITTEN)
            evidence = collector.stop()
            ended = _row(sql, WRITTEN)
    rows = {row.name: row for row in found_of(evidence).classes}
    start = f"{service.database}.public"
    read = after_reading - counted
    assert read > 100
    # The REINDEX reads the table again, out of the server's memory.
    assert rows[f"{start}.pgbench_accounts (table)"].group("reads").bytes == read * PAGE_BYTES
    assert rows[f"{start}.known (table)"].group("writes").bytes == pages * PAGE_BYTES
    of_index = f"{start}.pgbench_accounts_pkey (index of pgbench_accounts)"
    files = evidence.tables["syscall_files"].to_pylist()
    assert {row["path"].split("/data/")[-1].split("pgdata/")[-1] for row in files
            if row["class"] == of_index} == {before, after}  # fmt: skip
    assert {row["relation_kind"] for row in files if row["class"] == of_index} == {"index"}
    assert rows[of_index].group("writes").bytes > 0
    assert any("belong to no relation" in note for note in evidence.summary["notes"])
    _check_offsets(evidence, f"{start}.pgbench_accounts (table)", read)
    _check_log(evidence, begun, ended)


WRITTEN = "SELECT * FROM pg_walfile_name_offset(pg_current_wal_flush_lsn())"


def _check_offsets(evidence: Evidence, table: str, pages: int) -> None:
    """A table in a SELECT is a line."""
    found = _accesses(evidence)
    (line,) = (one for one in found.groups if one.name == table)
    reads = line.kind == KINDS.index("read")
    assert line.size[reads].sum() == pages * PAGE_BYTES
    assert (np.diff(line.offset[reads]) > 0).all()


def _accesses(evidence: Evidence) -> FoundAccesses:
    tables = {name.removeprefix(PREFIX): table for name, table in evidence.tables.items()}
    return accesses_of(tables_from(tables))


def _check_log(evidence: Evidence, begun: tuple[Any, ...], ended: tuple[Any, ...]) -> None:
    """A saw, whose last tooth ends where the server says that its log does."""
    found = _accesses(evidence)
    (log,) = (one for one in found.groups if one.name == "PostgreSQL WAL")
    names = evidence.tables["syscall_files"].to_pylist()
    last = [row["file_id"] for row in names if row["path"].endswith(begun[0])]
    of_last = np.isin(log.file_id, last)
    ends = (log.offset + log.size)[of_last]
    assert begun[1] <= ends.max()
    if ended[0] == begun[0]:
        assert ends.max() < ended[1] + PAGE_BYTES
    rewritten = log.place == PLACE_NAMES.index("rewrite")
    assert rewritten.any()
    assert set(log.offset % PAGE_BYTES) == {0}


def _row(connection: psycopg.Connection[Any], query: str) -> tuple[Any, ...]:
    row = connection.execute(query).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return tuple(row)


def _pages_read(service: Any) -> int:
    """Of pgbench_accounts so far: a backend tells before it is gone."""
    left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'reader'"
    with psycopg.connect(service.conninfo, dbname=service.database, autocommit=True) as sql:
        until(lambda: _row(sql, left) == (0,))
        return int(_row(
            sql, "SELECT heap_blks_read FROM pg_statio_all_tables WHERE relname = "
            "'pgbench_accounts'")[0])  # fmt: skip
