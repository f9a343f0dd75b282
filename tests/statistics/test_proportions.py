"""The error of shares, against the binomial distribution itself."""

from __future__ import annotations

import math

import pytest
from nfslab.statistics.proportions import NORMAL_95, share_error
from scipy import stats


@pytest.mark.parametrize(("share", "n"), [(0.5, 10), (0.03, 900), (0.75, 2000), (0.999, 5000)])
def test_it_is_the_binomials_standard_deviation(share: float, n: int) -> None:
    expected = stats.binom(n, share).std() / n
    assert share_error(share, n) == pytest.approx(max(expected, 1 / n), rel=1e-12)


def test_no_finite_number_of_samples_shows_nothing_or_all() -> None:
    assert share_error(0.0, 50) == share_error(1.0, 50) == 0.02
    assert share_error(0.3, 0) == 1.0
    assert share_error(-0.001, 100) == 0.01
    assert math.isclose(NORMAL_95, stats.norm.ppf(0.975), rel_tol=1e-14)
