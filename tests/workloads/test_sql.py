"""Single queries on real PostgreSQL: plans, answers, counters; what is planted is found."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import psycopg
import pytest
from nfslab.databases.postgres.installation import Installation
from nfslab.errors import RunFailed
from nfslab.machine.mounts import mount_of
from nfslab.results.records import CheckRecord
from nfslab.workloads.base import Outcome
from nfslab.workloads.sql.data import PAGE
from nfslab.workloads.sql.postgres import loading
from nfslab.workloads.sql.postgres.dialect import PostgresDialect
from nfslab.workloads.sql.queries import QUERIES, WRITING
from nfslab.workloads.sql.session import fetched_bytes
from nfslab.workloads.sql.workload import SqlWorkload, check_answer

from tests.workloads.run_context import Run, run_of, scratch_folder
from tests.workloads.test_pgbench import every_postgres, name, newest_postgres

_usable = SqlWorkload.available()
pytestmark = pytest.mark.skipif(not _usable.ok, reason=_usable.reason or "usable")
SIZE = 4 << 20
LOG_OF_OTHERS = PAGE
"""Bytes that PostgreSQL's background writes to the log by itself: a record now and then."""
READING = [query for query in QUERIES if query not in WRITING]


def workload(query: str, **values: Any) -> SqlWorkload:
    given = {"data": "disk", "wal": "log", "size": SIZE, "work_mem": "128k", "lookups": 100}
    return SqlWorkload(SqlWorkload.Parameters(**(given | {"query": query} | values)))


def carry_out(work: SqlWorkload, run: Run) -> tuple[Outcome, dict[str, CheckRecord]]:
    work.prepare(run.context)
    outcome = work.measure(run.context)
    checks = outcome.checks + work.verify(run.context, outcome)
    return outcome, {check.name: check for check in checks}


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
def test_each_query_has_its_plan_and_its_answer(query: str, postgres: str, scratch: Path) -> None:
    work = workload(query, postgres=postgres)
    assert work.check().ok
    with run_of(work, scratch, name=name()) as run:
        outcome, checks = carry_out(work, run)
        found = values(outcome)
        items = asked_of(run, "SELECT pg_relation_size('items')")
        index = asked_of(run, "SELECT pg_relation_size('items_created')")
        written = (run.context.logs / "query.sql").read_text()
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert set(checks) == {"sql_answer", "sql_plan"}
    assert [key for key, one in outcome.metrics.items() if one.primary] == ["latency_mean_ms"]
    (row,) = outcome.samples["queries"].to_pylist()
    assert row["status"] == 0
    assert row["latency_ns"] == pytest.approx(found["latency_mean_ms"] * 1e6)
    assert row["t_ns"] <= found["measured_s"] * 1e9 + 1
    assert SIZE <= items < SIZE + 64 * PAGE or query in ("update_indexed", "checkpoint")
    assert "SET enable_seqscan" in written
    if query in READING:
        assert found["log_bytes"] < LOG_OF_OTHERS, "a read must not write"
    # What a cold query reads, in whole pages, is known.
    if query in ("full_scan", "sort_spill", "aggregate"):
        assert found["read_bytes"] == items
    if query == "index_only_scan":
        # Its root was read for the plan; beside it there is a page of the visibility map.
        assert abs(found["read_bytes"] - index) <= 2 * PAGE
    if query == "sort_spill":
        assert found["temporary_bytes"] > SIZE / 2
        assert found["sort_bytes"] == pytest.approx(found["temporary_bytes"], rel=0.1)
    if query == "hash_join":
        assert (found["hash_batches"] > 1) == (found["temporary_bytes"] > 0)
    if query in WRITING - {"checkpoint"}:
        assert found["log_bytes"] > 0


@pytest.mark.parametrize("query", ["full_scan", "point_lookups", "vacuum", "create_index",
                                   "update_indexed", "bulk_copy", "checkpoint"])  # fmt: skip
def test_warm_it_ran_before(query: str, scratch: Path) -> None:
    executions = 1 if query in WRITING else 3
    work = workload(query, cache="warm", executions=executions)
    with run_of(work, scratch, name=name()) as run:
        outcome, checks = carry_out(work, run)
        assert run.phases.index("warm-up") < run.phases.index(query)
    found = values(outcome)
    assert {check.verdict for check in checks.values()} == {"ok"}, checks
    assert found["queries"] == outcome.samples["queries"].num_rows == executions
    if query in READING:
        assert found["read_bytes"] == 0
        assert found["hit_bytes"] > 0
        times = outcome.samples["queries"]["latency_ns"].to_pylist()
        assert found["latency_mean_ms"] == pytest.approx(sum(times) / 3e6)
        assert found["latency_p50_ms"] == sorted(times)[1] / 1e6
        assert sum(times) <= found["measured_s"] * 1e9


def test_all_queries_of_a_size_share_what_was_loaded(scratch: Path) -> None:
    one, other = (workload(query).dialect.tables().record() for query in ("full_scan", "vacuum"))
    assert one == other
    assert one != workload("full_scan", size=2 * SIZE).dialect.tables().record()


def test_planted_a_row_that_changed_makes_the_answer_wrong(scratch: Path) -> None:
    work = workload("full_scan")
    with run_of(work, scratch, name=name()) as run:
        work.prepare(run.context)
        asked_of(run, "UPDATE items SET value = value + 1 WHERE id = 5 RETURNING 1")
        outcome = work.measure(run.context)
    (check,) = outcome.checks
    assert check.verdict == "violation"
    assert "1 of 1 answers are wrong" in check.message


def test_planted_what_a_writing_query_left_is_wrong(scratch: Path) -> None:
    work = workload("update_indexed")
    with run_of(work, scratch, name=name()) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        assert outcome.checks == []
        asked_of(run, "UPDATE items SET code = code + 1 WHERE code = (SELECT max(code) FROM items) "
                      "RETURNING 1")  # fmt: skip
        checks = {check.name: check for check in work.verify(run.context, outcome)}
    assert checks["sql_answer"].verdict == "violation"


def test_planted_without_its_index_the_run_fails_and_shows_the_plan(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexes = tuple(one for one in loading.INDEXED if "items_code" not in one)
    monkeypatch.setattr(loading.PostgresTables, "indexed", indexes)
    work = workload("secondary_range_uncorrelated")
    with run_of(work, scratch, name=name()) as run:
        with pytest.raises(RunFailed, match="Seq Scan on items, not by Index Scan using items_code"
                           ) as caught:  # fmt: skip
            work.prepare(run.context)
        assert "Aggregate\n  Seq Scan on items" in caught.value.why
        assert caught.value.fix


def test_planted_the_index_went_within_the_run(scratch: Path) -> None:
    work = workload("clustered_range")
    with run_of(work, scratch, name=name()) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        with connected(run) as connection:
            connection.execute("ALTER TABLE items DROP CONSTRAINT items_pkey")
        with pytest.raises(RunFailed, match="not by Index Scan using items_pkey"):
            work.verify(run.context, outcome)


def test_planted_a_page_that_is_not_all_visible_is_fetched(scratch: Path) -> None:
    work = workload("index_only_scan")
    with run_of(work, scratch, name=name()) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        asked_of(run, "UPDATE items SET value = value WHERE id = 5 RETURNING 1")
        with pytest.raises(RunFailed, match=r"Heap Fetches is \d+, not 0"):
            work.verify(run.context, outcome)


def test_planted_a_sort_that_has_memory_enough(scratch: Path) -> None:
    work = workload("sort_spill")
    with run_of(work, scratch, name=name()) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        assert work._connected is not None
        work._connected._session.rows("SET work_mem = '64MB'")
        with pytest.raises(RunFailed, match="Sort Space Type is 'Memory', not 'Disk'"):
            work.verify(run.context, outcome)


def test_a_run_that_ends_within_a_statement_is_taken_down(scratch: Path) -> None:
    work = workload("full_scan")
    with run_of(work, scratch, name=name()) as run:
        work.prepare(run.context)
        assert work._connected is not None
        work._connected._session._connection.pgconn.send_query(b"SELECT pg_sleep(3600)")
        work.finish(run.context)


def test_what_the_kernel_fetched_for_the_servers_processes(scratch: Path) -> None:
    """Of all of them together, by proc(5); of no process: none."""
    work = workload("full_scan")
    with run_of(work, scratch, name=name()) as run:
        work.prepare(run.context)
        pid = run.context.services.postgres.pid
        own = Path(f"/proc/{pid}/io").read_text()
        found = fetched_bytes(pid)
        assert found is not None
        assert found >= int(own.split("read_bytes: ")[1].split()[0])
    assert fetched_bytes(2**22 + 1) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can drop the whole page cache")
def test_a_cold_scan_fetches_each_block_from_the_disk() -> None:
    """All of them; beside them read-ahead, and the programs' own pages."""
    work = workload("full_scan", wal=None)
    with scratch_folder(in_memory=False) as root:
        if mount_of(root).filesystem in ("tmpfs", "ramfs"):
            pytest.skip(f"{root} is in memory")
        with run_of(work, root, name=name(), places={"data": root / "data"}) as run:
            found = values(carry_out(work, run)[0])
    assert found["read_bytes"] <= found["fetched_bytes"] <= found["read_bytes"] + (64 << 20)


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


@every_postgres
def test_blocks_that_were_made_do_not_count_as_read(postgres: str, scratch: Path) -> None:
    """A copy reads next to nothing; PostgreSQL 15 cannot tell, and then nothing is told."""
    work = workload("bulk_copy", postgres=postgres)
    with run_of(work, scratch, name=name()) as run:
        outcome, _ = carry_out(work, run)
        copied = asked_of(run, "SELECT pg_relation_size('copies')")
        old = work.dialect.database.installation.major < 16
    assert copied > SIZE / 5
    assert ("read_bytes" in outcome.metrics) != old
    assert old or values(outcome)["read_bytes"] < copied / 10
