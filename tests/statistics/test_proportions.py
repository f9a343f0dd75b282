"""The error of shares, against the binomial distribution itself."""

from __future__ import annotations

import math

import pytest
from nfslab.statistics.proportions import (
    NORMAL_95,
    chi_square_tail,
    drawn_by_chance,
    share_error,
)
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


@pytest.mark.parametrize("degrees", [1, 2, 3, 8, 35, 1001, 20_000])
@pytest.mark.parametrize("times", [0.01, 0.8, 1.3, 3.0])
def test_the_tail_is_chi_squares(degrees: int, times: float) -> None:
    expected = stats.chi2.sf(times * degrees, degrees)
    assert chi_square_tail(times * degrees, degrees) == pytest.approx(
        expected, rel=1e-9, abs=1e-300
    )


def test_counts_against_shares_are_pearsons_test() -> None:
    counts, shares = [30, 55, 15], [0.35, 0.5, 0.15]
    expected = stats.chisquare(counts, [35, 50, 15]).pvalue
    assert drawn_by_chance(counts, shares) == pytest.approx(expected, rel=1e-9)
    # A cell that expects fewer than five is put to another.
    found = drawn_by_chance([30, 55, 8, 7], [0.35, 0.5, 0.11, 0.04])
    assert found == pytest.approx(stats.chisquare([30, 55, 15], [35, 50, 15]).pvalue, rel=1e-9)


def test_what_has_no_share_cannot_be_drawn_and_few_tell_nothing() -> None:
    assert drawn_by_chance([10, 1], [1.0, 0.0]) == 0.0
    assert drawn_by_chance([1, 1], [0.5, 0.5]) is None
    assert drawn_by_chance([0, 0], [0.5, 0.5]) is None
