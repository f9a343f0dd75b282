"""The universal scalability law: planted parameters come back, scipy finds the same, rates hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from nfslab.statistics.distributions import f_tail
from nfslab.statistics.scalability import (
    Squares,
    by_coherency,
    by_contention,
    by_knee,
    by_peak,
    knee,
    scalability,
)
from scipy import optimize, stats

from tests.statistics.scaling import LEVELS, OTHERS, TRUTHS, coverage, law, refusals, runs
from tests.statistics.test_error_rates import limits


@pytest.mark.parametrize(("sigma", "kappa"), TRUTHS)
def test_planted_parameters_come_back(sigma: float, kappa: float) -> None:
    found = scalability(LEVELS, np.tile(170 * law(LEVELS, sigma, kappa), (3, 1)))
    assert found.rate_of_one == pytest.approx(170, rel=1e-5)
    assert found.contention.value == pytest.approx(sigma, rel=1e-4, abs=1e-5)
    assert found.coherency.value == pytest.approx(kappa, rel=1e-4, abs=1e-7)
    peak = math.sqrt((1 - sigma) / kappa) if kappa else math.inf
    if kappa:
        assert found.peak.value == pytest.approx(peak, rel=1e-3)
    else:
        assert found.peak.value > 1000
    assert not found.refused
    np.testing.assert_allclose(found.rate(LEVELS), 170 * law(LEVELS, sigma, kappa), rtol=1e-4)


@pytest.mark.parametrize(("sigma", "kappa"), TRUTHS)
def test_peak_and_knee_are_the_largest_throughput_and_power(sigma: float, kappa: float) -> None:
    n = np.geomspace(1, 10_000, 200_001)
    curve = law(n, sigma, kappa)
    assert knee(sigma, kappa) == pytest.approx(n[np.argmax(curve**2 / n)], rel=1e-3)
    for given, of in ((knee(sigma, kappa), by_knee), (1 / math.sqrt(kappa or 1), by_peak)):
        s, k = (float(one[0]) for one in of(np.array([given]), np.array([0.3])))
        curve = law(n, s, k)
        largest = curve**2 / n if of is by_knee else curve
        assert n[np.argmax(largest)] == pytest.approx(given, rel=2e-2)


@pytest.mark.parametrize("seed", range(6))
def test_scipy_finds_no_better_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth = TRUTHS[seed % len(TRUTHS)]
    squares = Squares(LEVELS, np.log(runs(law(LEVELS, *truth), 4, 0.1, rng)))
    best = squares.best()

    def residuals(parameters: np.ndarray) -> np.ndarray:
        scale, sigma, kappa = parameters
        return squares.means - scale + np.log1p((sigma + kappa * LEVELS) * (LEVELS - 1))

    bounds = ([-np.inf, 0, 0], [np.inf, 1, 1])
    starts = [(0.0, s, k) for s in (1e-3, 0.1, 0.6) for k in (1e-6, 1e-3, 0.1)]
    costs = [
        2 * optimize.least_squares(residuals, one, bounds=bounds, x_scale=[1, 0.01, 1e-4]).cost
        for one in starts
    ]
    ours = float(squares.at(*np.array([best]).T)[0])
    assert ours <= min(costs) * (1 + 1e-4)


@pytest.mark.parametrize("seed", range(2))
def test_an_interval_ends_where_the_best_fit_no_longer_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates = runs(law(LEVELS, 0.05, 0.001), 4, 0.05, rng)
    found, squares = scalability(LEVELS, rates), Squares(LEVELS, np.log(rates))
    limit = squares.limit(*squares.best())
    for curve, one in (
        (by_contention, found.contention),
        (by_coherency, found.coherency),
        (by_peak, found.peak),
        (by_knee, found.knee),
    ):
        assert one.low <= one.value <= one.high
        for inside, outside in ((one.low, one.low * 0.99), (one.high, one.high * 1.01)):
            if 0 < inside < math.inf:
                sums = squares.profile(curve, np.array([inside, outside]))[0]
                assert sums[0] <= limit * (1 + 1e-3)
                assert sums[1] > limit * (1 - 1e-3)


def test_the_error_is_that_of_runs_within_blocks_and_levels() -> None:
    """Two-way analysis of variance by its definition; a block's own level is no error."""
    rng = np.random.default_rng(3)
    logs = rng.standard_normal((5, 6)) + 10 * rng.standard_normal((5, 1))
    squares = Squares(LEVELS, logs)
    rest = logs - logs.mean(1, keepdims=True)
    rest -= rest.mean(0)
    assert squares.variance == pytest.approx((rest**2).sum() / 20)
    shifted = Squares(LEVELS, logs + np.arange(5.0)[:, None])
    assert shifted.variance == pytest.approx(squares.variance)


def test_intervals_hold_the_truth_and_the_law_is_not_refused() -> None:
    held, refused = coverage(TRUTHS[0], 4, 0.02, experiments=40)
    assert min(held) >= limits(0.95, 40)[0]
    assert refused <= limits(0.01, 40)[1]


@pytest.mark.parametrize("name", ["linear to 8, then half", "law, one level 30 % lower"])
def test_other_curves_are_refused(name: str) -> None:
    assert refusals(OTHERS[name], 4, 0.02, experiments=12) == 1


@pytest.mark.parametrize(
    ("f", "between", "within"),
    [(0.5, 1, 10), (3.0, 3, 15), (40.0, 5, 4), (1e-3, 2, 30), (1e6, 3, 15), (1.0, 9, 60)],
)
def test_f_by_scipy(f: float, between: int, within: int) -> None:
    assert f_tail(f, between, within) == pytest.approx(stats.f.sf(f, between, within), rel=1e-9)


def test_too_little_is_refused() -> None:
    for shape in ((2, 6), (3, 3)):
        with pytest.raises(ValueError, match="few"):
            scalability(LEVELS[: shape[1]], np.ones(shape))
