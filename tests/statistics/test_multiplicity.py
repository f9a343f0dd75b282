"""Holm's correction: against a published example and its defining properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nfslab.statistics.comparison import compare_many
from nfslab.statistics.multiplicity import holm
from nfslab.statistics.observations import Observations

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=30)


def test_example_of_holms_method() -> None:
    """Four tests with p = 0.01, 0.04, 0.03, 0.005 (worked on Wikipedia's page of the method)."""
    adjusted, level = holm([0.01, 0.04, 0.03, 0.005], 0.05)
    np.testing.assert_allclose(adjusted, [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(level, [0.05 / 3, 0.05 / 2, 0.05 / 2, 0.05 / 4])


@settings(deadline=None)
@given(p_values)
def test_adjusted_values_are_those_of_the_definition(p: list[float]) -> None:
    adjusted, _ = holm(p)
    m = len(p)
    ordered = sorted(range(m), key=lambda i: p[i])
    largest = 0.0
    for position, i in enumerate(ordered):
        largest = max(largest, min(1.0, (m - position) * p[i]))
        assert adjusted[i] == pytest.approx(largest, rel=1e-12)


@settings(deadline=None)
@given(p_values, st.sampled_from([0.01, 0.05, 0.2]))
def test_level_and_adjusted_value_say_the_same(p: list[float], alpha: float) -> None:
    """At its level a comparison is significant exactly when its adjusted p is below alpha."""
    adjusted, level = holm(p, alpha)
    for raw, after, each in zip(p, adjusted, level, strict=True):
        if abs(after - alpha) > 1e-12:
            assert (raw < each) == (after < alpha)
        assert alpha / len(p) * (1 - 1e-12) <= each <= alpha


def test_comparisons_without_a_test_are_not_counted() -> None:
    adjusted, level = holm([0.02, np.nan, 0.02], 0.05)
    np.testing.assert_allclose(adjusted, [0.04, np.nan, 0.04])
    assert np.isnan(level[1])
    assert holm([])[0].size == 0
    assert np.isnan(holm([np.nan])[0]).all()


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="0 to 1"):
        holm([1.5])
    with pytest.raises(ValueError, match="alpha"):
        holm([0.5], 5)


def test_in_a_family_every_interval_agrees_with_its_word() -> None:
    rng = np.random.default_rng(8)
    members = 400
    groups, blocks = np.repeat(np.arange(members), 5), np.tile(np.arange(5), members)
    shift = np.repeat(rng.exponential(0.2, members), 5)
    base = np.exp(0.05 * rng.standard_normal(members * 5))
    new = np.exp(shift + 0.05 * rng.standard_normal(members * 5))
    found = compare_many(
        Observations.of(base, groups=groups, blocks=blocks),
        Observations.of(new, groups=groups, blocks=blocks),
        n_groups=members,
        better="higher",
    )
    assert 0 < sum(c.shown for c in found) < members
    for c in found:
        assert c.n_comparisons == members
        assert c.interval is not None
        assert c.interval_unadjusted is not None
        assert c.shown == (c.p_adjusted < 0.05) == (not c.interval.contains(1.0))
        assert c.p_adjusted >= c.p_value
        assert c.interval.confidence >= c.interval_unadjusted.confidence == 0.95
        assert c.interval.low <= c.interval_unadjusted.low
        assert c.interval.high >= c.interval_unadjusted.high
