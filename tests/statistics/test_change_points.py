"""Change points: planted steps are found where they are, noise of all kinds gives none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nfslab.statistics.change_points import ALPHA, LEVEL_LEAST, _ranks, change_points
from numpy.typing import NDArray
from scipy.stats import rankdata

Integers = NDArray[np.int64]
MS = 1e6


def level(rng: np.random.Generator, n: int, median_ms: float, spread: float = 0.3) -> Integers:
    """Log-normal latencies around a median."""
    return np.round(median_ms * MS * np.exp(spread * rng.standard_normal(n))).astype(np.int64)


@pytest.mark.parametrize("n", [242, 5_000])
def test_the_curve_of_2001_changes_after_57_calls(n: int) -> None:
    rng = np.random.default_rng(2001)
    found_at = []
    for _ in range(25):
        steps = change_points(np.concatenate([level(rng, 57, 0.44), level(rng, n - 57, 4.987)]))
        assert len(steps.changes) == 1
        found_at += steps.changes
        before, after = steps.levels
        assert before.median_ns == pytest.approx(0.44 * MS, rel=0.15)
        assert after.median_ns == pytest.approx(4.987 * MS, rel=0.15)
    assert all(abs(place - 57) <= 1 for place in found_at)


@pytest.mark.parametrize("kinds", [1, 3, 1000])
def test_ranks_are_scipys(kinds: int) -> None:
    values = np.random.default_rng(kinds).integers(0, kinds, 500)
    expected = (rankdata(values) - 501 / 2) / 500
    assert _ranks(values).tolist() == pytest.approx(expected.tolist(), abs=1e-15)


def test_the_change_is_exactly_where_two_constants_meet() -> None:
    steps = change_points(np.repeat([400_000, 5_100_000, 2_000_000], [57, 100, 85]))
    assert steps.changes == [57, 157]
    assert [(one.start, one.end, one.median_ns) for one in steps.levels] == [
        (0, 57, 400_000), (57, 157, 5_100_000), (157, 242, 2_000_000),
    ]  # fmt: skip
    assert max(steps.p_values) < ALPHA


@pytest.mark.parametrize("drift", [0.003, 0.01])
def test_a_step_between_levels_that_drift_by_hundredths(drift: float) -> None:
    """As a server whose NVRAM is full answers: 7.9 ms, and a little less or more for a while."""
    rng = np.random.default_rng(13)
    for _ in range(25):
        slow = np.empty(119)
        slow[0] = 0.0
        for i in range(1, slow.size):
            slow[i] = 0.9 * slow[i - 1] + rng.standard_normal() * drift * np.sqrt(1 - 0.9**2)
        after = (7.9 * MS * np.exp(slow)).astype(np.int64)
        steps = change_points(np.concatenate([np.full(70, 200_000), after]))
        assert steps.changes == [70]


def test_a_short_stall_within_a_long_series_is_found() -> None:
    rng = np.random.default_rng(7)
    parts = [level(rng, 5_000, 1.0), level(rng, 40, 30.0), level(rng, 5_000, 1.0)]
    steps = change_points(np.concatenate(parts))
    assert len(steps.changes) == 2
    assert abs(steps.changes[0] - 5_000) <= 1
    assert abs(steps.changes[1] - 5_040) <= 1


def _pareto(rng: np.random.Generator, n: int) -> Integers:
    return (MS * (1 + rng.pareto(1.05, n))).astype(np.int64)


def _two_kinds(rng: np.random.Generator, n: int) -> Integers:
    return np.where(rng.random(n) < 0.3, level(rng, n, 0.4), level(rng, n, 5.0))


def _coarse(rng: np.random.Generator, n: int) -> Integers:
    return rng.integers(1, 4, n) * 1_000_000


def _follows(share: float) -> Callable[[np.random.Generator, int], Integers]:
    def make(rng: np.random.Generator, n: int) -> Integers:
        shocks, values = rng.standard_normal(n), np.zeros(n)
        for i in range(1, n):
            values[i] = share * values[i - 1] + shocks[i]
        return (5 * MS * np.exp(0.4 * values)).astype(np.int64)

    return make


NOISE: dict[str, Callable[[np.random.Generator, int], Integers]] = {
    "log-normal": lambda rng, n: level(rng, n, 5.0, 0.6),
    "Pareto without a variance": _pareto,
    "a mixture of fast and slow": _two_kinds,
    "three values only": _coarse,
    "each follows the one before, 0.5": _follows(0.5),
    "each follows the one before, 0.8": _follows(0.8),
    "as exact as two grains": lambda rng, n: level(rng, n, 5.0, 0.02),
}
SERIES = 60


@pytest.mark.parametrize("kind", NOISE)
@pytest.mark.parametrize("n", [64, 242])
def test_noise_has_no_change_points(kind: str, n: int) -> None:
    """At ALPHA = 1 % of series; 60 would show 4 or more once in 300 if it were just kept."""
    rng = np.random.default_rng(n)
    wrong = sum(bool(change_points(NOISE[kind](rng, n)).changes) for _ in range(SERIES))
    assert wrong <= 3


def test_a_step_that_nobody_would_see_is_none() -> None:
    rng = np.random.default_rng(3)
    parts = [level(rng, 20_000, 1.0, 0.1), level(rng, 20_000, 1.1, 0.1)]
    assert change_points(np.concatenate(parts)).changes == []


@pytest.mark.parametrize("n", [0, 1, LEVEL_LEAST, 31])
def test_a_short_series_is_one_level(n: int) -> None:
    steps = change_points(np.arange(n) * 1000 + 1)
    assert steps.changes == []
    assert sum(one.calls for one in steps.levels) == n


def test_zeros_and_equal_values_are_one_level() -> None:
    assert change_points(np.zeros(500, np.int64)).changes == []


def test_two_levels_of_many_syncs() -> None:
    rng = np.random.default_rng(5)
    values = np.concatenate([level(rng, 57, 0.4), level(rng, 99_943, 5.1, 0.6)])
    steps = change_points(values)
    assert [abs(place - 57) <= 1 for place in steps.changes] == [True]


def test_a_series_that_drifts_all_the_time_ends() -> None:
    rng = np.random.default_rng(11)
    values = np.exp(np.cumsum(0.05 * rng.standard_normal(20_000))) * MS
    steps = change_points(np.clip(values, 1, 1e15).astype(np.int64))
    assert steps.levels[-1].end == 20_000
