"""Delays of several sizes: calls that lie in a row are counted, and wrong counts are refuted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nfslab.findings.confirm import Slope
from nfslab.findings.slopes import delay_ns, measured_slope

from tests.findings.pairs import within_chance

ONE_NS = 1e6
DELAYS_NS = {0: 0.0, 1: 5e5, 2: 1e6}
BLOCKS = 4


def runs(rng: np.random.Generator, *, in_a_row: float, noise: float) -> list[Any]:
    """An operation of 2 ms, of which so many calls wait one after the other; blocks differ."""
    made = []
    for block in range(BLOCKS):
        of_block = float(np.exp(rng.normal(0, 0.1)))
        for point, delay in DELAYS_NS.items():
            mean = (2e6 + in_a_row * delay) * of_block * float(np.exp(rng.normal(0, noise)))
            facts = SimpleNamespace(mean_ns=mean)
            made.append(SimpleNamespace(point=point, block=block, facts=facts))
    return made


def predicted(calls: float) -> Slope:
    """Known to a tenth."""
    ends = (0.9 * calls, 1.1 * calls)
    return Slope("log_sync", "syncs", calls, ends, ONE_NS, "workload.x", ("0us", "500us", "1000us"))


def test_without_noise_the_slope_is_the_number_of_calls() -> None:
    """Also where a block is slower as a whole, and where a run of one is missing."""
    rng = np.random.default_rng(1)
    same = runs(rng, in_a_row=0.0, noise=0.0)
    for run in same:
        run.facts.mean_ns = 2e6 * (1 + run.block) + 3.0 * DELAYS_NS[run.point]
    found = measured_slope(same[:-1], DELAYS_NS)
    assert found is not None
    assert found[0] == pytest.approx(3.0)
    assert found[1] == pytest.approx((3.0, 3.0))
    assert measured_slope(same[:3], DELAYS_NS) is None, "one block has no interval"


@pytest.mark.parametrize(
    ("in_a_row", "claimed", "outcome"),
    [
        (1.0, 1.0, "confirmed"),
        (2.5, 2.5, "confirmed"),
        (1.0, 2.5, "refuted"),  # the anatomy claims more than there is
        (0.0, 1.0, "refuted"),  # a part that nothing waits for
        (2.5, 1.0, "refuted"),
    ],
)
def test_what_is_true_is_decided(in_a_row: float, claimed: float, outcome: str) -> None:
    rng = np.random.default_rng(20261124)
    rounds = 100
    decided = [
        predicted(claimed).decide(
            measured_slope(runs(rng, in_a_row=in_a_row, noise=0.02), DELAYS_NS)
        )
        for _ in range(rounds)
    ]
    assert decided.count(outcome) >= within_chance(0.95, rounds)
    if outcome == "confirmed":
        assert "refuted" not in decided[:20]


def test_noise_decides_nothing() -> None:
    rng = np.random.default_rng(7)
    found = measured_slope(runs(rng, in_a_row=1.0, noise=1.0), DELAYS_NS)
    assert predicted(1.0).decide(found) == "not decided"
    assert predicted(1.0).decide(None) == "not decided"


@pytest.mark.parametrize(
    ("value", "ns"),
    [(None, 0.0), (0.002, 2e6), ("WRITE:500us", 5e5), ("0us", 0.0), ("COMMIT:2ms", 2e6)],
)
def test_a_delay_is_read_as_the_experiment_has_it(value: Any, ns: float) -> None:
    assert delay_ns(value) == ns
