"""SQL over results: right answers, and no way to write or to look elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.errors import UsageError
from nfslab.results.outcomes import Outcomes, located
from nfslab.results.query import ResultsDatabase

from tests.report.synthetic import Recipe, write_pgbench
from tests.results.client_hosts import SEEN, plant_hosts

RECIPE = Recipe(clients=(1, 5), repetitions=3, measured_s=1.0, failed=((0, 0),))
ODD_NAME = 'it\'s [1]*?; DROP TABLE runs; -- "x"'
"""Quotes, SQL, and what DuckDB's glob would take for a pattern."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / ODD_NAME
    return write_pgbench(folder, RECIPE).path


@pytest.fixture
def database(path: Path) -> Iterator[ResultsDatabase]:
    with ResultsDatabase(located(path)) as opened:
        yield opened


def tree_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        digest.update(str(file.relative_to(folder)).encode())
        digest.update(file.read_bytes() if file.is_file() else b"/")
    return digest.hexdigest()


def test_runs_and_points_agree_with_the_records(database: ResultsDatabase, path: Path) -> None:
    outcomes = Outcomes.open(path)
    rows = database.ask("SELECT run_id, tps FROM runs WHERE counted ORDER BY run_id").to_pylist()
    assert {row["run_id"]: row["tps"] for row in rows} == {
        line.run_id: line.metrics["tps"] for line in outcomes.counted
    }
    failed = database.ask(
        "SELECT run_id, tps, reason FROM runs WHERE status = 'failed'"
    ).to_pylist()
    assert len(failed) == 1
    assert failed[0]["tps"] is None
    points = database.ask("SELECT * FROM points WHERE metric = 'tps' ORDER BY median").to_pylist()
    assert [point["n"] for point in points].count(3) == 3
    assert [point["n"] for point in points].count(2) == 1


def test_samples_of_all_runs_carry_their_run(database: ResultsDatabase, path: Path) -> None:
    found = database.ask(
        "SELECT run_id, count(*) AS n, max(latency_ns) AS worst FROM samples_transactions "
        "GROUP BY run_id"
    ).to_pylist()
    assert len(found) == 11
    for row in found:
        table = pq.read_table(path / "runs" / row["run_id"] / "samples" / "transactions.parquet")
        latency = table.column("latency_ns").to_numpy()
        assert (row["n"], row["worst"]) == (len(latency), int(np.max(latency)))


def test_evidence_joins_with_runs(database: ResultsDatabase) -> None:
    found = database.ask(
        "SELECT r.clients, avg(d.writes_per_s) AS w FROM evidence_system_devices d "
        "JOIN runs r USING (run_id) GROUP BY r.clients ORDER BY 1"
    ).to_pylist()
    assert [row["clients"] for row in found] == [1, 5]
    assert all(700 < row["w"] < 900 for row in found)


def test_views_and_columns_are_told(database: ResultsDatabase) -> None:
    columns = database.columns()
    assert list(columns)[:3] == ["runs", "points", "metrics"]
    assert ("latency_ns", "BIGINT") in columns["samples_transactions"]
    assert columns["evidence_postgres_waits"][0] == ("run_id", "VARCHAR")
    assert ("flags", "VARCHAR[]") in columns["runs"]


def test_a_table_that_only_some_runs_have(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, Recipe(clients=(1,), repetitions=2))
    record = folder.run_record(folder.sealed_runs()[0].run_id)
    run = folder.begin_run("b009-extra-a1")
    run.write_table("samples", "transactions", pa.table({"t_ns": [1], "new_column": ["x"]}))
    run.write_table("samples", "other", pa.table({"a": [1]}))
    run.seal(record.model_copy(update={"run_id": "b009-extra-a1", "block": 9}), {})
    with ResultsDatabase(located(tmp_path)) as database:
        assert database.ask("SELECT run_id, a FROM samples_other").to_pylist() == [
            {"run_id": "b009-extra-a1", "a": 1}
        ]
        found = database.ask(
            "SELECT new_column, latency_ns FROM samples_transactions WHERE run_id = 'b009-extra-a1'"
        )
        assert found.to_pylist() == [{"new_column": "x", "latency_ns": None}]


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO 'out.csv'",
        "COPY runs TO '/tmp/out.parquet'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
        "EXPLAIN (ANALYZE) COPY (SELECT 1) TO 'out.csv'",
        "explain /* x */ analyze copy (select 1) to 'out.csv'",
        "ATTACH '/tmp/other.db'",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO runs VALUES (1)",
        "DROP VIEW runs",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CALL pragma_version()",
        "SELECT 1; COPY (SELECT 1) TO 'out.csv'",
        "SELECT 1; SELECT 2",
        "EXPORT DATABASE '/tmp/export'",
        "",
        "-- nothing",
    ],
)
def test_nothing_but_one_query_is_carried_out(
    database: ResultsDatabase, path: Path, sql: str
) -> None:
    before = tree_digest(path)
    with pytest.raises(UsageError):
        database.ask(sql)
    assert tree_digest(path) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd.csv'",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM read_text('/proc/self/fd/0/../../../etc/passwd')",
        "SELECT * FROM read_parquet('https://example.invalid/x.parquet')",
    ],
)
def test_nothing_else_can_be_read(database: ResultsDatabase, sql: str) -> None:
    with pytest.raises(UsageError) as caught:
        database.ask(sql)
    assert "disabled by configuration" in str(caught.value)


def test_columns_of_one_name_are_all_there(database: ResultsDatabase) -> None:
    answer = database.ask("SELECT 1 AS a, 2 AS a_1, 3 AS a, 4 AS a FROM runs LIMIT 1")
    assert answer.to_pylist() == [{"a": 1, "a_1": 2, "a_2": 3, "a_3": 4}]


def test_python_variables_are_no_tables(database: ResultsDatabase) -> None:
    content = pa.table({"secret": [1]})
    assert content.num_rows == 1
    with pytest.raises(UsageError):
        database.ask("SELECT * FROM content")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT tsp FROM runs", '"tsp" not found'),
        ("SELECT * FROM transactions", "transactions does not exist"),
        ("SELECT avg(placement) FROM runs", "avg"),
    ],
)
def test_mistakes_carry_the_databases_words(
    database: ResultsDatabase, sql: str, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        database.ask(sql)
    assert words in caught.value.what
    assert "samples_transactions" in caught.value.fix


@pytest.mark.parametrize(
    "sql",
    [
        "FROM runs",
        "DESCRIBE samples_transactions",
        "SUMMARIZE runs",
        "SHOW TABLES",
        "VALUES (1)",
        "EXPLAIN SELECT * FROM points",
        "EXPLAIN ANALYZE SELECT count(*) FROM samples_transactions",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "SELECT count(*) FROM SAMPLES_TRANSACTIONS",
    ],
)
def test_all_kinds_of_reading_work(database: ResultsDatabase, sql: str) -> None:
    assert database.ask(sql).num_columns > 0


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two experiments that have a column each that the other one lacks, and a third, damaged."""
    folder = tmp_path_factory.mktemp("several")
    plain = write_pgbench(folder / "a", RECIPE).path.rename(folder / ODD_NAME.replace("/", "_"))
    more = Recipe(clients=(2, 3, 4), repetitions=2, measured_s=1.0, seed=9)
    write_pgbench(folder / "b", more).path.rename(folder / "more")
    write_pgbench(folder / "c", RECIPE).path.rename(folder / "torn")
    (folder / "torn" / "experiment.json").write_text("{")
    catalogue = (plain / "catalogue.jsonl").read_text()
    assert "tps" in catalogue
    for empty in ("a", "b", "c"):
        (folder / empty).rmdir()
    return folder


def test_several_experiments_are_asked_at_once(several: Path) -> None:
    with ResultsDatabase(located(several)) as database:
        rows = database.ask(
            "SELECT experiment, count(*) AS n, max(tps) AS most FROM runs GROUP BY 1"
        )
        found = {row["experiment"]: row for row in rows.to_pylist()}
        torn = dict(database.damaged)
    assert list(torn) == ["torn"]
    for path in (several / ODD_NAME, several / "more"):
        lines = Outcomes.open(path).catalogue.lines
        assert found.pop(path.name) == {
            "experiment": path.name,
            "n": len(lines),
            "most": max(line.metrics["tps"] for line in lines if line.status == "ok"),
        }
    assert not found


@pytest.mark.parametrize("view", ["points", "metrics", "samples_transactions"])
def test_every_view_of_several_names_the_experiment(several: Path, view: str) -> None:
    with ResultsDatabase(located(several)) as database:
        asked = f"SELECT experiment, count(*) AS n FROM {view} GROUP BY 1 ORDER BY 1"
        together = database.ask(asked).to_pylist()
    alone = []
    for path in sorted((several / "more", several / ODD_NAME), key=lambda path: path.name):
        with ResultsDatabase([path]) as database:
            (row,) = database.ask(f"SELECT count(*) AS n FROM {view}").to_pylist()
            alone.append({"experiment": path.name, "n": row["n"]})
    assert together == alone
    assert all(row["n"] for row in alone)


def test_a_table_of_several_is_joined_with_their_runs(several: Path) -> None:
    with ResultsDatabase(located(several)) as database:
        rows = database.ask(
            "SELECT count(*) AS n FROM samples_transactions JOIN runs USING (experiment, run_id)"
        ).to_pylist()
        (all_rows,) = database.ask("SELECT count(*) AS n FROM samples_transactions").to_pylist()
    assert rows == [all_rows]


def test_nothing_outside_several_experiments_is_read(several: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with ResultsDatabase(located(several)) as database, pytest.raises(UsageError):
        database.ask(f"SELECT * FROM '{secret}'")


def test_what_client_hosts_saw_has_their_names(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, RECIPE)
    runs = plant_hosts(folder)
    with ResultsDatabase([folder.path]) as database:
        asked = "SELECT host, sum(seen) AS seen, count(DISTINCT run_id) AS runs FROM"
        rows = database.ask(f"{asked} evidence_planted GROUP BY host ORDER BY host").to_pylist()
        assert [(row["host"], row["seen"], row["runs"]) for row in rows] == [
            (name, sum(seen) * len(runs), len(runs)) for name, seen in SEEN.items()
        ]
        ids = database.ask("SELECT DISTINCT run_id FROM samples_own_by_host").to_pylist()
        assert {row["run_id"] for row in ids} == {run.name for run in runs}
        assert "samples_own" not in database.views, "whole runs have no such samples"
        assert "host" not in dict(database.columns()["evidence_system_cpu"]), "as it was"


def test_a_damaged_table_of_a_client_host_is_left_out_and_named(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, RECIPE)
    run, *_ = plant_hosts(folder)
    with ResultsDatabase([folder.path]) as database:
        table = run / "hosts" / "load1" / "evidence" / "planted.parquet"
        content = bytearray(table.read_bytes())
        content[8] ^= 1
        table.write_bytes(content)
        database.ask("SELECT * FROM evidence_planted")
        assert list(database.damaged) == [f"{run.name}/hosts/load1/evidence/planted.parquet"]
