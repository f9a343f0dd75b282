"""The benchmark of what an agent on a client host costs."""

from __future__ import annotations

import pytest

from tests.benches.small_run import by_first_cell, small

pytestmark = pytest.mark.long


def test_both_ways_make_the_same_load() -> None:
    rows = by_first_cell(small("distributed_cost"))
    for way in ("one process", "a client host"):
        rate, cpu_us, passed = rows[way]
        assert 0 < float(rate.replace(",", "")) < 6_400 * 1.2, "32 at once, 5 ms each at least"
        assert float(cpu_us) > 0
        assert passed.endswith("of 2")
    for figure in ("operations a second", "CPU for an operation"):
        median, least, greatest, aim, verdict = rows[figure]
        assert float(least) <= float(median) <= float(greatest)
        assert aim.startswith("at most 1 %")
        assert verdict in ("kept", "missed")
