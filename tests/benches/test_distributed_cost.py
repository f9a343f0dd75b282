"""The benchmark of what an agent on a client host costs."""

from __future__ import annotations

import pytest

from tests.benches.small_run import small, table_rows

pytestmark = pytest.mark.long

WAYS = {"a client host": "local", "a worker of a cluster": "cluster"}


def test_all_ways_make_the_same_load() -> None:
    rows = table_rows(small("distributed_cost"))
    made = {row[0]: row[1:] for row in rows if len(row) == 5}
    for way, host in {"one process": "none", **WAYS}.items():
        kind, rate, cpu_us, passed = made[way]
        assert kind == host
        assert 0 < float(rate.replace(",", "")) < 6_400 * 1.2, "32 at once, 5 ms each at least"
        assert float(cpu_us) > 0
        assert passed.endswith("of 2")
    ratios = {tuple(row[:2]): row[2:] for row in rows if len(row) == 7}
    for way in WAYS:
        for figure in ("operations a second", "CPU for an operation"):
            median, least, greatest, aim, verdict = ratios[way, figure]
            assert float(least) <= float(median) <= float(greatest)
            assert aim.startswith("at most 1 %")
            assert verdict in ("kept", "missed")
