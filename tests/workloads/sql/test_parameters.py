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
