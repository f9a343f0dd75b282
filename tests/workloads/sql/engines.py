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
from nfslab.workloads.sql.dialect import dialect_class
from nfslab.workloads.sql.queries import QUERIES
from nfslab.workloads.sql.workload import SqlWorkload

from tests.workloads.run_context import Run, run_of

SIZE = 4 << 20
ENGINES = ("mariadb", "sqlite")
QUICK = {"full_scan", "nested_loop_join", "sort_spill", "create_index", "bulk_copy"}
"""One of each way of working; MariaDB takes two seconds to come and go."""
EACH = [
    pytest.param(
        engine, query, marks=() if query in QUICK or engine == "sqlite" else pytest.mark.long
    )
    for engine in ENGINES
    for query in QUERIES
    if query not in dialect_class(engine).lacking
]
every_engine = pytest.mark.parametrize("engine", ENGINES)


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
