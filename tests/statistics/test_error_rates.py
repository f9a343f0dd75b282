"""How often do the words err? Simulated A/A and planted differences, several thousand each.

Each share is held against the binomial limits (1 in 10^6) around the stated rate, so that a
failure means a wrong method and not bad luck; seeds are fixed besides.
"""

from __future__ import annotations

import numpy as np
import pytest
from nfslab.statistics.comparison import ALPHA, compare_many
from nfslab.statistics.observations import Observations
from scipy import stats

from tests.statistics.simulations import comparison_rates, family_rate

EXPERIMENTS = 2_000


def limits(rate: float, experiments: int = EXPERIMENTS) -> tuple[float, float]:
    low, high = stats.binom.ppf([5e-7, 1 - 5e-7], experiments, rate) / experiments
    return float(low), float(high)


@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize("drift", [0.0, 0.2])
@pytest.mark.parametrize("kind", ["normal, 5 %", "lognormal, 20 %"])
def test_a_against_a_is_declared_different_at_the_stated_rate(
    kind: str, n: int, drift: float
) -> None:
    declared, covered = comparison_rates(kind, n, experiments=EXPERIMENTS, drift=drift)
    low, high = limits(ALPHA)
    assert low <= declared <= high
    assert declared + covered == pytest.approx(1.0)


@pytest.mark.parametrize("n", [3, 10])
@pytest.mark.parametrize("kind", ["heavy tails (t3)", "1 in 10 slow", "1 + exponential"])
def test_a_against_a_never_exceeds_the_stated_rate(kind: str, n: int) -> None:
    declared, _ = comparison_rates(kind, n, experiments=EXPERIMENTS, drift=0.2)
    assert 0.005 < declared <= limits(ALPHA)[1]


@pytest.mark.parametrize("n", [3, 10])
def test_unpaired_a_against_a(n: int) -> None:
    """Welch is a little conservative for three against three (3.5 %), never above 5 %."""
    declared, covered = comparison_rates(
        "lognormal, 20 %", n, experiments=EXPERIMENTS, paired=False
    )
    assert limits(0.033)[0] <= declared <= limits(ALPHA)[1]
    assert covered >= limits(1 - ALPHA)[0]


@pytest.mark.parametrize(
    ("correlation", "n", "rate"),
    [(0.0, 5, 0.04), (0.5, 10, 0.24), (0.9, 3, 0.19)],
)
def test_unpaired_a_against_a_of_runs_that_resemble_their_neighbours(
    correlation: float, n: int, rate: float
) -> None:
    """The rates that docs/decisions/statistics.md states: far above 5 %, as `compare` warns."""
    rng = np.random.default_rng(17)
    noise = rng.standard_normal((2 * n, EXPERIMENTS))
    for run in range(1, 2 * n):
        fresh = np.sqrt(1 - correlation**2) * noise[run]
        noise[run] = correlation * noise[run - 1] + fresh
    values, groups = np.exp(0.05 * noise), np.tile(np.arange(EXPERIMENTS), n)
    base, new = (Observations.of(side, groups=groups) for side in (values[:n], values[n:]))
    found = compare_many(base, new, n_groups=EXPERIMENTS, better="higher", correct=False)
    declared = sum(result.shown for result in found) / EXPERIMENTS
    assert limits(rate - 0.005)[0] <= declared <= limits(rate + 0.005)[1]


@pytest.mark.parametrize("ratio", [0.5, 1.1])
@pytest.mark.parametrize("kind", ["normal, 5 %", "heavy tails (t3)"])
def test_interval_holds_the_planted_ratio(kind: str, ratio: float) -> None:
    for n in (3, 10):
        _, covered = comparison_rates(kind, n, experiments=EXPERIMENTS, ratio=ratio, drift=0.2)
        assert limits(0.95)[0] <= covered <= limits(0.965)[1]


def test_planted_difference_is_found_despite_drift() -> None:
    """10 % under 5 % noise and strong drift, ten blocks: nearly always; unpaired: hardly."""
    options = {"experiments": EXPERIMENTS, "ratio": 1.1, "drift": 0.2}
    assert comparison_rates("normal, 5 %", 10, **options)[0] > 0.94
    assert comparison_rates("normal, 5 %", 10, paired=False, **options)[0] < 0.1


@pytest.mark.parametrize("n", [3, 10])
def test_smallest_detectable_difference_is_detected_four_times_in_five(n: int) -> None:
    """Plant what power analysis says for the known spread; count how often it is shown."""
    sigma = 0.05
    degrees = n - 1
    critical = stats.t.isf(ALPHA / 2, degrees)
    deltas = np.linspace(1, 8, 7001)
    power = stats.nct.sf(critical, degrees, deltas)
    delta = float(deltas[np.argmin(np.abs(power - 0.8))])
    rng = np.random.default_rng(n)
    groups, blocks = np.repeat(np.arange(EXPERIMENTS), n), np.tile(np.arange(n), EXPERIMENTS)
    error = sigma * np.sqrt(2 / n)
    base = np.exp(sigma * rng.standard_normal(EXPERIMENTS * n))
    new = np.exp(delta * error + sigma * rng.standard_normal(EXPERIMENTS * n))
    found = compare_many(
        Observations.of(base, groups=groups, blocks=blocks),
        Observations.of(new, groups=groups, blocks=blocks),
        n_groups=EXPERIMENTS,
        better="higher",
        correct=False,
    )
    low, high = limits(0.8)
    assert low <= sum(c.shown for c in found) / EXPERIMENTS <= high
    # and what a comparison reports is that same delta times its own standard error
    reported = [np.log(c.smallest_detectable) / c.standard_error for c in found[:50]]
    np.testing.assert_allclose(reported, delta, rtol=2e-3)


def test_a_family_with_any_false_difference_is_rare() -> None:
    families = 200
    rate = family_rate(10, 5, 5, families=families)
    assert rate <= limits(ALPHA, families)[1]
