"""Student's t and the normal distribution against scipy, an independent implementation."""

from __future__ import annotations

import numpy as np
import pytest
from nfslab.statistics.distributions import (
    MAX_DEGREES_OF_FREEDOM,
    critical_t,
    normal_cdf,
    normal_critical,
    two_sided_p,
)
from scipy import special, stats

DF = np.concatenate(
    [np.arange(1.0, 40), [63.9, 64, 64.1, 127, 128, 129, 999.5, 1e4, 1e5, 1e6], [1.01, 2.5, 17.776]]
)


def test_p_values_agree_with_scipy() -> None:
    t = np.concatenate([[1e-3], np.linspace(0.05, 40, 150), [1e3, 1e6]])[:, None]
    reference = 2 * stats.t.sf(t, DF)
    keep = reference > 1e-250
    np.testing.assert_allclose(two_sided_p(t, DF)[keep], reference[keep], rtol=1e-9)


def test_p_value_of_zero_is_one_and_of_infinity_zero() -> None:
    np.testing.assert_array_equal(two_sided_p([0.0, np.inf, -np.inf], 5), [1.0, 0.0, 0.0])


@pytest.mark.parametrize("alpha", [0.5, 0.2, 0.05, 0.01, 1e-4, 1e-7, 1e-10])
def test_critical_values_agree_with_scipy(alpha: float) -> None:
    np.testing.assert_allclose(critical_t(alpha, DF), stats.t.isf(alpha / 2, DF), rtol=1e-9)


def test_normal_distribution_agrees_with_scipy() -> None:
    z = np.linspace(-37, 9, 400)
    np.testing.assert_allclose(normal_cdf(z), special.ndtr(z), rtol=1e-12)
    assert normal_critical(0.05) == pytest.approx(1.959963984540054, rel=1e-12)


@pytest.mark.parametrize("df", [0.5, 0.0, -1.0, MAX_DEGREES_OF_FREEDOM * 1.01, np.nan])
def test_degrees_of_freedom_outside_the_limits_are_refused(df: float) -> None:
    with pytest.raises(ValueError, match="degrees of freedom"):
        two_sided_p(1.0, df)


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="not a number"):
        two_sided_p(np.nan, 5)
    with pytest.raises(ValueError, match="alpha"):
        critical_t(0.0, 5)
    with pytest.raises(ValueError, match="alpha"):
        critical_t(0.9, 5)
