"""Stretches without a completed operation: planted ones are found, a run's own pauses are not."""

from __future__ import annotations

import numpy as np
import pytest
from nfslab.statistics.checks.dead_time import ALPHA, check_dead_time, dead_stretches
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
