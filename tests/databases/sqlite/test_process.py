"""The process that uses a run's SQLite: what it yields, counts, refuses; its end."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab import clock
from nfslab.databases.shared.deployment import Deployment
from nfslab.databases.sqlite import process
from nfslab.databases.sqlite.database import SqliteDatabase, SqliteOptions
from nfslab.databases.sqlite.process import SqliteProcess
from nfslab.databases.sqlite.settings import SqliteSettings
from nfslab.errors import RunFailed

from tests.workloads.run_context import command_run

there = SqliteDatabase(SqliteOptions()).check()
pytestmark = [
    pytest.mark.skipif(not there.ok, reason=there.reason or "usable"),
    pytest.mark.system,
]
PAGE = 4096


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[SqliteProcess]:
    file = tmp_path / "x.sqlite3"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE t (n INTEGER, x REAL, s TEXT, none TEXT)")
        connection.execute("INSERT INTO t VALUES (-9007199254740993, 1.5, 'ä', NULL)")
        connection.execute("CREATE TABLE wide (s TEXT)")
        connection.executemany("INSERT INTO wide VALUES (?)", [("x" * 1000,)] * 400)
    connection.close()
    (tmp_path / "temporary").mkdir()
    with command_run() as context:
        made = SqliteProcess(Deployment.of(context, None), tmp_path / "temporary")
        try:
            made.open(file, SqliteSettings(), {})
            yield made
        finally:
            made.stop()


def test_rows_have_the_types_of_the_database(opened: SqliteProcess) -> None:
    assert opened.rows("SELECT * FROM t") == [(-9007199254740993, 1.5, "ä", None)]
    assert opened.rows("DELETE FROM t") == []
    assert opened.rows("SELECT count(*) FROM t") == [(0,)]


def test_it_counts_pages_that_it_read_and_had(opened: SqliteProcess) -> None:
    ((pages,),) = opened.rows("SELECT count(*) FROM dbstat WHERE name = 'wide'")
    opened.rows("PRAGMA shrink_memory")
    before = opened.ask("counts")
    opened.rows("SELECT sum(length(s)) FROM wide")
    now = opened.ask("counts")
    assert pages > 100
    assert now["missed"] - before["missed"] in (pages, pages + 1), "and the schema's"
    opened.rows("SELECT sum(length(s)) FROM wide")
    again = opened.ask("counts")
    assert again["missed"] == now["missed"]
    assert again["hit"] - now["hit"] >= pages


def test_what_it_answers_is_not_what_it_wrote(opened: SqliteProcess) -> None:
    before = opened.ask("counts")["written_bytes"]
    for _ in range(10):
        opened.rows("SELECT s FROM wide")
    assert opened.ask("counts")["written_bytes"] == before
    opened.rows("PRAGMA user_version = 3")
    assert opened.ask("counts")["written_bytes"] - before >= PAGE


def test_what_sqlite_refuses_is_told_and_it_goes_on(opened: SqliteProcess) -> None:
    with pytest.raises(RunFailed) as caught:
        opened.rows("SELECT nowhere")
    assert "no such column: nowhere" in caught.value.why
    assert opened.rows("SELECT 1") == [(1,)]


def test_rows_that_are_held_in_memory(opened: SqliteProcess, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("1,a\n2,b\n")
    made = ["ATTACH ':memory:' AS held", "CREATE TABLE held.rows (n INTEGER, s TEXT)"]
    insert = "INSERT INTO held.rows VALUES (?, ?)"
    opened.ask("hold", statements=made, insert=insert, file=str(tmp_path / "rows.csv"))
    assert opened.rows("SELECT * FROM held.rows") == [(1, "a"), (2, "b")]


def test_a_pragma_that_does_not_take_effect(opened: SqliteProcess, tmp_path: Path) -> None:
    with pytest.raises(RunFailed) as caught:
        opened.open(tmp_path / "x.sqlite3", SqliteSettings(page_size=8192), {})
    assert "PRAGMA page_size is" in caught.value.why
    with pytest.raises(RunFailed) as caught:
        opened.open(tmp_path / "none.sqlite3", SqliteSettings(), {})
    assert "unable to open database file" in caught.value.why


def test_its_end_is_told(opened: SqliteProcess) -> None:
    opened.process.stop(9)
    with pytest.raises(RunFailed, match="was ended by SIGKILL"):
        opened.rows("SELECT 1")


def test_a_long_answer_and_a_long_statement(
    opened: SqliteProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    (row,) = opened.rows("SELECT hex(zeroblob(1000000))")
    assert len(row[0]) == 2_000_000
    monkeypatch.setattr(process, "LINE_MOST", 100)
    with pytest.raises(RunFailed, match="too long"):
        opened.rows("SELECT 1" + " " * 100)


def test_waiting_ends_with_the_time_of_the_run(opened: SqliteProcess) -> None:
    end = clock.monotonic() + 0.1

    def remaining_s() -> float:
        if clock.monotonic() > end:
            raise RunFailed("the run's time is over")
        return 1.0

    deployment: Any = opened._deployment
    deployment.remaining_s = remaining_s
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(RunFailed, match="time is over"):
        opened.rows(endless)
