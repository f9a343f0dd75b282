"""Single queries on real MariaDB and SQLite: plans, answers, counters; what is planted is found."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest
from nfslab.databases.mariadb import installation
from nfslab.databases.sqlite import database, library
from nfslab.databases.sqlite.database import SqliteDatabase
from nfslab.errors import RunFailed
from nfslab.workloads.sql.mariadb import statements as of_mariadb
from nfslab.workloads.sql.mariadb.loading import MariadbTables
from nfslab.workloads.sql.queries import WRITING
from nfslab.workloads.sql.sqlite import statements as of_sqlite
from nfslab.workloads.sql.sqlite.loading import SqliteTables
from nfslab.workloads.sql.statements import Statements, covered

from tests.workloads.sql.engines import (
    EACH,
    carried_out,
    changed,
    every_engine,
    prepared,
    values,
    workload,
)

TEXTS: dict[str, dict[str, Any]] = {
    "mariadb": of_mariadb.STATEMENTS, "sqlite": of_sqlite.STATEMENTS,
}  # fmt: skip
PAGE = {"mariadb": 16384, "sqlite": 4096}


@pytest.mark.parametrize(("engine", "query"), EACH)
def test_each_query_has_its_plan_and_its_answer(engine: str, query: str, scratch: Path) -> None:
    work = workload(engine, query)
    with prepared(work, scratch) as run:
        found, checks = carried_out(work, run)
        written = (run.context.logs / "query.sql").read_text()
        pages = _pages_of_items(work) if engine == "sqlite" else _pages_of_innodb(work)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert set(checks) == {"sql_answer", "sql_plan"}
    assert "PRAGMA" in written or "SET SESSION optimizer_switch" in written
    assert found.get("read_bytes", 0) % PAGE[engine] == 0
    assert found.get("hit_bytes", 0) >= 0
    if query not in WRITING:
        assert found["log_bytes"] == 0
    if query in ("full_scan", "aggregate", "sort_spill"):
        # The root may have been read when the table was opened; InnoDB reads ahead, extents of 64.
        ahead = 64 if engine == "mariadb" else 0
        assert pages - 2 <= found["read_bytes"] / PAGE[engine] <= pages + ahead
    if query == "clustered_range":
        assert 0 < found["read_bytes"] < pages * PAGE[engine] / 10
    if query in ("full_scan", "nested_loop_join"):
        assert found["temporary_bytes"] == 0
    if query == "sort_spill":
        assert ("temporary_bytes" in found) == (engine == "sqlite")
        assert found["sort_bytes" if engine == "sqlite" else "sort_passes"] > 0
    if query == "hash_join":
        assert found["join_scans"] >= 1


def _pages_of_items(work: Any) -> int:
    """As SQLite's own table of pages has them; before its queries changed any."""
    file = work.dialect.database.file()
    with sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True) as connection:
        (count,) = connection.execute("SELECT count(*) FROM dbstat WHERE name = 'items'").fetchone()
    return int(count)


def _pages_of_innodb(work: Any) -> int:
    ((pages,),) = changed(
        work,
        "SELECT sum(stat_value) FROM mysql.innodb_index_stats WHERE table_name = 'items' "
        "AND index_name = 'PRIMARY' AND stat_name IN ('n_leaf_pages')",
    )
    return int(pages)


@every_engine
@pytest.mark.parametrize(
    "query", ["full_scan", "sort_spill", "vacuum", "create_index", "update_indexed", "bulk_copy"]
)
def test_warm_it_ran_before(engine: str, query: str, scratch: Path) -> None:
    more: dict[str, Any] = {"executions": 1 if query in WRITING else 3}
    if engine == "sqlite" and query == "full_scan":
        more["sqlite"] = {"cache_size": -16_000}
    work = workload(engine, query, cache="warm", **more)
    with prepared(work, scratch) as run:
        found, checks = carried_out(work, run)
        assert run.phases.index("warm-up") < run.phases.index(query)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert found["queries"] == more["executions"]
    if query == "full_scan":
        assert found["read_bytes"] == 0
        assert found["hit_bytes"] > 0


def test_a_checkpoint_of_sqlites_log_is_whole(scratch: Path) -> None:
    """Also behind one: its log begins anew."""
    work = workload("sqlite", "checkpoint", cache="warm")
    with prepared(work, scratch) as run:
        found, checks = carried_out(work, run)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert "read_bytes" not in found, "it reads beside the page cache"


@every_engine
def test_all_queries_of_a_size_share_what_was_loaded(engine: str) -> None:
    tables = {"mariadb": MariadbTables, "sqlite": SqliteTables}[engine]
    one, other = (workload(engine, query).dialect.tables() for query in ("full_scan", "vacuum"))
    assert one == other == tables(28160)
    assert one.record() == other.record() != tables(28161).record()


@every_engine
def test_planted_a_row_that_changed_makes_the_answer_wrong(engine: str, scratch: Path) -> None:
    work = workload(engine, "full_scan")
    with prepared(work, scratch) as run:
        changed(work, "UPDATE items SET value = value + 1 WHERE id = 5")
        outcome = work.measure(run.context)
    (check,) = outcome.checks
    assert check.verdict == "violation"
    assert "1 of 1 answers are wrong" in check.message


@every_engine
def test_planted_what_a_writing_query_left_is_wrong(engine: str, scratch: Path) -> None:
    work = workload(engine, "update_indexed")
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        changed(work, "UPDATE items SET code = code + 1 WHERE id = 14100")
        checks = {check.name: check for check in work.verify(run.context, outcome)}
    assert checks["sql_answer"].verdict == "violation"


@every_engine
def test_planted_another_plan_fails_the_run_and_is_shown(
    engine: str, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TEXTS[engine]["index_only_scan"](None)
    hint = {"mariadb": " USE INDEX ()", "sqlite": " NOT INDEXED"}[engine]
    wrong: Statements[Any] = Statements(text=covered(hint), plan=right.plan)
    monkeypatch.setitem(TEXTS[engine], "index_only_scan", lambda asked: wrong)
    seen = {"mariadb": "ALL items", "sqlite": "SCAN items"}[engine]
    with pytest.raises(RunFailed, match=f"it reads by {seen}, not by .*items_created") as caught:
        with prepared(workload(engine, "index_only_scan"), scratch):
            pass
    assert f"plan is\n{seen}" in caught.value.why
    assert caught.value.fix


@every_engine
def test_planted_the_index_went_within_the_run(engine: str, scratch: Path) -> None:
    work = workload(engine, "secondary_range_uncorrelated")
    gone = {"mariadb": "ALTER TABLE items DROP INDEX items_code", "sqlite": "DROP INDEX items_code"}
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        changed(work, gone[engine])
        with pytest.raises(RunFailed, match="refused a statement") as caught:
            work.verify(run.context, outcome)
    assert "items_code" in caught.value.why


@every_engine
def test_planted_a_sort_that_has_memory_enough(engine: str, scratch: Path) -> None:
    work = workload(engine, "sort_spill")
    more = {
        "mariadb": "SET SESSION sort_buffer_size = 67108864",
        "sqlite": "PRAGMA cache_size = -64000",
    }
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        assert work._connected is not None
        work._connected._session.rows(more[engine])  # type: ignore[attr-defined]
        with pytest.raises(RunFailed, match="did not write to files|writes no file"):
            work.verify(run.context, outcome)


@every_engine
def test_planted_a_vacuum_that_does_nothing(
    engine: str, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TEXTS[engine]["vacuum"](None)
    idle: Statements[Any] = Statements(
        text="SELECT 1", answer=right.answer, answer_plan=right.answer_plan, changes=right.changes,
        mark=right.mark, proof=right.proof,
    )  # fmt: skip
    monkeypatch.setitem(TEXTS[engine], "vacuum", lambda asked: idle)
    work = workload(engine, "vacuum")
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        with pytest.raises(RunFailed, match="vacuum did not do what it is there for"):
            work.verify(run.context, outcome)


@every_engine
def test_what_the_collectors_are_told(engine: str, scratch: Path) -> None:
    work = workload(engine, "clustered_range")
    with prepared(work, scratch) as run:
        service = run.context.services.database
        assert service is not None
        assert (service.kind, run.context.services.engine) == (engine, engine)
        assert Path(f"/proc/{service.pid}/exe").exists()
        assert run.context.services.postgres is None
        assert "settings" in run.context.places["data"].facts[engine]
        if engine == "sqlite":
            held = {os.readlink(one) for one in Path(f"/proc/{service.pid}/fd").iterdir()}
            assert str(work.dialect.database.file()) in held  # type: ignore[attr-defined]


@every_engine
def test_a_database_that_dies_fails_the_run(engine: str, scratch: Path) -> None:
    work = workload(engine, "full_scan")
    with prepared(work, scratch) as run:
        service = run.context.services.database
        assert service is not None
        os.kill(service.pid, signal.SIGKILL)
        with pytest.raises(RunFailed, match="is gone|did not answer"):
            while True:  # until the kernel has ended it
                work.measure(run.context)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_a_statement_of_sqlites_ends_with_the_time_of_the_run(scratch: Path) -> None:
    work = workload("sqlite", "full_scan")
    with prepared(work, scratch) as run:
        assert work._connected is not None
        run.deadline = time.monotonic() + 0.5
        with pytest.raises(RunFailed, match="time is over"):
            work._connected._session.rows(ENDLESS)  # type: ignore[attr-defined]


def test_a_query_that_only_reads_cannot_write(scratch: Path) -> None:
    """So that what it wrote is temporary."""
    with prepared(work := workload("sqlite", "full_scan"), scratch):
        assert work._connected is not None
        with pytest.raises(RunFailed) as caught:
            work._connected._session.rows("DELETE FROM items")  # type: ignore[attr-defined]
    assert "readonly" in caught.value.why


def test_a_pragma_that_is_not_in_effect_ends_the_run(scratch: Path) -> None:
    work = workload("sqlite", "full_scan")
    real = SqliteDatabase._set_journal_mode

    def other_pages(self: SqliteDatabase, filesystem: str) -> None:
        real(self, filesystem)
        changed(work, "PRAGMA page_size = 8192")
        with self.session() as session:
            session.rows("PRAGMA page_size = 8192")
            session.rows("VACUUM")

    with pytest.MonkeyPatch.context() as patch, pytest.raises(RunFailed) as caught:
        patch.setattr(SqliteDatabase, "_set_journal_mode", other_pages)
        with prepared(work, scratch):
            pass
    assert "PRAGMA page_size is" in caught.value.why


def test_what_is_missing_is_said_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    works = [workload(engine, "full_scan") for engine in ("mariadb", "sqlite")]
    for work in works:
        work.dialect.__dict__.pop("database", None)
    monkeypatch.setattr(library, "LIBRARY", "libno-such.so.0")
    monkeypatch.setattr(database, "LIBRARY", "libno-such.so.0")
    which = shutil.which
    monkeypatch.setattr(
        installation.shutil,
        "which",
        lambda name, path=None: None if "mariadb" in name else which(name, path=path),
    )
    fixes = [work.check().fix for work in works]
    assert fixes == [
        "install it (Debian: apt-get install mariadb-server-core)",
        "install it (Debian: apt-get install libsqlite3-0)",
    ]


def test_versions_that_are_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    maria, lite = (workload(engine, "full_scan") for engine in ("mariadb", "sqlite"))
    maria.dialect.database.__dict__["installation"] = installation.Installation(  # type: ignore
        "mariadbd", "mariadb-install-db", "10.5.29-MariaDB"
    )
    monkeypatch.setattr(
        type(maria.dialect.database), "check", lambda self: lite.dialect.available()
    )
    assert "needs MariaDB 10.6 (JSON_TABLE), not 10.5" in maria.check().reason
    monkeypatch.setattr("nfslab.workloads.sql.sqlite.dialect.library_version", lambda: "3.37.2")
    assert "needs SQLite 3.38, not 3.37.2" in lite.check().reason


def test_values_of_an_execution(scratch: Path) -> None:
    work = workload("sqlite", "full_scan", cache="warm", executions=5)
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
    times = outcome.samples["queries"]["latency_ns"].to_pylist()
    assert len(times) == values(outcome)["queries"] == 5
    assert 0 < values(outcome)["empty_ms"] < values(outcome)["latency_mean_ms"] * 100
