"""The benchmark of reading results runs and its commands succeed (small)."""

from __future__ import annotations

import json

import pytest

from benches import results_speed


def test_the_small_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert results_speed.main(["--small", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["what"] for row in rows} >= {
        "list",
        "list --runs",
        "compare, selections of one",
        "compare, two experiments",
        "report --markdown",
    }
    assert all(0 < row["cpu_s"] < 60 for row in rows)
