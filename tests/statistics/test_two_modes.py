"""Two modes of a point's runs: planted ones are told apart, one mode is left alone."""

from __future__ import annotations

import numpy as np
import pytest
from nfslab.statistics.two_modes import split, two_modes
from scipy import stats


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


@pytest.mark.parametrize("n", [5, 6, 7, 9, 10, 14, 30])
def test_one_mode_is_called_two_in_1_of_100(n: int) -> None:
    rng, points = np.random.default_rng(n), 4000
    values = np.exp(0.3 * rng.standard_normal((points, n)))  # apart enough not to be left out
    called = sum(two_modes(row) is not None for row in values)
    low, high = stats.binom.ppf([1e-6, 1 - 1e-6], points, 0.01)
    assert called <= high
    if n > 5:
        assert called >= low / 2


def test_two_modes_are_found_in_ten_runs() -> None:
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(300):
        mode = np.arange(10) % 2 == 0
        values = np.where(mode, 1.0, 1.3) * np.exp(0.02 * rng.standard_normal(10))
        found += two_modes(values) == tuple((~mode).tolist())
    assert found > 290


def test_what_is_not_worth_telling() -> None:
    assert two_modes([100.0, 130.0, 100.0, 130.0]) is None  # too few
    assert two_modes([100.0, 103.0] * 5) is None  # three per cent
    assert two_modes([100.0] * 10) is None
    assert two_modes([100.0, np.nan, 130.0, 100.0, 130.0, 131.0]) is None
    assert two_modes([100.0, 101.0, 99.0, 100.5, 99.5, 200.0]) is None  # one outlier is no mode
