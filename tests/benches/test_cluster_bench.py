"""The benchmark of a cluster's control."""

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
