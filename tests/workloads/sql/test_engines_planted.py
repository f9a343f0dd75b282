"""What goes wrong with a query on real MariaDB and SQLite, planted: each is found."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab import clock
from nfslab.databases.sqlite.database import SqliteDatabase
from nfslab.errors import RunFailed
from nfslab.workloads.sql.mariadb import statements as of_mariadb
from nfslab.workloads.sql.sqlite import statements as of_sqlite
from nfslab.workloads.sql.statements import Statements
from nfslab.workloads.sql.texts import covered
from nfslab.workloads.sql.workload import SqlWorkload

from tests.workloads.run_context import Run
from tests.workloads.sql.engines import (
    changed,
    every_engine,
    keeps_pages,
    kept,
    on,
    prepared,
    workload,
)

pytestmark = pytest.mark.usefixtures(keeps_pages.__name__)
TEXTS: dict[str, dict[str, Any]] = {
    "mariadb": of_mariadb.STATEMENTS,
    "sqlite": of_sqlite.STATEMENTS,
}
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def brought_up(work: SqlWorkload, scratch: Path) -> None:
    with prepared(work, scratch):
        pass


def measured_until_it_fails(work: SqlWorkload, run: Run) -> None:
    """The kernel may take a moment to end a process."""
    while True:
        work.measure(run.context)


@pytest.fixture(scope="module")
def up(engine: str, scratch: Path) -> Iterator[SqlWorkload]:
    """Of each engine one; SQLite's is a process of each run."""
    with kept(engine, scratch) as work:
        yield work


def loaded(up: SqlWorkload, query: str, **values: Any) -> SqlWorkload:
    return workload("sqlite", query, **values) if up.engine == "sqlite" else on(up, query, **values)


@pytest.mark.system
@every_engine
def test_planted_a_row_that_changed_makes_the_answer_wrong(
    engine: str, up: SqlWorkload, scratch: Path
) -> None:
    work = loaded(up, "full_scan")
    with prepared(work, scratch) as run:
        changed(work, "UPDATE items SET value = value + 1 WHERE id = 5")
        outcome = work.measure(run.context)
        changed(work, "UPDATE items SET value = value - 1 WHERE id = 5")
    (check,) = outcome.checks
    assert check.verdict == "violation"
    assert "1 of 1 answers are wrong" in check.message


@pytest.mark.system
def test_planted_what_a_writing_query_left_is_wrong(scratch: Path) -> None:
    work = workload("sqlite", "update_indexed")
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        changed(work, "UPDATE items SET code = code + 1 WHERE id = 14100")
        checks = {check.name: check for check in work.verify(run.context, outcome)}
    assert checks["sql_answer"].verdict == "violation"


@pytest.mark.system
@every_engine
def test_planted_another_plan_fails_the_run_and_is_shown(
    engine: str, up: SqlWorkload, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TEXTS[engine]["index_only_scan"](None)
    hint = {"mariadb": " USE INDEX ()", "sqlite": " NOT INDEXED"}[engine]
    wrong: Statements[Any] = Statements(text=covered(hint), plan=right.plan)
    monkeypatch.setitem(TEXTS[engine], "index_only_scan", lambda asked: wrong)
    seen = {"mariadb": "ALL items", "sqlite": "SCAN items"}[engine]
    work = loaded(up, "index_only_scan")
    with pytest.raises(RunFailed, match=f"it reads by {seen}, not by .*items_created") as caught:
        brought_up(work, scratch)
    assert f"plan is\n{seen}" in caught.value.why
    assert caught.value.fix


@pytest.mark.system
@every_engine
def test_planted_the_index_went_within_the_run(engine: str, up: SqlWorkload, scratch: Path) -> None:
    work = loaded(up, "secondary_range_uncorrelated")
    gone = {"mariadb": "ALTER TABLE items DROP INDEX items_code", "sqlite": "DROP INDEX items_code"}
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        changed(work, gone[engine])
        with pytest.raises(RunFailed, match="refused a statement") as caught:
            work.verify(run.context, outcome)
        changed(work, "CREATE INDEX items_code ON items (code)")
    assert "items_code" in caught.value.why


@pytest.mark.system
@every_engine
def test_planted_a_sort_that_has_memory_enough(engine: str, up: SqlWorkload, scratch: Path) -> None:
    work = loaded(up, "sort_spill")
    more = {
        "mariadb": "SET SESSION sort_buffer_size = 67108864",
        "sqlite": "PRAGMA cache_size = -64000",
    }
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        assert work._connected is not None
        work._connected._session.rows(more[engine])  # type: ignore[attr-defined]
        with pytest.raises(RunFailed, match=r"did not write to files|writes no file"):
            work.verify(run.context, outcome)


@pytest.mark.system
def test_planted_a_vacuum_that_does_nothing(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = of_sqlite.STATEMENTS["vacuum"](None)
    idle: Statements[Any] = Statements(
        text="SELECT 1", answer=right.answer, answer_plan=right.answer_plan, changes=right.changes,
        mark=right.mark, proof=right.proof,
    )  # fmt: skip
    monkeypatch.setitem(of_sqlite.STATEMENTS, "vacuum", lambda asked: idle)
    work = workload("sqlite", "vacuum")
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        with pytest.raises(RunFailed, match="vacuum did not do what it is there for"):
            work.verify(run.context, outcome)


@pytest.mark.system
def test_a_database_that_dies_fails_the_run(scratch: Path) -> None:
    work = workload("sqlite", "full_scan")
    with prepared(work, scratch) as run:
        service = run.context.services.database
        assert service is not None
        os.kill(service.pid, signal.SIGKILL)
        with pytest.raises(RunFailed, match="SIGKILL"):
            measured_until_it_fails(work, run)


@pytest.mark.system
def test_a_statement_of_sqlites_ends_with_the_time_of_the_run(scratch: Path) -> None:
    work = workload("sqlite", "full_scan")
    with prepared(work, scratch) as run:
        assert work._connected is not None
        run.deadline = clock.monotonic() + 0.2
        with pytest.raises(RunFailed, match="time is over"):
            work._connected._session.rows(ENDLESS)  # type: ignore[attr-defined]


@pytest.mark.system
def test_a_query_that_only_reads_cannot_write(scratch: Path) -> None:
    """So that what it wrote is temporary."""
    with prepared(work := workload("sqlite", "full_scan"), scratch):
        assert work._connected is not None
        with pytest.raises(RunFailed) as caught:
            work._connected._session.rows("DELETE FROM items")  # type: ignore[attr-defined]
    assert "readonly" in caught.value.why


@pytest.mark.system
def test_a_pragma_that_is_not_in_effect_ends_the_run(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = workload("sqlite", "full_scan")
    real = SqliteDatabase._set_journal_mode

    def other_pages(self: SqliteDatabase, filesystem: str) -> None:
        real(self, filesystem)
        with self.session() as session:
            session.rows("PRAGMA page_size = 8192")
            session.rows("VACUUM")

    monkeypatch.setattr(SqliteDatabase, "_set_journal_mode", other_pages)
    with pytest.raises(RunFailed) as caught:
        brought_up(work, scratch)
    assert "PRAGMA page_size is" in caught.value.why
