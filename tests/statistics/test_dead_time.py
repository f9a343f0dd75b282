"""Stretches without a completed operation: planted ones are found, a run's own pauses are not."""

from __future__ import annotations

import numpy as np
import pytest
from nfslab.statistics.checks.dead_time import (
    ALPHA,
    Stretch,
    check_dead_time,
    dead_bins,
    dead_stretches,
)
from scipy import stats

SECOND = 1e9
RUN = 14 * SECOND


def stopped(rate: float, begin_s: float, stop_s: float, seed: int = 1) -> np.ndarray:
    """Poisson completions of a run of 14 s that stands still from `begin_s` for `stop_s`."""
    rng = np.random.default_rng(seed)
    busy_s = 14 - stop_s
    at = np.sort(rng.uniform(0, busy_s, rng.poisson(rate * busy_s)))
    return np.where(at > begin_s, at + stop_s, at) * SECOND


def test_a_server_that_stops_for_5_of_14_seconds() -> None:
    check = check_dead_time(stopped(400, 4, 5), RUN, lambda one: f"{one.seconds:.0f} s seen")
    assert check.verdict == "warning"
    ((begin, end),) = check.values["stretches"]
    assert begin == pytest.approx(4 * SECOND, abs=0.1 * SECOND)
    assert end == pytest.approx(9 * SECOND, abs=0.1 * SECOND)
    assert check.values["dead_ns"] == end - begin
    assert "5 s seen" in check.message


@pytest.mark.parametrize("begin_s", [0.0, 7.0])
def test_half_a_run_at_zero_at_either_end(begin_s: float) -> None:
    completed = stopped(50, begin_s, 7)
    ((begin, end),) = check_dead_time(completed, RUN).values["stretches"]
    assert (begin == 0) == (begin_s == 0.0)
    assert (end == RUN) == (begin_s == 7.0)
    assert end - begin == pytest.approx(7 * SECOND, abs=SECOND)


def test_many_short_stops_are_all_named() -> None:
    """Twenty of 0.3 s: no one of them hides behind the others."""
    rng = np.random.default_rng(3)
    at = np.sort(rng.uniform(0, 8, 4000))
    at += np.floor(at / 0.4) * 0.3
    check = check_dead_time(at * SECOND, RUN)
    assert len(check.values["stretches"]) == 20  # 19 between, one at the end
    assert check.values["dead_ns"] == pytest.approx(6 * SECOND, rel=0.05)


PAUSES = {
    "Poisson": lambda rng, n: rng.exponential(size=n),
    "bursts of 8": lambda rng, n: np.where(np.arange(n) % 8, 0.02, 8.0) * rng.exponential(size=n),
    "lognormal, 1": lambda rng, n: rng.lognormal(0, 1, n),
    "Weibull, 0.5": lambda rng, n: rng.weibull(0.5, n),
}


@pytest.mark.parametrize("kind", PAUSES)
@pytest.mark.parametrize("operations", [50, 200, 1000, 10_000])
def test_a_runs_own_pauses_are_not_dead_time(kind: str, operations: int) -> None:
    """At most 1 % are called so (docs/decisions/statistics.md), within 1 in 10^6."""
    rng, runs = np.random.default_rng(operations), 300
    called = 0
    for _ in range(runs):
        at = np.cumsum(PAUSES[kind](rng, operations))
        called += bool(dead_stretches(at * RUN / (at[-1] + at[-1] / operations), RUN))
    assert called <= stats.binom.ppf(1 - 1e-6, runs, max(ALPHA, 0.01))


def test_few_operations_do_not_tell() -> None:
    assert check_dead_time(np.linspace(0, RUN, 79), RUN).verdict == "unknown"
    assert check_dead_time([], RUN).verdict == "unknown"
    assert check_dead_time(np.full(100, 7 * SECOND), RUN).verdict == "unknown"  # one burst


HEAVY = {
    "bursts of 64": lambda rng, n: np.where(np.arange(n) % 64, 0.02, 64) * rng.exponential(size=n),
    "lognormal, 1.5": lambda rng, n: rng.lognormal(0, 1.5, n),
    "Pareto, 2": lambda rng, n: rng.pareto(2, n),
}


@pytest.mark.parametrize(
    ("kind", "rate"), [("bursts of 64", 0.011), ("lognormal, 1.5", 0.013), ("Pareto, 2", 0.068)]
)
@pytest.mark.parametrize("operations", [200, 1000])
def test_heavier_tails_are_called_dead_no_more_often_than_the_page_says(
    kind: str, rate: float, operations: int
) -> None:
    rng, runs = np.random.default_rng(operations), 300
    called = 0
    for _ in range(runs):
        at = np.cumsum(HEAVY[kind](rng, operations))
        called += bool(dead_stretches(at * RUN / (at[-1] + at[-1] / operations), RUN))
    assert called <= stats.binom.ppf(1 - 1e-6, runs, rate)


@pytest.mark.parametrize(
    ("operations", "share", "least", "most"),
    [
        (100, 5 / 14, 0.91, 1.0),
        (200, 5 / 14, 0.99, 1.0),
        (100, 0.2, 0.35, 0.47),
        (200, 0.2, 0.88, 0.95),
        (400, 0.2, 0.99, 1.0),
        (10_000, 0.05, 0.999, 1.0),
    ],
)
def test_stops_are_found_as_often_as_the_page_says(
    operations: int, share: float, least: float, most: float
) -> None:
    """Completions at random; the stop begins at any instant."""
    rng, runs = np.random.default_rng(7), 200
    found = 0
    for _ in range(runs):
        at = np.sort(rng.uniform(0, 1 - share, operations))
        begin = rng.uniform(0, 1 - share)
        found += bool(dead_stretches(np.where(at > begin, at + share, at) * RUN, RUN))
    low, high = stats.binom.ppf(1e-6, runs, least), stats.binom.ppf(1 - 1e-6, runs, most)
    assert low <= found <= high


WIDTH = SECOND / 10


def test_a_stop_among_counts() -> None:
    """Where a run keeps counts in bins of 0.1 s: to the bin."""
    counts = np.random.default_rng(2).poisson(40, 140)
    counts[40:90] = 0
    assert dead_bins(counts, WIDTH, SECOND) == [Stretch(5 * 10**9, 10 * 10**9)]
    # Few operations a bin: bins are joined to hold five.
    counts = np.random.default_rng(2).poisson(2, 140)
    counts[40:90] = 0
    ((begin, end),) = [(one.begin_ns, one.end_ns) for one in dead_bins(counts, WIDTH) or []]
    assert 4 * SECOND <= begin <= 4.5 * SECOND
    assert 8.5 * SECOND <= end <= 9 * SECOND


def test_few_counts_tell_nothing() -> None:
    assert dead_bins([0] * 100, WIDTH) is None
    assert dead_bins([100] * 9, WIDTH) is None
    assert dead_bins([1] * 40, WIDTH) is None
    assert dead_bins([], WIDTH) is None


@pytest.mark.parametrize("mean", [1, 200])
@pytest.mark.parametrize("bins", [20, 600])
def test_counts_at_random_and_in_clusters_are_not_dead(mean: float, bins: int) -> None:
    rng = np.random.default_rng(bins)
    swing = stats.norm.rvs(size=(200, bins), random_state=rng)
    for at in range(1, bins):  # slow swings of the rate: AR(1) of 0.9
        swing[:, at] = 0.9 * swing[:, at - 1] + np.sqrt(1 - 0.81) * swing[:, at]
    rates = (np.ones((200, bins)), rng.gamma(2, 0.5, (200, bins)), np.exp(0.7 * swing - 0.245))
    for rate in rates:
        found = [dead_bins(rng.poisson(mean * one), WIDTH) for one in rate]
        told = sum(one is not None for one in found)
        assert sum(bool(one) for one in found) <= max(3, 0.005 * told)
