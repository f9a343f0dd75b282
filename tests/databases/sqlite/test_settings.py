"""SQLite's modes: which commits wait for the storage (its own documents), and what is refused."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from nfslab.databases.sqlite import library
from nfslab.databases.sqlite.database import SqliteDatabase, SqliteOptions
from nfslab.databases.sqlite.settings import SqliteSettings
from nfslab.errors import RunFailed
from pydantic import ValidationError

DURABLE = {
    ("delete", "extra"),
    *((mode, level) for mode in ("truncate", "wal") for level in ("full", "extra")),
    *(("persist", level) for level in ("normal", "full", "extra")),
}


@pytest.mark.parametrize("level", ["off", "normal", "full", "extra"])
@pytest.mark.parametrize("mode", ["delete", "truncate", "persist", "wal"])
def test_a_commit_is_durable_where_its_last_step_is_synced(mode: str, level: str) -> None:
    settings = SqliteSettings(journal_mode=mode, synchronous=level)  # type: ignore[arg-type]
    assert (settings.durability_reasons() == []) == ((mode, level) in DURABLE)


@pytest.mark.parametrize("size", [0, 100, 4097, 131072])
def test_a_page_is_a_power_of_two(size: int) -> None:
    with pytest.raises(ValidationError, match="power of two"):
        SqliteSettings(page_size=size)


def test_a_missing_library_is_said_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARY", "libsqlite3.so.none")
    answer = SqliteDatabase(SqliteOptions()).check()
    assert not answer.ok
    assert "libsqlite3-0" in answer.fix


def test_a_storage_that_does_not_take_the_mode_is_refused(tmp_path: Path) -> None:
    """Its shared memory cannot be had there: a folder is in the way."""
    base = SqliteDatabase(SqliteOptions(settings=SqliteSettings(journal_mode="wal")))
    base._file = tmp_path / "bench.sqlite3"
    with contextlib.closing(sqlite3.connect(base.file())) as connection:
        connection.execute("CREATE TABLE one (number)")
    (tmp_path / "bench.sqlite3-shm").mkdir()
    with pytest.raises(RunFailed) as caught:
        base._set_journal_mode("nfs4")
    assert caught.value.what == "SQLite cannot work on this storage"
    assert caught.value.why.startswith("journal_mode = wal on nfs4: ")
    assert "mmap(MAP_SHARED)" in caught.value.fix
