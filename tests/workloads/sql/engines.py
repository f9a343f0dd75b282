"""Runs of `sql` on MariaDB and SQLite for tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from nfslab.results.records import CheckRecord
from nfslab.workloads.base import Outcome
from nfslab.workloads.sql import workload as module
from nfslab.workloads.sql.dialect import dialect_class
from nfslab.workloads.sql.queries import QUERIES, WRITING
from nfslab.workloads.sql.workload import SqlWorkload

from tests.workloads.run_context import Run, kept_up, run_of

SIZE = 4 << 20
ENGINES = ("mariadb", "sqlite")
OWN = {"create_index", "bulk_copy"}
"""Of those that write: MariaDB takes two seconds to come and go."""
EACH = [
    pytest.param(
        engine,
        query,
        marks=pytest.mark.long
        if engine == "mariadb" and query in WRITING - OWN
        else pytest.mark.system,
    )
    for engine in ENGINES
    for query in QUERIES
    if query not in dialect_class(engine).lacking
]
every_engine = pytest.mark.parametrize("engine", ENGINES, scope="module")


def workload(engine: str, query: str, **values: Any) -> SqlWorkload:
    """Skips where there is no such engine."""
    given: dict[str, Any] = {"data": "disk", "size": SIZE, "work_mem": "128k", "lookups": 100}
    if engine == "sqlite":
        mode = "wal" if query == "checkpoint" else "delete"
        given["sqlite"] = {"cache_size": -1000, "journal_mode": mode}
    work = SqlWorkload(
        SqlWorkload.Parameters(**(given | {"query": query, "engine": engine} | values))
    )
    if not (answer := work.check()).ok:
        pytest.skip(answer.reason)
    return work


def on(up: SqlWorkload, query: str, **values: Any) -> SqlWorkload:
    """A query that only reads, on a database that is kept up."""
    work = workload(up.engine, query, **values)
    work.dialect.__dict__["database"] = up.dialect.database  # type: ignore[attr-defined]
    return work


@pytest.fixture
def keeps_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's page cache is left alone: engines' own counters are what is asked for."""
    monkeypatch.setattr(module, "drop_page_cache", lambda _folders: {"dropped": "all"})


@contextmanager
def kept(engine: str, scratch: Path) -> Iterator[SqlWorkload]:
    """A loaded database for queries that only read."""
    work = workload(engine, "full_scan")
    with (
        prepared(work, scratch) as run,
        kept_up(work.dialect.database, run.context),
    ):
        yield work


@contextmanager
def prepared(work: SqlWorkload, scratch: Path) -> Iterator[Run]:
    name = f"sql-{uuid.uuid4().hex[:8]}"
    with run_of(work, scratch, name=name, places={"data": scratch / f"{name}-data"}) as run:
        work.prepare(run.context)
        yield run


def carried_out(work: SqlWorkload, run: Run) -> tuple[dict[str, float], dict[str, CheckRecord]]:
    """Metrics and checks."""
    outcome = work.measure(run.context)
    checks = outcome.checks + work.verify(run.context, outcome)
    return values(outcome), {check.name: check for check in checks}


def values(outcome: Outcome) -> dict[str, float]:
    return {key: metric.value for key, metric in outcome.metrics.items()}


def changed(work: SqlWorkload, statement: str) -> Any:
    """By another connection."""
    with work.dialect.database.session() as session:
        return session.rows(statement)
