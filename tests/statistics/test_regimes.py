"""Changes of level over many experiments: planted ones are found in place, none is called a few."""

from __future__ import annotations

import numpy as np
import pytest
from nfslab.statistics import regimes as module
from nfslab.statistics.regimes import ALPHA, EXPERIMENTS_LEAST, SIDE_LEAST, regimes

from tests.statistics.over_time import called
from tests.statistics.test_error_rates import limits


def test_planted_changes_are_found_in_place() -> None:
    rng = np.random.default_rng(1)
    levels = np.repeat([100.0, 130.0, 90.0], [12, 9, 14])
    found = regimes((levels * np.exp(0.03 * rng.standard_normal(35)))[:, None])
    assert [change.at for change in found] == [12, 21]
    assert all(0 < change.p_value <= ALPHA for change in found)


def test_a_change_of_some_figures_is_found_among_all() -> None:
    rng = np.random.default_rng(2)
    figures = 100 * np.exp(0.03 * rng.standard_normal((24, 4)))
    figures[15:, :2] *= 1.25
    assert [change.at for change in regimes(figures)] == [15]


def test_the_statistic_is_that_of_matteson_and_james() -> None:
    """Their Q by sums over pairs, as the paper writes it."""
    values = np.random.default_rng(3).standard_normal(11)
    distances = np.abs(values[:, None] - values[None, :])
    found = module._energies(distances)
    for place, q in enumerate(found):
        m = place + SIDE_LEAST
        n = 11 - m
        between = sum(distances[i, j] for i in range(m) for j in range(m, 11))
        left = sum(distances[i, k] for i in range(m) for k in range(i + 1, m))
        right = sum(distances[j, k] for j in range(m, 11) for k in range(j + 1, 11))
        energy = 2 * between / (m * n) - left / (m * (m - 1) / 2) - right / (n * (n - 1) / 2)
        assert q == pytest.approx(m * n / (m + n) * energy)


@pytest.mark.parametrize(("n", "figures"), [(12, 1), (20, 5)])
def test_equal_experiments_have_a_change_called_at_1_percent(n: int, figures: int) -> None:
    share, _ = called("lognormal", n, figures, series=40)
    assert share <= limits(ALPHA, 40)[1]


def test_nothing_is_said_of_few_or_of_what_does_not_vary() -> None:
    few = np.repeat([1.0, 2.0], [5, EXPERIMENTS_LEAST - 6])
    assert regimes(few[:, None]) == []
    assert regimes(np.ones((20, 2))) == []
    with pytest.raises(ValueError, match="300"):
        regimes(np.ones((301, 1)))


def test_an_experiment_that_stands_alone_is_no_level() -> None:
    rng = np.random.default_rng(4)
    figures = 100 * np.exp(0.03 * rng.standard_normal(20))
    figures[10] *= 3
    assert regimes(figures[:, None]) == []
