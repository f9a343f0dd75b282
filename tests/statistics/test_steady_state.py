"""Warm-up and change of level: planted ones are found, level series are left alone."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
from nfslab.statistics.checks.steady_state import check_steady_state, level_change, warm_up_length
from scipy import stats

from tests.statistics.simulations import rate_series, warned

SECOND = 1_000_000_000


def test_mser_by_hand() -> None:
    """Twenty single samples: 0, 0, 0, then 10, 11, 10, 11, ...: the three zeros are cut."""
    series = [0.0, 0.0, 0.0] + [10.0 + k % 2 for k in range(17)]
    assert warm_up_length(series) == 3


def test_mser_agrees_with_its_definition() -> None:
    """The cut minimises sum((x - mean)^2) / m^2 of the rest, over the first half."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        series = rng.random(60) + np.exp(-np.arange(60) / 5)
        by_definition = [
            float(((series[d:] - series[d:].mean()) ** 2).sum()) / (60 - d) ** 2 for d in range(31)
        ]
        assert warm_up_length(series) == int(np.argmin(by_definition))


def test_long_series_are_cut_in_steps_of_five() -> None:
    series = np.r_[np.full(23, 100.0), np.full(477, 200.0)]
    series += np.random.default_rng(2).standard_normal(500)
    assert warm_up_length(series) == 25


def test_planted_warm_up_is_found_with_its_length_and_its_effect() -> None:
    rng = np.random.default_rng(3)
    series = np.where(np.arange(60) < 8, 400.0, 1000.0) + 20 * rng.standard_normal(60)
    found = check_steady_state(series, SECOND)
    assert found.verdict == "warning"
    assert 8 * SECOND <= found.values["warm_up_ns"] <= 11 * SECOND  # none of it is left
    assert found.values["steady"]
    assert found.values["mean_steady"] == pytest.approx(1000, rel=0.01)
    assert found.values["bias"] == pytest.approx(-0.08, abs=0.01)
    assert "-8" in found.message


def test_planted_drop_is_found_where_it_was() -> None:
    """A cache that is full after 42 of 60 s."""
    rng = np.random.default_rng(4)
    series = np.where(np.arange(60) < 42, 1000.0, 700.0) + 30 * rng.standard_normal(60)
    found = check_steady_state(series, SECOND)
    assert found.verdict == "warning"
    assert not found.values["steady"]
    assert found.values["change"] == pytest.approx(-0.3, abs=0.03)
    assert found.values["change_at_ns"] == pytest.approx(42 * SECOND, abs=3 * SECOND)


def test_level_change_without_noise() -> None:
    found = level_change([10.0] * 30 + [5.0] * 10)
    assert found.at == 30
    assert found.relative == pytest.approx(-0.5)
    assert found.p_value < 0.01
    assert level_change([7.0] * 40).p_value == 1.0


def test_constant_series_is_steady() -> None:
    found = check_steady_state([250.0] * 100, SECOND)
    assert found.verdict == "ok"
    assert found.values["cut_samples"] == 0


def test_periodic_dips_are_steady() -> None:
    """Checkpoints: every tenth second loses 40 %."""
    series = np.where(np.arange(300) % 10 == 9, 600.0, 1000.0)
    series += 20 * np.random.default_rng(5).standard_normal(300)
    assert check_steady_state(series, SECOND).verdict == "ok"


@pytest.mark.parametrize(
    ("samples", "likeness", "allowed"), [(30, 0.0, 0.03), (60, 0.5, 0.04), (300, 0.5, 0.01)]
)
def test_level_series_are_rarely_warned_about(
    samples: int, likeness: float, allowed: float
) -> None:
    runs = 150
    series = rate_series(samples, likeness, 0.2, runs, seed=6)
    assert warned(series) <= stats.binom.ppf(1 - 1e-6, runs, allowed) / runs


def test_warm_ups_and_drops_are_usually_found() -> None:
    series, t = rate_series(60, 0.0, 0.05, 200, seed=7), np.arange(60)
    assert warned(series * np.where(t < 6, 0.5, 1.0)) > 0.9
    assert warned(series * np.where(t < 42, 1.0, 0.7)) > 0.95
    # One that takes a quarter of the run, or two fifths.
    for long in (15, 24):
        found = [check_steady_state(row, SECOND) for row in series * np.where(t < long, 0.5, 1.0)]
        assert sum(one.values["warm_up_ns"] >= long * SECOND for one in found) > 0.9 * len(found)


def test_too_short_or_odd_series_are_unknown() -> None:
    short = check_steady_state(range(19), SECOND)
    assert short.verdict == "unknown"
    assert "at least 20" in short.message
    assert check_steady_state([np.nan] * 30, SECOND).verdict == "unknown"
    assert check_steady_state([0.0] * 30, SECOND).verdict == "unknown"
    with pytest.raises(ValueError, match="too few"):
        warm_up_length(range(5))


def test_the_same_series_is_always_judged_alike() -> None:
    series = rate_series(60, 0.5, 0.2, 1, seed=8)[0]
    one, other = check_steady_state(series, SECOND), check_steady_state(series * 1024, SECOND)
    assert one == check_steady_state(series, SECOND)
    assert other.values["change_p"] == one.values["change_p"]
    json.dumps(asdict(one), allow_nan=False)
