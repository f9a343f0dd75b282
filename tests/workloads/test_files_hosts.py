"""What processes on several hosts handed over, put together."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from nfslab._core import Histogram
from nfslab.workloads.files_hosts import _latency, _series


def summary(values: list[int]) -> dict[str, Any]:
    """As the core makes it of these latencies."""
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return {
        "count": len(values), "below": 0, "above": 0, "min_ns": histogram.min,
        "max_ns": histogram.max, "mean_ns": histogram.mean, "stdev_ns": histogram.stdev,
        "relative_error": 0.001, "v2_base64": base64.b64encode(histogram.to_v2()).decode(),
    }  # fmt: skip


def test_histograms_add_up_to_that_of_all_values() -> None:
    drawn = np.random.default_rng(3)
    parts = [[int(v) for v in drawn.lognormal(11, 2, count) + 1] for count in (400, 0, 37)]
    every = [value for part in parts for value in part]
    whole, found = Histogram(), _latency([summary(part) for part in parts])
    for value in every:
        whole.record(value)
    assert Histogram.from_v2(base64.b64decode(found["v2_base64"])).buckets() == whole.buckets()
    assert (found["count"], found["min_ns"], found["max_ns"]) == (437, min(every), max(every))
    assert found["mean_ns"] == pytest.approx(np.mean(every), rel=1e-12)
    assert found["stdev_ns"] == pytest.approx(np.std(every), rel=1e-9)
    for name, q in (("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999)):
        assert found[name] == whole.quantile(q)


def test_a_histogram_that_lacks_values_is_refused() -> None:
    with pytest.raises(ValueError, match="has 2 values, its processes counted 3"):
        _latency([summary([5, 6]) | {"count": 3}])


def test_of_nothing_there_is_no_quantile() -> None:
    found = _latency([summary([])])
    assert (found["count"], found["p50_ns"], found["mean_ns"]) == (0, None, None)


def test_series_have_the_widest_intervals() -> None:
    narrow = {"interval_ns": 10, "doublings": 0, "bytes": [1, 2, 3], "operations": [1, 1, 1]}
    wide = {"interval_ns": 20, "doublings": 1, "bytes": [10, 20, 30], "operations": [5, 6, 7]}
    found = _series([narrow, wide])
    assert found == {
        "interval_ns": 20, "doublings": 1, "bytes": [13, 23, 30], "operations": [7, 7, 7],
    }  # fmt: skip
    with pytest.raises(ValueError, match="do not fit"):
        _series([narrow, wide | {"interval_ns": 25}])
