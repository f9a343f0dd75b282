"""Single queries on real PostgreSQL: plans, answers, counters; what is planted is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from nfslab.databases.postgres.installation import Installation
from nfslab.errors import RunFailed
from nfslab.machine.mounts import mount_of
from nfslab.workloads.base import Outcome
from nfslab.workloads.sql.data import PAGE
from nfslab.workloads.sql.postgres.dialect import PostgresDialect
from nfslab.workloads.sql.queries import QUERIES, WRITING
from nfslab.workloads.sql.session import fetched_bytes
from nfslab.workloads.sql.workload import SqlWorkload, check_answer

from tests.machine import needs
from tests.workloads.postgres import NEWEST, needs_postgres, newest_postgres
from tests.workloads.run_context import (
    Run,
    carry_out,
    kept_up,
    run_of,
    scratch_folder,
    unique_name,
)
from tests.workloads.sql.engines import keeps_pages

pytestmark = [needs_postgres, pytest.mark.usefixtures(keeps_pages.__name__)]
SIZE = 4 << 20
LOG_OF_OTHERS = PAGE
"""Bytes that PostgreSQL's background writes to the log by itself: a record now and then."""
READING = [query for query in QUERIES if query not in WRITING]


def workload(query: str, **values: Any) -> SqlWorkload:
    given = {"data": "disk", "wal": "log", "size": SIZE, "work_mem": "128k", "lookups": 100,
             "postgres": NEWEST}  # fmt: skip
    return SqlWorkload(SqlWorkload.Parameters(**(given | {"query": query} | values)))


@pytest.fixture(scope="module")
def up(scratch: Path, postgres: str) -> Iterator[SqlWorkload]:
    """A server for queries that only read."""
    work = workload("full_scan", postgres=postgres)
    with run_of(work, scratch, name=unique_name()) as run:
        work.prepare(run.context)
        with kept_up(work.dialect.database, run.context):
            yield work


def on(up: SqlWorkload, query: str, **values: Any) -> SqlWorkload:
    """Another query on that server."""
    work = workload(query, **values)
    work.dialect.__dict__["database"] = up.dialect.database
    return work


def connected(run: Run) -> psycopg.Connection[Any]:
    where = psycopg.conninfo.make_conninfo(run.context.services.postgres.conninfo, dbname="sql")
    return psycopg.connect(where, autocommit=True)


def asked_of(run: Run, statement: str) -> Any:
    with connected(run) as connection:
        return connection.execute(statement).fetchone()[0]


def values(outcome: Outcome) -> dict[str, float]:
    return {key: metric.value for key, metric in outcome.metrics.items()}


@newest_postgres
@pytest.mark.parametrize("query", QUERIES)
def test_each_query_has_its_plan_and_its_answer(
    query: str, postgres: str, up: SqlWorkload, scratch: Path
) -> None:
    own = query in WRITING
    work = workload(query, postgres=postgres) if own else on(up, query, cache="warm", executions=3)
    assert work.check().ok
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
        found = values(outcome)
        items = asked_of(run, "SELECT pg_relation_size('items')")
        written = (run.context.logs / "query.sql").read_text()
        if query == "update_indexed":
            asked_of(run, "UPDATE items SET code = code + 1 WHERE code = (SELECT max(code) FROM "
                          "items) RETURNING 1")  # fmt: skip
            (wrong, _) = work.verify(run.context, outcome)
            assert (wrong.name, wrong.verdict) == ("sql_answer", "violation")
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert set(checks) == {"sql_answer", "sql_plan"}
    assert [key for key, one in outcome.metrics.items() if one.primary] == ["latency_mean_ms"]
    rows = outcome.samples["queries"].to_pylist()
    assert len(rows) == found["queries"] == (1 if own else 3)
    assert {row["status"] for row in rows} == {0}
    times = sorted(row["latency_ns"] for row in rows)
    assert found["latency_mean_ms"] == pytest.approx(sum(times) / len(rows) / 1e6)
    assert own or found["latency_p50_ms"] == times[1] / 1e6
    assert sum(times) <= found["measured_s"] * 1e9 + 1
    assert SIZE <= items < SIZE + 64 * PAGE or query in ("update_indexed", "checkpoint")
    assert "SET enable_seqscan" in written
    if query in READING:
        assert found["log_bytes"] < LOG_OF_OTHERS, "a read must not write"
        assert found["read_bytes"] == 0, "it ran before"
        assert found["hit_bytes"] >= (items if query in ("full_scan", "aggregate") else PAGE)
    if query == "sort_spill":
        assert found["temporary_bytes"] > SIZE / 2
        assert found["sort_bytes"] == pytest.approx(found["temporary_bytes"], rel=0.1)
    if query == "hash_join":
        assert (found["hash_batches"] > 1) == (found["temporary_bytes"] > 0)
    if query in WRITING - {"checkpoint"}:
        assert found["log_bytes"] > 0


@newest_postgres
def test_cold_it_reads_all_blocks(postgres: str, scratch: Path) -> None:
    work = workload("full_scan", postgres=postgres)
    with run_of(work, scratch, name=unique_name()) as run:
        found = values(carry_out(work, run)[0])
        assert found["read_bytes"] == asked_of(run, "SELECT pg_relation_size('items')")


def test_all_queries_of_a_size_share_what_was_loaded(scratch: Path) -> None:
    one, other = (workload(query).dialect.tables().record() for query in ("full_scan", "vacuum"))
    assert one == other
    assert one != workload("full_scan", size=2 * SIZE).dialect.tables().record()


@newest_postgres
def test_planted_what_changes_a_reading_query_is_found(
    postgres: str, up: SqlWorkload, scratch: Path
) -> None:
    """A row, an index that is not there or went, a page that is not all visible, memory enough."""
    work = on(up, "full_scan")
    with run_of(work, scratch, name=unique_name()) as run:
        work.prepare(run.context)
        asked_of(run, "UPDATE items SET value = value + 1 WHERE id = 5 RETURNING 1")
        (check,) = work.measure(run.context).checks
        asked_of(run, "UPDATE items SET value = value - 1 WHERE id = 5 RETURNING 1")
    assert check.verdict == "violation"
    assert "1 of 1 answers are wrong" in check.message

    work = on(up, "index_only_scan")
    with run_of(work, scratch, name=unique_name()) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        with pytest.raises(RunFailed, match=r"Heap Fetches is \d+, not 0"):
            work.verify(run.context, outcome)
        with connected(run) as connection:
            connection.execute("VACUUM items")

    work = on(up, "secondary_range_uncorrelated")
    with run_of(work, scratch, name=unique_name()) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        with connected(run) as connection:
            connection.execute("DROP INDEX items_code")
        with pytest.raises(RunFailed, match="Seq Scan on items, not by Index Scan using items_code"
                           ) as caught:  # fmt: skip
            work.verify(run.context, outcome)
        assert "Aggregate\n  Seq Scan on items" in caught.value.why
        assert caught.value.fix
        work.finish(run.context)
        with pytest.raises(RunFailed, match="not by Index Scan using items_code"):
            work.prepare(run.context)
        with connected(run) as connection:
            connection.execute("CREATE INDEX items_code ON items (code)")

    work = on(up, "sort_spill")
    with run_of(work, scratch, name=unique_name()) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        assert work._connected is not None
        work._connected._session.rows("SET work_mem = '64MB'")
        with pytest.raises(RunFailed, match="Sort Space Type is 'Memory', not 'Disk'"):
            work.verify(run.context, outcome)


@newest_postgres
def test_a_run_that_ends_within_a_statement_is_taken_down(
    postgres: str, up: SqlWorkload, scratch: Path
) -> None:
    work = on(up, "full_scan")
    with run_of(work, scratch, name=unique_name()) as run:
        work.prepare(run.context)
        # What the kernel fetched for all of the server's processes together, by proc(5).
        pid = run.context.services.postgres.pid
        own = Path(f"/proc/{pid}/io").read_text()
        found = fetched_bytes(pid)
        assert found is not None
        assert found >= int(own.split("read_bytes: ")[1].split()[0])
        assert work._connected is not None
        work._connected._session._connection.pgconn.send_query(b"SELECT pg_sleep(3600)")
        work.finish(run.context)
    assert fetched_bytes(2**22 + 1) == 0, "of no process"


@pytest.mark.long
@needs.root
def test_a_cold_scan_fetches_each_block_from_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them; beside them read-ahead, and the programs' own pages."""
    monkeypatch.undo()  # its pages are dropped
    work = workload("full_scan", wal=None)
    with scratch_folder(in_memory=False) as root:
        if mount_of(root).filesystem in ("tmpfs", "ramfs"):
            pytest.skip(f"{root} is in memory")
        with run_of(work, root, name=unique_name(), places={"data": root / "data"}) as run:
            found = values(carry_out(work, run)[0])
    assert found["read_bytes"] <= found["fetched_bytes"] <= found["read_bytes"] + (64 << 20)


@pytest.mark.system
def test_a_postgresql_that_cannot_tell_or_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "no-such-folder" in workload("full_scan", postgres="/no-such-folder").check().reason
    work = workload("full_scan")
    work.dialect.database.__dict__["installation"] = Installation(
        version="14.9", major=14, bindir=tmp_path, source="system"
    )
    monkeypatch.setattr(type(work.dialect.database), "check", PostgresDialect.available)
    answer = work.check()
    assert not answer.ok
    assert "needs PostgreSQL 15" in answer.reason


@pytest.mark.system
def test_its_client_is_here_and_its_rows_are_those_of_the_experiment() -> None:
    assert workload("full_scan").check_host("local").ok
    assert "the client of sql is nfslab" in workload("full_scan").check_host("namespace").reason
    assert "others than those" in workload("full_scan", definition="0" * 64).check().reason


def test_several_wrong_answers_are_counted() -> None:
    check = check_answer(2, 3, [(1, 2)], [(1, 3), (2, 2)])
    assert check.verdict == "violation"
    assert check.message == (
        "2 of 3 answers are wrong: the last one is (1, 3) and 1 more rows, right is (1, 2)"
    )


@newest_postgres
def test_blocks_that_were_made_do_not_count_as_read(postgres: str, scratch: Path) -> None:
    """A copy reads next to nothing; PostgreSQL 15 cannot tell, and then nothing is told."""
    work = workload("bulk_copy", postgres=postgres)
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, _ = carry_out(work, run)
        copied = asked_of(run, "SELECT pg_relation_size('copies')")
        old = work.dialect.database.installation.major < 16
    assert copied > SIZE / 5
    assert ("read_bytes" in outcome.metrics) != old
    assert old or values(outcome)["read_bytes"] < copied / 10
