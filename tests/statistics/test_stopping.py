"""Intervals of experiments that end when they are narrow hold what they state."""

from __future__ import annotations

import math

import numpy as np
import pytest
from nfslab.statistics.comparison import ALPHA, Comparison, compare_many
from nfslab.statistics.observations import Observations
from nfslab.statistics.sequential import SEQUENTIAL_ALPHA, blocks_needed, half_width
from scipy import stats

from tests.statistics.stopping import NOISE, simulate
from tests.statistics.test_error_rates import limits

EXPERIMENTS = 10_000
WORST = 0.03
"""Spread of a run at which most intervals miss: ended after 7 blocks on average."""


@pytest.mark.parametrize("kind", ["normal", *NOISE])
@pytest.mark.parametrize("spread", [0.015, WORST, 0.06])
def test_at_most_5_percent_miss(kind: str, spread: float) -> None:
    found = simulate(kind, spread, experiments=EXPERIMENTS)
    assert found.missed <= limits(ALPHA, EXPERIMENTS)[1]


@pytest.mark.parametrize("comparisons", [3, 10])
def test_nor_any_of_a_family(comparisons: int) -> None:
    found = simulate("lognormal", WORST, experiments=EXPERIMENTS, comparisons=comparisons)
    assert found.missed <= limits(ALPHA, EXPERIMENTS)[1]


def test_without_half_the_level_more_would_and_after_three_blocks() -> None:
    """So that the tests above can fail, and why four blocks are the least."""
    high = limits(ALPHA, EXPERIMENTS)[1]
    worst = 0.05
    assert simulate("normal", worst, experiments=EXPERIMENTS, alpha=ALPHA).missed > high
    three = max(
        simulate("normal", worst, experiments=40_000, least=3, most=100, seed=seed).missed
        for seed in (1, 2)
    )
    assert three > 0.0525


def compared(*, drift: float = 0.0, n: int = 8, groups: int = 1) -> list[Comparison]:
    rng = np.random.default_rng(5)
    noise = rng.normal(0, 0.05, (2, groups, n))
    common = np.cumsum(np.random.default_rng(6).normal(0, drift, n)) if drift else 0.0
    base, new = np.exp(noise + common)
    group = np.repeat(np.arange(groups), n)
    blocks = np.tile(np.arange(n), groups)
    return compare_many(
        *(Observations.of(side.ravel(), groups=group, blocks=blocks) for side in (base, new)),
        n_groups=groups,
        better="higher",
        alpha=SEQUENTIAL_ALPHA,
    )


def test_it_is_the_upper_half_of_the_interval_shown_by_the_ratio() -> None:
    (found,) = compared()
    assert found.interval is not None
    assert found.ratio is not None
    assert found.interval.confidence == 0.975
    width = half_width(found)
    assert width == pytest.approx(found.interval.high / found.ratio - 1, rel=1e-12)
    assert 1 - found.interval.low / found.ratio < width


def test_of_a_family_no_interval_shown_is_wider() -> None:
    for found in compared(groups=6):
        assert found.interval is not None
        assert found.ratio is not None
        assert found.standard_error is not None
        width = half_width(found)
        by_hand = math.expm1(stats.t.isf(0.025 / 6 / 2, 7) * found.standard_error)
        assert width == pytest.approx(by_hand, rel=1e-9)
        assert found.interval.high / found.ratio - 1 <= width * (1 + 1e-9)


def test_drift_of_the_blocks_changes_nothing() -> None:
    still, drifting = half_width(compared()[0]), half_width(compared(drift=0.3)[0])
    assert still == pytest.approx(drifting, rel=1e-9)


def test_it_is_not_known_of_too_few_blocks_nor_of_differences() -> None:
    assert half_width(compared(n=3)[0]) is None
    values = Observations.of([0.0, 1.0, 2.0, 3.0, 4.0], blocks=range(5))
    (found,) = compare_many(values, values, n_groups=1, better=None)
    assert found.scale == "difference"
    assert half_width(found) is None


def test_blocks_needed_follow_from_the_root_of_n() -> None:
    (found,) = compared()
    width = half_width(found)
    assert width is not None
    halved = math.expm1(math.log1p(width) / 2)
    assert blocks_needed(found, halved) == 32
    assert blocks_needed(found, 2 * width) == 8
