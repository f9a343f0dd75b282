"""What cannot be is refused, with what to change."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.errors import UsageError
from nfslab.experiment.reading import read_experiment
from nfslab.workloads.sql.dialect import dialect_class
from nfslab.workloads.sql.parameters import SqlParameters
from pydantic import ValidationError

FILE = """
[experiment]
name = "x"
[targets.disk]
kind = "local"
[workload]
kind = "sql"
data = "disk"
query = "full_scan"
"""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"query": "sort_spill", "size": "4M", "work_mem": "4M"}, "would not spill.*raise size"),
        ({"query": "sort_spill", "work_mem": "1G"}, "lower work_mem"),
        ({"query": "point_lookups", "size": "1M", "lookups": 10_000}, "7040 rows"),
        ({"query": "full_scan", "executions": 2}, 'need cache = "warm"'),
        ({"query": "vacuum", "executions": 2, "cache": "warm"}, "vacuum runs once"),
        ({"query": "full_scan", "size": "1k"}, "size"),
        ({"query": "full_scan", "share": 0}, "share"),
        ({"query": "full_scan", "work_mem": "4G"}, "work_mem"),
        ({"query": "full_scan", "engine": "oracle"}, "engine"),
        ({"query": "full_scan", "settings": {"port": 1}}, "port cannot be set"),
        (
            {"query": "merge_join", "engine": "mariadb"},
            r"merge_join is no query of MariaDB: it has no merge join \(it has .*hash_join",
        ),
        (
            {"query": "checkpoint", "engine": "mariadb"},
            "no statement that makes InnoDB's checkpoint",
        ),
        (
            {"query": "hash_join", "engine": "sqlite"},
            r"SQLite: it joins by nested loops alone \(it has .*nested_loop_join.*checkpoint",
        ),
        ({"query": "merge_join", "engine": "sqlite"}, "by nested loops alone"),
        (
            {"query": "checkpoint", "engine": "sqlite"},
            'needs journal_mode = "wal": delete has none',
        ),
        (
            {"query": "sort_spill", "engine": "sqlite", "size": "3M"},
            "2 times sqlite.cache_size = 2000 KiB; raise size or lower sqlite.cache_size",
        ),
        (
            {"query": "sort_spill", "engine": "sqlite", "size": "1M", "sqlite": {"cache_size": 10}},
            "sqlite.cache_size = 1000 KiB",
        ),
        ({"query": "full_scan", "engine": "sqlite", "wal": "log"}, "beside the database"),
        (
            {"query": "full_scan", "engine": "mariadb", "mariadb": {"datadir": "/x"}},
            "the roles `data` and `wal`",
        ),
        (
            {"query": "full_scan", "engine": "mariadb", "planted_delay": {"log_sync": "2ms"}},
            "PostgreSQL's calls alone",
        ),
        (
            {"query": "sort_spill", "engine": "mariadb", "size": "4M", "work_mem": "4M"},
            "lower work_mem",
        ),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        SqlParameters.model_validate({"data": "disk"} | given)


def test_as_large_a_sort_as_spills() -> None:
    SqlParameters(data="disk", query="sort_spill", size=8 << 20, work_mem=4 << 20)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('query = "ful_scan"', "full_scan"),
        ('wal = "dsk"\nquery = "full_scan"', "disk"),
    ],
)
def test_the_nearest_name_is_told(change: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text(FILE.replace('query = "full_scan"', change))
    with pytest.raises(UsageError) as caught:
        read_experiment(file)
    assert f"did you mean '{words}'" in str(caught.value).replace('"', "'") + caught.value.fix


def test_an_engine_that_nobody_knows() -> None:
    with pytest.raises(UsageError, match="postgres"):
        dialect_class("postgre")


def test_what_is_no_query_of_an_engine_is_refused_before_anything_runs(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    axis = '[[axes]]\nparameter = "workload.engine"\nvalues = ["postgres", "sqlite"]\n'
    file.write_text(FILE.replace("full_scan", "merge_join") + axis)
    with pytest.raises(UsageError) as caught:
        read_experiment(file)
    assert "merge_join is no query of SQLite" in str(caught.value) + caught.value.why
    left_out = '[[exclude]]\n"workload.engine" = "sqlite"\n'
    file.write_text(file.read_text() + left_out)
    assert len(read_experiment(file).points) == 1


def test_tables_of_other_engines_are_not_in_the_record() -> None:
    """So that experiments of before keep their identity."""
    given = {"data": "disk", "query": "full_scan", "mariadb": {"innodb_io_capacity": 100}}
    for engine, table in (("postgres", set()), ("mariadb", {"mariadb"}), ("sqlite", {"sqlite"})):
        parameters = SqlParameters.model_validate(given | {"engine": engine})
        written = parameters.model_dump(mode="json")
        assert {"mariadb", "sqlite"} & set(written) == table
        again = SqlParameters.model_validate(written)
        assert again.model_dump(mode="json") == written
