"""The quantile estimator against exact arithmetic and against the definition."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nfslab._core import Histogram
from nfslab.statistics.quantile_estimator import (
    Buckets,
    histogram_quantiles,
    median,
    quantiles,
    rank,
    samples_needed,
    summed,
)


def quantile(samples: Any, q: float) -> float | int:
    return quantiles(samples, [q])[0].value


def test_nearest_rank_of_the_textbook() -> None:
    """Wikipedia's worked example of the nearest-rank method (its page "Percentile")."""
    values = [50, 15, 40, 20, 35]
    assert [quantile(values, q) for q in (0.05, 0.30, 0.40, 0.50, 1.00)] == [15, 20, 20, 35, 50]


@pytest.mark.parametrize(
    ("q", "n", "expected"),
    [
        (0.07, 100, 7),  # the float 0.07 lies above 7/100: binary arithmetic says 8
        (0.29, 100, 29),
        (0.57, 100, 57),
        (0.999, 1000, 999),
        (0.99, 100, 99),
        (0.5, 2, 1),
        (0.0, 10, 1),
        (1.0, 10, 10),
        (1e-9, 10, 1),
    ],
)
def test_ranks_use_the_decimal_that_was_written(q: float, n: int, expected: int) -> None:
    assert rank(q, n) == expected


@settings(deadline=None)
@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0]),
)
def test_quantile_is_the_smallest_value_with_enough_values_at_or_below(
    values: list[int], q: float
) -> None:
    found = quantile(values, q)
    wanted = Fraction(str(q)) * len(values)
    assert found in values
    assert sum(v <= found for v in values) >= wanted
    assert sum(v < found for v in values) < max(wanted, Fraction(1, 2))


def test_integers_stay_exact() -> None:
    large = 2**62 + 1  # not a float
    found = quantiles(np.array([1, large], dtype=np.int64), [1.0])[0]
    assert found.value == large
    assert isinstance(found.value, int)
    assert (found.low, found.high, found.n, found.n_above) == (large, large, 2, 0)


def test_agreement_with_numpy_where_its_arithmetic_is_exact() -> None:
    values = np.random.default_rng(1).random(257)
    for q in (0.0, 0.125, 0.25, 0.5, 0.75, 1.0):
        assert quantile(values, q) == np.quantile(values, q, method="inverted_cdf")


def test_histogram_agrees_with_its_samples_when_buckets_hold_one_value() -> None:
    rng = np.random.default_rng(2)
    samples = rng.integers(0, 50, 1000)
    edges, counts = np.unique(samples, return_counts=True)
    qs = [0.0, 0.1, 0.5, 0.99, 0.999, 1.0]
    expected = [q.value for q in quantiles(samples, qs)]
    assert [q.value for q in histogram_quantiles(counts, edges, edges, qs)] == expected


def test_histogram_bounds_hold_the_quantile_of_the_samples() -> None:
    rng = np.random.default_rng(3)
    samples = rng.integers(0, 1024, 5000)
    low = np.arange(0, 1024, 64)
    counts = np.bincount(samples // 64, minlength=16)
    for found in histogram_quantiles(counts, low, low + 63, [0.5, 0.9, 0.99, 1.0]):
        true = quantile(samples, found.q)
        assert found.low <= true <= found.high == found.value
        assert found.n == 5000


def test_empty_buckets_are_never_chosen() -> None:
    found = histogram_quantiles([0, 3, 0, 1, 0], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0.0, 0.75, 1.0])
    assert [q.value for q in found] == [1, 1, 3]


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(1, 10**12), max_size=30), min_size=1, max_size=4))
def test_summed_histograms_are_the_histogram_of_all_samples(runs: list[list[int]]) -> None:
    """By the core's own addition of what it counted in one."""
    whole, parts = Histogram(), []
    for samples in runs:
        one = Histogram()
        for sample in samples:
            one.record(sample)
            whole.record(sample)
        parts.append(Buckets(*np.array(one.buckets(), np.int64).reshape(-1, 3).T))
    found = summed(parts)
    rows = zip(found.low.tolist(), found.high.tolist(), found.count.tolist(), strict=True)
    assert list(rows) == whole.buckets()
    assert found.total == whole.count


@pytest.mark.parametrize("other", [(1, 9), (2, 9), (3, 5)])
def test_histograms_of_other_buckets_are_not_summed(other: tuple[int, int]) -> None:
    one = Buckets(*np.array([[1], [4], [7]]))
    with pytest.raises(ValueError, match="different buckets"):
        summed([one, Buckets(*np.array([[other[0]], [other[1]], [7]]))])


def test_how_many_samples_a_quantile_needs() -> None:
    """p99 of 100 samples has one sample above it, p99 of 99 is the largest one."""
    assert samples_needed(0.99) == 101
    assert quantiles(range(100), [0.99])[0].n_above == 1
    assert quantiles(range(99), [0.99])[0].n_above == 0
    assert all(
        quantiles(range(samples_needed(q)), [q])[0].n_above > 0 for q in (0.5, 0.9, 0.99, 0.999)
    )


def test_median_of_few_values() -> None:
    assert median([3, 1]) == 2.0
    assert median([3, 1, 2]) == 2.0


def test_what_has_no_quantile_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)
    with pytest.raises(ValueError, match="NaN"):
        quantile([1.0, float("nan")], 0.5)
    with pytest.raises(ValueError, match="0 to 1"):
        quantile([1.0], 99)
    with pytest.raises(ValueError, match="no values"):
        histogram_quantiles([0, 0], [0, 1], [0, 1], [0.5])
    with pytest.raises(ValueError, match="ascend"):
        histogram_quantiles([1, 1], [1, 0], [1, 0], [0.5])
    with pytest.raises(ValueError, match="counts"):
        histogram_quantiles([1.5], [0], [1], [0.5])
    with pytest.raises(ValueError, match="no median"):
        median([])
