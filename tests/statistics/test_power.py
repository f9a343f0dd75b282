"""The smallest detectable difference against scipy's distributions."""

from __future__ import annotations

import numpy as np
import pytest
from nfslab.statistics.power import EXACT_UP_TO, detectable, noncentrality, pairs_for
from scipy import stats

from tests.statistics.simulations import proposals


def power_by_scipy(delta: float, degrees: float, alpha: float) -> float:
    """P(T > critical) with the chi distribution in 20,000 equal parts of probability."""
    critical = stats.t.isf(alpha / 2, degrees)
    u = (np.arange(20_000) + 0.5) / 20_000
    spread = np.sqrt(stats.chi2.ppf(u, degrees) / degrees)
    return float(stats.norm.cdf(delta - critical * spread).mean())


@pytest.mark.parametrize("alpha", [0.05, 0.01, 5e-4, 5e-6])
@pytest.mark.parametrize("degrees", [1, 2, 4, 9, 30, 200, EXACT_UP_TO, EXACT_UP_TO + 1])
def test_power_at_the_detectable_difference_is_eighty_percent(degrees: int, alpha: float) -> None:
    delta = noncentrality(degrees, alpha)
    tolerance = 5e-4 if degrees <= EXACT_UP_TO else 2e-3
    assert power_by_scipy(delta, degrees, alpha) == pytest.approx(0.8, abs=tolerance)


def test_published_power_table() -> None:
    """Cohen's d for 80 % power of a paired t test, n = 10: 0.9960 (G*Power, R's pwr)."""
    assert noncentrality(9, 0.05) / np.sqrt(10) == pytest.approx(0.9960, abs=5e-4)


def test_more_repetitions_detect_less() -> None:
    deltas = [noncentrality(n - 1, 0.05) / np.sqrt(n) for n in range(2, 40)]
    assert deltas == sorted(deltas, reverse=True)


def test_arrays_with_gaps() -> None:
    found = detectable(
        np.array([0.1, np.nan, 0.2]), np.array([4.0, 4.0, 4.9]), np.array([0.05, 0.05, 0.05])
    )
    expected = noncentrality(4, 0.05)
    np.testing.assert_allclose(found, [0.1 * expected, np.nan, 0.2 * expected])


def test_pairs_by_steins_formula() -> None:
    """Of tables: t(0.975, 4) = 2.776, t(0.8, 4) = 0.941; ((2.776 + 0.941) * 0.1)^2 * 5 / 0.1^2."""
    assert pairs_for(0.1, 0.1, 5, 0.05) == 70
    assert pairs_for(0.2, 0.1, 5, 0.05) == 18


def test_so_many_pairs_show_it_four_times_in_five() -> None:
    found = proposals(10, pairs=4, spread=0.2, experiments=200)
    assert found.asked > 150
    # 0.87 of 20,000; three standard errors of so few.
    assert found.shown / found.asked == pytest.approx(0.87, abs=0.08)
