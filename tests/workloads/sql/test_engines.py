"""Single queries on real MariaDB and SQLite: plans, answers, counters, what collectors are told."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nfslab.databases.mariadb import installation
from nfslab.databases.sqlite import database, library
from nfslab.workloads.sql.mariadb.loading import MariadbTables
from nfslab.workloads.sql.queries import WRITING
from nfslab.workloads.sql.sqlite.loading import SqliteTables
from nfslab.workloads.sql.workload import SqlWorkload

from tests.workloads.sql.engines import (
    EACH,
    carried_out,
    changed,
    every_engine,
    keeps_pages,
    kept,
    on,
    prepared,
    workload,
)

pytestmark = pytest.mark.usefixtures(keeps_pages.__name__)
PAGE = {"mariadb": 16384, "sqlite": 4096}


@pytest.fixture(scope="module")
def mariadb(scratch: Path) -> Iterator[SqlWorkload]:
    """For queries that only read."""
    with kept("mariadb", scratch) as work:
        yield work


@pytest.mark.parametrize(("engine", "query"), EACH)
def test_each_query_has_its_plan_and_its_answer(
    engine: str, query: str, scratch: Path, request: pytest.FixtureRequest
) -> None:
    own = engine == "sqlite" or query in {*WRITING, "full_scan"}
    work = workload(engine, query) if own else on(request.getfixturevalue("mariadb"), query)
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
    if query in ("full_scan", "aggregate", "sort_spill") and own:
        # The root may have been read when the table was opened; InnoDB reads ahead, extents of 64.
        ahead = 64 if engine == "mariadb" else 0
        assert pages - 2 <= found["read_bytes"] / PAGE[engine] <= pages + ahead
    if query == "clustered_range" and own:
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


@pytest.mark.system
@pytest.mark.parametrize("query", ["full_scan", "bulk_copy", "vacuum"])
def test_warm_it_ran_before(query: str, scratch: Path) -> None:
    more: dict[str, Any] = {"executions": 1 if query in WRITING else 3}
    if query == "full_scan":
        more["sqlite"] = {"cache_size": -16_000}
    work = workload("sqlite", query, cache="warm", **more)
    with prepared(work, scratch) as run:
        found, checks = carried_out(work, run)
        assert run.phases.index("warm-up") < run.phases.index(query)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert found["queries"] == more["executions"]
    if query == "full_scan":
        assert found["read_bytes"] == 0
        assert found["hit_bytes"] > 0
        assert 0 < found["empty_ms"] < found["latency_mean_ms"] * 100


@pytest.mark.system
def test_a_checkpoint_of_sqlites_log_is_whole(scratch: Path) -> None:
    """Also behind one: its log begins anew."""
    work = workload("sqlite", "checkpoint", cache="warm")
    with prepared(work, scratch) as run:
        found, checks = carried_out(work, run)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert "read_bytes" not in found, "it reads beside the page cache"


@pytest.mark.system
@every_engine
def test_all_queries_of_a_size_share_what_was_loaded(engine: str) -> None:
    tables = {"mariadb": MariadbTables, "sqlite": SqliteTables}[engine]
    one, other = (workload(engine, query).dialect.tables() for query in ("full_scan", "vacuum"))
    assert one == other == tables(28160)
    assert one.record() == other.record() != tables(28161).record()


@pytest.mark.system
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


@pytest.mark.system
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


@pytest.mark.system
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
