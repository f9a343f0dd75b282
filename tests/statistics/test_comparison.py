"""Comparisons: against R's published examples, scipy, planted differences, symmetries."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nfslab.statistics.comparison import Comparison, compare_many
from nfslab.statistics.observations import Observations
from nfslab.statistics.verdicts import WORDS
from scipy import stats

from tests.statistics.two_sides import compare_blocked, compare_unpaired

# Student's "sleep" data as in R's documentation of t.test: extra hours with two drugs.
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
TEN = list(range(10))
BASE = [812.0, 790.1, 845.3, 801.7, 822.9]
NEW = [903.2, 861.0, 944.1, 899.0, 905.5]
FIVE = list(range(5))
values = st.lists(st.floats(1.0, 1e6), min_size=3, max_size=8)


def test_paired_test_of_rs_documentation() -> None:
    """t = -4.0621, df = 9, p = 0.002833, interval -2.4598858 to -0.7001142 (drug 1 - 2)."""
    found = compare_blocked(TEN, DRUG_1, TEN, DRUG_2, better="higher")
    assert found.scale == "difference"
    assert found.difference == pytest.approx(1.58)
    assert found.p_value == pytest.approx(0.002833, abs=5e-7)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (0.7001142, 2.4598858), abs=5e-8
    )
    assert found.verdict == "faster"
    assert found.degrees_of_freedom == 9


def test_welch_test_of_rs_documentation() -> None:
    """t = -1.8608, df = 17.776, p = 0.07939, interval -3.3654832 to 0.2054832."""
    found = compare_unpaired(DRUG_1, DRUG_2, better="higher")
    assert found.p_value == pytest.approx(0.07939, abs=5e-6)
    assert found.degrees_of_freedom == pytest.approx(17.776, abs=5e-4)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx(
        (-0.2054832, 3.3654832), abs=5e-8
    )
    assert found.verdict == "inconclusive"


def test_ratio_agrees_with_scipy_on_logarithms() -> None:
    reference = stats.ttest_rel(np.log(NEW), np.log(BASE))
    bounds = reference.confidence_interval(0.95)
    found = compare_blocked(FIVE, BASE, FIVE, NEW, better="higher")
    assert found.scale == "ratio"
    assert found.ratio == pytest.approx(stats.gmean(NEW) / stats.gmean(BASE), rel=1e-12)
    assert found.p_value == pytest.approx(reference.pvalue, rel=1e-9)
    assert found.interval is not None
    assert found.interval.low == pytest.approx(math.exp(bounds.low), rel=1e-9)
    assert found.interval.high == pytest.approx(math.exp(bounds.high), rel=1e-9)
    assert found.base == pytest.approx(stats.gmean(BASE))
    assert (found.n_base, found.n_new, found.n_pairs, found.n_unpaired) == (5, 5, 5, 0)
    assert found.notes == ()


def test_unpaired_ratio_agrees_with_scipy_on_logarithms() -> None:
    reference = stats.ttest_ind(np.log(NEW[:4]), np.log(BASE), equal_var=False)
    bounds = reference.confidence_interval(0.95)
    found = compare_unpaired(BASE, NEW[:4], better="higher")
    assert found.p_value == pytest.approx(reference.pvalue, rel=1e-9)
    assert found.degrees_of_freedom == pytest.approx(reference.df, rel=1e-9)
    assert found.interval is not None
    assert found.interval.high == pytest.approx(math.exp(bounds.high), rel=1e-9)
    assert found.n_pairs == 0


@pytest.mark.parametrize(
    ("better", "up", "down"),
    [("higher", "faster", "slower"), ("lower", "slower", "faster"), (None, "higher", "lower")],
)
def test_words_follow_the_direction_of_the_metric(better: str, up: str, down: str) -> None:
    assert compare_blocked(FIVE, BASE, FIVE, NEW, better=better).verdict == up
    assert compare_blocked(FIVE, NEW, FIVE, BASE, better=better).verdict == down
    assert compare_blocked(FIVE, BASE, FIVE, BASE, better=better).verdict == "inconclusive"


def test_pairs_are_formed_by_block_and_drift_cancels() -> None:
    """The same 2 % in every block, under a drift of a factor of three."""
    drift = np.array([1.0, 1.4, 2.0, 2.6, 3.0])
    noise = np.array([1.001, 0.999, 1.0, 1.002, 0.998])
    base, new = 100 * drift, 102 * drift * noise
    paired = compare_blocked(FIVE, base, FIVE[::-1], new[::-1], better="higher")
    assert paired.verdict == "faster"
    assert paired.ratio == pytest.approx(1.02, rel=1e-3)
    assert compare_unpaired(base, new, better="higher").verdict == "inconclusive"


def test_blocks_on_one_side_are_counted_and_left_out() -> None:
    found = compare_blocked([0, 1, 2, 3], [*BASE[:3], 1e9], [0, 1, 2, 7, 8], [*NEW[:3], 1, 1],
                            better="higher")  # fmt: skip
    alone = compare_blocked([0, 1, 2], BASE[:3], [0, 1, 2], NEW[:3], better="higher")
    assert found.n_unpaired == 3
    assert found.interval == alone.interval
    assert found.ratio == alone.ratio
    assert [note.split()[:2] for note in found.notes] == [["3", "blocks"]]


def test_fewer_than_two_common_blocks_fall_back_to_welch_and_say_so() -> None:
    found = compare_blocked([0, 1, 2], BASE[:3], [2, 3, 4], NEW[:3], better="higher")
    reference = compare_unpaired(BASE[:3], NEW[:3], better="higher")
    assert found.method == "Welch's t on logarithms"
    assert found.interval == reference.interval
    assert "1 blocks" in found.notes[0]


def test_repetitions_within_a_block_are_averaged() -> None:
    found = compare_blocked([0, 0, 1], [100.0, 400.0, 200.0], [0, 1], [220.0, 210.0], better=None)
    alone = compare_blocked([0, 1], [200.0, 200.0], [0, 1], [220.0, 210.0], better=None)
    assert found.ratio == pytest.approx(alone.ratio)
    assert found.n_repeated == 1
    assert found.n_base == 2
    assert any(note.startswith("1 repeated ") for note in found.notes)


def test_values_that_are_not_finite_are_counted_and_their_block_is_unpaired() -> None:
    found = compare_blocked(FIVE, [*BASE[:4], math.nan], FIVE, [math.inf, *NEW[1:]], better=None)
    assert found.n_not_finite == 2
    assert found.n_pairs == 3
    assert found.n_unpaired == 2


def test_zero_and_negative_values_are_compared_by_difference() -> None:
    found = compare_blocked(FIVE, [0, 3, 2, 1, 4], FIVE, [90, 94, 97, 88, 92], better="lower")
    assert found.ratio is None
    assert found.difference == pytest.approx(90.2)
    assert found.verdict == "slower"
    assert "zero or negative" in found.notes[0]


def test_one_value_or_two_have_unknown_significance() -> None:
    found = compare_blocked([0], [100.0], [0], [200.0], better="higher")
    assert found.verdict == "significance unknown (n=1)"
    assert found.ratio == pytest.approx(2.0, rel=1e-14)
    assert found.interval is found.p_value is found.smallest_detectable is None
    two = compare_blocked([0, 1], [100.0, 101.0], [0, 1], [200.0, 203.0], better="higher")
    assert two.verdict == "significance unknown (n=2)"
    assert two.ratio == pytest.approx(math.sqrt(2.0 * 203 / 101))
    assert two.interval is two.p_value is two.smallest_detectable is None
    one_sided = compare_unpaired(BASE, [900.0], better="higher")
    assert one_sided.verdict == "significance unknown (n=1)"
    assert one_sided.ratio == pytest.approx(900 / stats.gmean(BASE))


def test_nothing_measured_on_a_side() -> None:
    found = compare_blocked(FIVE, BASE, [], [], better="higher")
    assert found.verdict == "significance unknown (n=0)"
    assert found.ratio is None
    assert (found.n_base, found.n_new, found.n_unpaired) == (5, 0, 5)


def test_published_speed_ups_recompute_with_unknown_significance() -> None:
    """OSDL, DBT-2 under two kernels, 2003-01-17: 12.5 % cached, 18.4 % non-cached."""
    cached = compare_unpaired([4479], [5040], better="higher")
    other = compare_unpaired([1407.8], [1667.5], better="higher")
    assert [round(c.ratio, 3) for c in (cached, other)] == [1.125, 1.184]
    assert cached.verdict == other.verdict == "significance unknown (n=1)"


@pytest.mark.parametrize(
    ("n", "verdict"),
    [(3, "inconclusive"), (5, "inconclusive"), (6, "higher"), (9, "higher")],
)
def test_differences_without_spread_are_judged_by_sign_flips(n: int, verdict: str) -> None:
    """Counters that all rise by the same: t would claim p = 0 after two runs."""
    blocks = list(range(n))
    found = compare_blocked(blocks, [10] * n, blocks, [12] * n, better=None)
    assert found.p_value == 2.0 ** (1 - n)
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(1.2)
    assert (found.interval is None) == (verdict == "inconclusive")


def test_unpaired_values_without_spread_are_judged_by_permutation() -> None:
    found = compare_unpaired([10, 10, 10], [12, 12, 12], better=None)
    assert found.p_value == pytest.approx(2 / 20)
    assert found.verdict == "inconclusive"
    assert compare_unpaired([10] * 4, [12] * 4, better=None).p_value == pytest.approx(2 / 70)


def test_proportional_values_have_no_spread_despite_rounding() -> None:
    base = np.array([0.1, 0.7, 1.3, 2.9, 3.1])
    found = compare_blocked(FIVE, base, FIVE, base * 1.1, better="higher")
    assert found.method == "exact sign flips"
    assert found.standard_error == 0.0


def test_batch_equals_one_by_one() -> None:
    rng = np.random.default_rng(5)
    sizes = [0, 1, 2, 3, 5, 8]
    base_sets = [np.exp(rng.standard_normal(n)) for n in sizes]
    new_sets = [np.exp(rng.standard_normal(n)) for n in reversed(sizes)]
    base_sets[4][1] = -1.0
    new_sets[2][0] = math.nan

    def observed(sets: list[np.ndarray]) -> Observations:
        return Observations.of(
            np.concatenate(sets),
            groups=np.repeat(np.arange(6), [len(s) for s in sets]),
            blocks=np.concatenate([np.arange(len(s)) for s in sets]),
        )

    together = compare_many(
        observed(base_sets), observed(new_sets), n_groups=6, better="lower", correct=False
    )
    for k, (base, new) in enumerate(zip(base_sets, new_sets, strict=True)):
        alone = compare_blocked(range(len(base)), base, range(len(new)), new, better="lower")
        for name in Comparison.__slots__:
            one, other = getattr(together[k], name), getattr(alone, name)
            if isinstance(other, float):
                assert one == pytest.approx(other, rel=1e-12), name
            elif name in ("interval", "interval_unadjusted") and other is not None:
                assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-12)
            else:
                assert one == other, name


def test_a_family_shows_less_than_each_alone() -> None:
    rng = np.random.default_rng(6)
    groups, blocks = np.repeat(np.arange(12), 5), np.tile(np.arange(5), 12)
    base = Observations.of(np.exp(0.05 * rng.standard_normal(60)), groups=groups, blocks=blocks)
    shift = np.repeat(np.linspace(0, 0.4, 12), 5)
    new = Observations.of(
        np.exp(shift + 0.05 * rng.standard_normal(60)), groups=groups, blocks=blocks
    )
    at_once = compare_many(base, new, n_groups=12, better="higher")
    alone = compare_many(base, new, n_groups=12, better="higher", correct=False)
    assert 0 < sum(c.shown for c in at_once) < sum(c.shown for c in alone) <= 12


@settings(deadline=None)
@given(values, st.data())
def test_swapping_the_sides_inverts_the_ratio(base: list[float], data: st.DataObject) -> None:
    new = data.draw(st.lists(st.floats(1.0, 1e6), min_size=len(base), max_size=len(base)))
    blocks = range(len(base))
    one = compare_blocked(blocks, base, blocks, new, better="higher")
    other = compare_blocked(blocks, new, blocks, base, better="higher")
    opposite = {"faster": "slower", "slower": "faster"}
    assert other.verdict == opposite.get(one.verdict, one.verdict)
    assert one.ratio * other.ratio == pytest.approx(1.0, rel=1e-9)
    assert other.p_value == pytest.approx(one.p_value, rel=1e-9)
    assert (one.interval is None) == (other.interval is None)
    if one.interval is not None and math.isfinite(one.interval.high * other.interval.high):
        assert one.interval.low * other.interval.high == pytest.approx(1.0, rel=1e-6)


@settings(deadline=None)
@given(values, st.data(), st.sampled_from([1e-3, 0.5, 3.0, 1e6]))
def test_unit_of_the_metric_does_not_matter(
    base: list[float], data: st.DataObject, unit: float
) -> None:
    new = data.draw(st.lists(st.floats(1.0, 1e6), min_size=3, max_size=8))
    one = compare_unpaired(base, new, better="lower")
    other = compare_unpaired([v * unit for v in base], [v * unit for v in new], better="lower")
    assert other.ratio == pytest.approx(one.ratio, rel=1e-9)
    if one.standard_error > 1e-6:  # below, the rounding of the logarithms is what is compared
        assert other.standard_error == pytest.approx(one.standard_error, rel=1e-6)
        assert other.degrees_of_freedom == pytest.approx(one.degrees_of_freedom, rel=1e-3)


@settings(deadline=None)
@given(st.permutations(FIVE), st.integers(-(10**6), 10**6), st.integers(1, 1000))
def test_names_and_order_of_blocks_do_not_matter(order: list[int], first: int, gap: int) -> None:
    labels = [first + gap * k for k in range(5)]
    one = compare_blocked(FIVE, BASE, FIVE, NEW, better="higher")
    other = compare_blocked(
        labels, BASE, [labels[k] for k in order], [NEW[k] for k in order], better="higher"
    )
    assert other.verdict == one.verdict
    assert other.p_value == pytest.approx(one.p_value, rel=1e-9)
    assert other.ratio == pytest.approx(one.ratio, rel=1e-12)


@settings(deadline=None)
@given(values, values, st.sampled_from(["higher", "lower", None]), st.booleans())
def test_word_and_interval_agree_always(
    base: list[float], new: list[float], better: str, paired: bool
) -> None:
    if paired:
        found = compare_blocked(range(len(base)), base, range(len(new)), new, better=better)
    else:
        found = compare_unpaired(base, new, better=better)
    assert found.verdict in WORDS
    if found.interval is None:
        assert not found.shown
    else:
        assert found.shown == (not found.interval.contains(1.0))
        assert found.shown == (found.p_adjusted < found.alpha)
        assert found.interval.low <= found.ratio <= found.interval.high


def test_result_is_plain_json() -> None:
    for found in (
        compare_blocked(FIVE, BASE, FIVE, NEW, better="higher"),
        compare_unpaired([1], [2], better=None),
        compare_unpaired([], [], better=None),
        compare_unpaired([1e-300, 1e300], [1e300, 1e-300], better=None),  # unbounded interval
    ):
        plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
        assert set(plain) == set(Comparison.__slots__)
        assert plain["verdict"] == found.verdict


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="same length"):
        compare_blocked([0, 1], [1.0], [0], [1.0], better=None)
    with pytest.raises(ValueError, match="integers"):
        compare_blocked([0.5], [1.0], [0], [1.0], better=None)
    with pytest.raises(ValueError, match="better"):
        compare_unpaired([1.0], [1.0], better="faster")
    with pytest.raises(ValueError, match="groups must be"):
        compare_many(Observations.of([1.0], groups=[1]), Observations.of([]), n_groups=1,
                     better=None)  # fmt: skip
    with pytest.raises(ValueError, match="2 directions"):
        compare_many(Observations.of([1.0]), Observations.of([1.0]), n_groups=1,
                     better=["higher", None])  # fmt: skip
    with pytest.raises(ValueError, match="span"):
        compare_blocked([0, 2**62], [1.0, 1.0], [0], [1.0], better=None)


@pytest.mark.system
def test_comparing_does_not_import_scipy() -> None:
    """`scipy.special` costs more than `nfslab compare` may take in all."""
    code = (
        "import sys\n"
        "from nfslab.statistics import comparison, observations, summary\n"
        "from nfslab.statistics.checks import steady_state\n"
        "base, new = map(observations.Observations.of, ([1, 2, 3], [2, 3, 4]))\n"
        "comparison.compare_many(base, new, n_groups=1, better=None)\n"
        "summary.summarise([1, 2, 3, 4, 5, 6, 7])\n"
        "steady_state.check_steady_state(range(1, 40), 10**9)\n"
        "print('scipy' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
