"""Two modes of a point's runs: planted ones are told apart, one mode is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from nfslab.statistics.summary import summarise_many
from nfslab.statistics.two_modes import split, two_modes
from scipy import stats

from tests.statistics.simulations import Floats

APART = 1.3
POINTS = 4000


def half_and_half(n: int, noise: float) -> Floats:
    """Values of many points, one a row, each run in either mode by chance."""
    rng = np.random.default_rng(n)
    mode = np.where(rng.random((POINTS, n)) < 0.5, APART, 1.0)
    return mode * np.exp(noise * rng.standard_normal((POINTS, n)))


def near(rate: float) -> tuple[float, float]:
    """What the page's two digits leave open, and chance (1 in 10^6)."""
    low = stats.binom.ppf(1e-6, POINTS, rate - 0.006) / POINTS
    return float(low), float(stats.binom.ppf(1 - 1e-6, POINTS, min(rate + 0.006, 1)) / POINTS)


@pytest.mark.parametrize(
    ("n", "fewest", "covers"),
    [(3, 1, 0.75), (4, 1, 0.87), (5, 1, 0.94), (6, 1, 0.97), (10, 3, 0.89)],
)
def test_the_median_of_two_modes_is_covered_as_rarely_as_the_page_says(
    n: int, fewest: int, covers: float
) -> None:
    """By symmetry of the logarithms it is sqrt(1.3), and held where `fewest` runs and more are in
    either mode: with all in one mode never, of ten with one or two hardly."""
    values = half_and_half(n, 0.02)
    found = summarise_many(
        np.repeat(np.arange(POINTS), n), values.ravel(), n_groups=POINTS, bootstrap_resamples=0
    )
    held = sum(one.interval is not None and one.interval.contains(APART**0.5) for one in found)
    exact = 1 - 2 * stats.binom.cdf(fewest - 1, n, 0.5)
    assert exact == pytest.approx(covers, abs=0.006)
    low, high = near(exact)
    assert low <= held / POINTS <= high


@pytest.mark.parametrize(
    ("noise", "n", "found"),
    [(0.02, 5, 0.44), (0.02, 6, 0.71), (0.02, 10, 0.98), (0.05, 5, 0.07), (0.05, 10, 0.39)],
)
def test_two_modes_are_found_as_often_as_the_page_says(noise: float, n: int, found: float) -> None:
    values = half_and_half(n, noise)
    low, high = near(found)
    assert low <= sum(two_modes(row) is not None for row in values) / POINTS <= high


def test_each_run_is_in_its_mode() -> None:
    values = [100.0, 131.0, 99.0, 130.0, 101.0, 129.0]
    assert two_modes(values) == (False, True, False, True, False, True)


def test_the_split_is_the_least_of_all() -> None:
    """By brute force over every split of the sorted logarithms into two parts of two and more."""
    rng = np.random.default_rng(1)
    for n in (5, 8, 13):
        values = rng.lognormal(0, 0.3, n)
        logs = np.sort(np.log(values))
        total = ((logs - logs.mean()) ** 2).sum()
        least = min(
            sum(((part - part.mean()) ** 2).sum() for part in (logs[:k], logs[k:])) / total
            for k in range(2, n - 1)
        )
        assert split(values)[0] == pytest.approx(least, rel=1e-9)


@pytest.mark.parametrize("n", [5, 6, 10, 30])
def test_one_mode_is_called_two_in_1_of_100(n: int) -> None:
    rng, points = np.random.default_rng(n), 1500
    values = np.exp(0.3 * rng.standard_normal((points, n)))  # apart enough not to be left out
    called = sum(two_modes(row) is not None for row in values)
    low, high = stats.binom.ppf([1e-6, 1 - 1e-6], points, 0.01)
    assert called <= high
    if n > 5:
        assert called >= low / 2


def test_two_modes_are_found_in_ten_runs() -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(60):
        mode = np.arange(10) % 2 == 0
        values = np.where(mode, 1.0, 1.3) * np.exp(0.02 * rng.standard_normal(10))
        found += two_modes(values) == tuple((~mode).tolist())
    assert found > 56


def test_what_is_not_worth_telling() -> None:
    assert two_modes([100.0, 130.0, 100.0, 130.0]) is None  # too few
    assert two_modes([100.0, 103.0] * 5) is None  # three per cent
    assert two_modes([100.0] * 10) is None
    assert two_modes([100.0, np.nan, 130.0, 100.0, 130.0, 131.0]) is None
    assert two_modes([100.0, 101.0, 99.0, 100.5, 99.5, 200.0]) is None  # one outlier is no mode
