"""Summaries of points: against the standard library, exact tables, scipy's bootstrap."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nfslab.statistics.intervals import order_coverage, order_ranks
from nfslab.statistics.outlier_marks import SHARE_OF_CLEAN_SAMPLES
from nfslab.statistics.summary import summarise, summarise_many
from scipy import stats

from tests.statistics.simulations import summary_coverage

TPS = [412.0, 398.5, 405.1, 409.9, 401.2, 377.0, 420.3]
positive = st.floats(1e-6, 1e9)


def test_moments_agree_with_the_standard_library() -> None:
    found = summarise(TPS)
    assert found.n == 7
    assert found.median == statistics.median(TPS)
    assert found.mean == pytest.approx(statistics.fmean(TPS), rel=1e-14)
    assert found.standard_deviation == pytest.approx(statistics.stdev(TPS), rel=1e-14)
    assert found.coefficient_of_variation == pytest.approx(
        statistics.stdev(TPS) / statistics.fmean(TPS), rel=1e-14
    )
    assert (found.minimum, found.maximum) == (377.0, 420.3)


def test_mean_interval_agrees_with_scipy() -> None:
    reference = stats.ttest_1samp(TPS, 0).confidence_interval(0.95)
    found = summarise(TPS).mean_interval
    assert found is not None
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), rel=1e-9)


def test_median_interval_of_few_values_is_t_on_logarithms() -> None:
    reference = stats.ttest_1samp(np.log(TPS[:5]), 0).confidence_interval(0.95)
    found = summarise(TPS[:5]).interval
    assert found is not None
    assert (found.low, found.high) == pytest.approx(
        (np.exp(reference.low), np.exp(reference.high)), rel=1e-9
    )
    assert found.method == "Student's t on logarithms"


def test_median_interval_lies_between_the_exact_ones() -> None:
    """n = 10: x(2) to x(9) covers 97.9 %, x(3) to x(8) 89.1 % (Conover's table, by binomial)."""
    assert order_coverage(10, 2) == pytest.approx(0.979, abs=5e-4)
    assert order_coverage(10, 3) == pytest.approx(0.891, abs=5e-4)
    assert order_coverage(5, 1) == 0.9375
    assert order_coverage(6, 1) == pytest.approx(0.969, abs=5e-4)
    values = np.sort(np.random.default_rng(1).random(10))
    found = summarise(values).interval
    assert found is not None
    assert values[1] < found.low < values[2]
    assert values[7] < found.high < values[8]


def test_interpolated_median_interval_by_hand() -> None:
    """Hettmansperger and Sheather's formula for n = 10, k = 2 with the values 0 to 9.

    Coverage 1 - 2 x 11/1024 = 0.978516 and 1 - 2 x 56/1024 = 0.890625, so I = 0.324444 and
    lambda = 8 I / (2 + 6 I) = 0.657658: from 1 + lambda to 8 - lambda.
    """
    found = summarise(range(10)).interval
    assert found is not None
    assert (found.low, found.high) == pytest.approx((1.657658, 7.342342), abs=1e-6)


@pytest.mark.parametrize("n", [6, 9, 40, 999, 1001, 5000])
def test_order_ranks_agree_with_scipys_binomial(n: int) -> None:
    found = order_ranks(n, 0.95)
    assert found is not None
    k = found[0]
    assert 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) >= 0.95 - (1e-3 if n > 1000 else 1e-12)
    assert 1 - 2 * stats.binom.cdf(k, n, 0.5) < 0.95 + (1e-3 if n > 1000 else 0)


@pytest.mark.parametrize("values", [TPS, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]])
def test_bootstrap_agrees_with_scipys(values: list[float]) -> None:
    """The same percentile intervals, up to the chance of the resamples."""
    found = summarise(values, bootstrap_resamples=20_000)
    spread = float(np.ptp(values))
    for statistic, interval in (
        (np.mean, found.bootstrap_mean),
        (np.median, found.bootstrap_median),
    ):
        reference = stats.bootstrap(
            (np.array(values),), statistic, n_resamples=20_000, method="percentile", rng=7
        ).confidence_interval
        assert interval is not None
        assert interval.low == pytest.approx(reference.low, abs=0.02 * spread)
        assert interval.high == pytest.approx(reference.high, abs=0.02 * spread)


def test_bootstrap_depends_on_the_point_alone() -> None:
    rng = np.random.default_rng(4)
    values = rng.random(21)
    groups = np.repeat([0, 1, 2, 3], [5, 6, 5, 5])
    together = summarise_many(groups, values, n_groups=4)
    for k in range(4):
        alone = summarise(values[groups == k])
        assert together[k] == alone
    assert summarise(values, seed=1) != summarise(values, seed=2)


def test_groups_may_come_in_any_order_and_be_empty() -> None:
    values = np.array([1.0, 10.0, 2.0, 20.0, 3.0])
    found = summarise_many([0, 2, 0, 2, 0], values, n_groups=4)
    assert [summary.n for summary in found] == [3, 0, 2, 0]
    assert [summary.median for summary in found] == [2.0, None, 15.0, None]


def test_no_value_and_one_value() -> None:
    nothing = summarise([])
    assert nothing.n == 0
    assert nothing.median is nothing.interval is nothing.standard_deviation is None
    one = summarise([5.0])
    assert (one.n, one.median, one.mean) == (1, 5.0, 5.0)
    assert one.interval is one.mean_interval is one.bootstrap_mean is None
    assert one.standard_deviation is one.coefficient_of_variation is None
    assert len(one.notes) == 1


def test_odd_values_are_listed_and_never_vanish() -> None:
    found = summarise([5.0, float("nan"), 6.0, -7.0, float("inf"), 5.5])
    assert found.n == 4
    assert found.not_finite == (1, 4)
    assert found.negative == (3,)
    assert found.minimum == -7.0
    assert any(note.startswith("2 of 6 ") for note in found.notes)
    assert any(note.startswith("1 of 4 ") for note in found.notes)
    assert len(summarise([float("nan")]).notes) == 1


def test_equal_values_have_no_spread_and_say_so() -> None:
    found = summarise([0.1] * 7)
    assert found.standard_deviation == 0.0
    assert found.interval is not None
    assert found.interval.low == found.interval.high == 0.1
    assert found.outliers == ()
    assert len(found.notes) == 1


def test_an_outlier_is_marked_and_kept() -> None:
    values = [100.0, 101.0, 99.5, 100.5, 250.0, 99.0, 100.2]
    found = summarise(values)
    assert found.outliers == (4,)
    assert found.maximum == 250.0
    assert found.n == 7


def test_outlier_index_counts_in_the_order_given_with_gaps() -> None:
    values = [float("nan"), 100.0, 101.0, 99.5, 250.0, 100.5, 99.0, 100.2]
    assert summarise(values).outliers == (4,)


def test_outlier_among_equal_values() -> None:
    assert summarise([0.0] * 9 + [5.0]).outliers == (9,)
    assert summarise([0.0] * 10).outliers == ()
    assert summarise([0.0, 5.0]).outliers == ()


@pytest.mark.parametrize("n", [3, 4, 5, 9, 11, 30, 200])
def test_share_of_clean_samples_with_a_mark(n: int) -> None:
    rng = np.random.default_rng(n)
    experiments = 3_000 if n < 50 else 500
    values = rng.standard_normal(experiments * n)
    found = summarise_many(
        np.repeat(np.arange(experiments), n), values, n_groups=experiments, bootstrap_resamples=0
    )
    marked = sum(bool(summary.outliers) for summary in found)
    # 2 percentage points: what the fitted limits promise; the rest is chance (1 in 10^6).
    low = stats.binom.ppf(5e-7, experiments, SHARE_OF_CLEAN_SAMPLES - 0.01)
    high = stats.binom.ppf(1 - 5e-7, experiments, SHARE_OF_CLEAN_SAMPLES + 0.02)
    assert low <= marked <= high


@pytest.mark.parametrize("kind", ["normal, 5 %", "lognormal, 50 %", "heavy tails (t3)"])
@pytest.mark.parametrize("n", [3, 6, 20])
def test_intervals_keep_their_coverage(kind: str, n: int) -> None:
    """The interval that is shown: 95 % or (heavy tails, n < 6) a little more."""
    experiments = 2_000
    found = summary_coverage(kind, n, experiments=experiments, bootstrap=False)
    assert found["interval"] >= stats.binom.ppf(1e-6, experiments, 0.948) / experiments
    assert found["interval"] <= stats.binom.ppf(1 - 1e-6, experiments, 0.965) / experiments
    if kind == "normal, 5 %":
        low, high = stats.binom.ppf([1e-6, 1 - 1e-6], experiments, 0.95) / experiments
        assert low <= found["mean_interval"] <= high


def test_bootstrap_is_as_narrow_as_the_page_says() -> None:
    """n = 5: 83 % for the mean. Were it near 95 %, the page and the choice would be wrong."""
    found = summary_coverage("normal, 5 %", 5, experiments=1_000)
    assert 0.78 < found["bootstrap_mean"] < 0.87


@settings(deadline=None)
@given(st.lists(positive, min_size=3, max_size=12), st.sampled_from([0.001, 0.5, 2.0, 1024.0]))
def test_changing_the_unit_changes_the_summary_alike(values: list[float], scale: float) -> None:
    plain, scaled = summarise(values), summarise([v * scale for v in values])
    for name in ("median", "mean", "standard_deviation", "minimum", "maximum"):
        assert getattr(scaled, name) == pytest.approx(
            getattr(plain, name) * scale, rel=1e-9, abs=1e-12 * scale * max(values)
        )
    for name in ("interval", "mean_interval", "bootstrap_mean", "bootstrap_median"):
        one, other = getattr(plain, name), getattr(scaled, name)
        assert one.method == other.method
        assert (other.low, other.high) == pytest.approx(
            (one.low * scale, one.high * scale), rel=1e-9, abs=1e-9 * scale * max(values)
        )


@settings(deadline=None)
@given(st.permutations(TPS))
def test_order_does_not_matter(values: list[float]) -> None:
    one, other = summarise(TPS), summarise(values)
    assert other.interval == one.interval
    assert other.bootstrap_median == one.bootstrap_median
    assert other.mean == pytest.approx(one.mean, rel=1e-14)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="same length"):
        summarise_many([0, 1], [1.0], n_groups=2)
    with pytest.raises(ValueError, match="groups must be"):
        summarise_many([0, 2], [1.0, 2.0], n_groups=2)
    with pytest.raises(ValueError, match="confidence"):
        summarise([1.0, 2.0], confidence=95)


def test_two_values_have_no_interval() -> None:
    """Student's t with one degree of freedom: 12.7 standard errors a side, twelve decades seen."""
    two = summarise([1.0, 900.0])
    assert (two.median, two.n) == (450.5, 2)
    assert two.standard_deviation is not None
    assert two.interval is two.mean_interval is None
    assert two.bootstrap_mean is two.bootstrap_median is None
