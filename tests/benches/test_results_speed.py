"""The benchmark of reading results."""

from __future__ import annotations

import json

import pytest

from tests.benches.small_run import small

pytestmark = pytest.mark.long


def test_every_command_succeeds() -> None:
    rows = json.loads(small("results_speed", "--json"))["rows"]
    assert {row["what"] for row in rows} >= {
        "list",
        "list --runs",
        "compare, selections of one",
        "compare, two experiments",
        "report --markdown",
    }
    assert all(0 < row["cpu_s"] < 60 for row in rows)


def test_many_experiments_are_listed_and_asked() -> None:
    rows = json.loads(small("results_speed", "--experiments", "2", "--json"))["rows"]
    assert [row["runs"] for row in rows] == [16, 16]
    assert {row["what"].split(",")[0] for row in rows} == {"list", "query"}
    assert all(0 < row["cpu_s"] < 60 for row in rows)
