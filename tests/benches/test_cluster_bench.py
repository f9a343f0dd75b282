"""The benchmarks of a cluster: its control, and whole runs on it."""

from __future__ import annotations

import re

import pytest

from tests.benches.small_run import small, table_rows

pytestmark = pytest.mark.long


def test_every_process_has_its_row_and_each_death_its_time() -> None:
    printed = small("cluster_cost")
    rows = table_rows(printed)
    assert [row[0] for row in rows[-5:]] == [
        "prime", "scheduler", "worker one", "worker two", "worker three",
    ]  # fmt: skip
    assert "8 MiB came home" in printed
    assert re.search(r"a frozen worker after \d+\.\d\d s, a killed one after", printed)


def test_workers_begin_and_a_lost_one_ends_its_run() -> None:
    rows = table_rows(small("cluster_runs"))
    skews = {row[0]: row[1:] for row in rows if len(row) == 5}
    for name, count in (
        ("the last worker behind the first", 2),
        ("each worker from the common start", 6),
        ("error of the clocks' comparison", 6),
    ):
        values, median, most, *_ = skews[name]
        assert int(values) == count
        assert 0 <= float(median) <= float(most)
    losses = {row[0]: row[1:] for row in rows if len(row) == 7}
    for how in ("killed", "stopped"):
        runs, median, most, ended, left, verdict = losses[how]
        assert (runs, left) == ("1", "0")
        assert 0 < float(median) <= float(most) <= float(ended)
        assert verdict in ("kept", "missed")
    assert float(losses["stopped"][1]) > 8, "10 s of silence, from its last beats on"
