"""The search for the highest load, against servers whose answer is known exactly."""

from __future__ import annotations

import math
from typing import Any

import pytest
from nfslab.offered.search import Search, Verdict, goal


def found(capacity: float, start: float, precision: float, limit: float = math.inf) -> Search:
    """A server that is good below `capacity`, a generator that ends at `limit`."""
    search = Search(start, precision)
    while (load := search.next_load()) is not None:
        verdict: Verdict = "invalid" if load > limit else "good" if load < capacity else "bad"
        search.tell(load, verdict)
    return search


@pytest.mark.parametrize("capacity", [7.0, 900.0, 1000.5, 31_234.5, 2e6])
@pytest.mark.parametrize("start", [1.0, 1000.0, 50_000.0])
@pytest.mark.parametrize("precision", [0.2, 0.05, 0.01])
def test_it_is_found_as_precisely_as_asked(capacity: float, start: float, precision: float) -> None:
    search = found(capacity, start, precision)
    assert search.good is not None
    assert search.bad is not None
    assert search.good < capacity <= search.bad <= search.good * (1 + precision)
    assert not search.bounded_by_generator
    # Doublings to get there, then halvings of a factor of two.
    way = abs(math.log2(capacity / start)) + 2
    assert len(search.told) <= way + math.ceil(math.log2(math.log(2) / math.log1p(precision))) + 1


def test_the_generators_limit_is_no_answer() -> None:
    search = found(capacity=1e6, start=1000, precision=0.05, limit=20_000)
    assert search.bounded_by_generator
    assert search.good is not None
    assert search.good <= 20_000 < search.good * 1.05 * 1.001


def test_a_server_that_is_never_good_ends_it() -> None:
    search = found(capacity=0.0, start=1000, precision=0.05)
    assert search.good is None
    assert len(search.told) < 15


def report(**changed: Any) -> dict[str, Any]:
    response = {"mean_ns": 5e6, "p99_ns": 20_000_000}
    whole = {"valid": True, "offered_ops_per_s": 100.0, "achieved_ops_per_s": 99.0}
    whole |= {"plan": {"load": {"mode": "open"}}, "arrivals": 1000}
    whole |= {"window_start_ns": 5 * 10**9, "window_end_ns": 15 * 10**9}
    return whole | {"response": response} | changed


def test_goals() -> None:
    assert goal("mean<10ms").verdict(report()) == "good"
    assert goal("mean < 5ms").verdict(report()) == "bad"
    assert goal("p99<20ms").verdict(report()) == "bad"
    assert goal("p99<21ms").verdict(report()) == "good"
    assert goal("p99<21ms").verdict(report(achieved_ops_per_s=98.0)) == "good"
    assert goal("p99<21ms").verdict(report(achieved_ops_per_s=97.0)) == "bad"
    assert goal("p99<21ms").verdict(report(valid=False)) == "invalid"


def test_a_window_in_which_less_arrived_than_was_offered_is_no_miss() -> None:
    """97 a second were achieved of 100 offered, and all of what came."""
    few = report(achieved_ops_per_s=97.0, arrivals=970)
    assert goal("p99<21ms").verdict(few) == "good"
    assert goal("p99<20ms").verdict(few) == "bad", "the response time still counts"
    # Processes that wait for answers send less because answers come late.
    closed = few | {"plan": {"load": {"mode": "closed"}}, "answered": 97_000}
    assert goal("p99<21ms").verdict(closed) == "bad"
    assert goal("p99<21ms").verdict(closed | {"answered": 970}) == "good", "or by chance"
    assert goal("mean<10ms").verdict(report(response={"mean_ns": None})) == "bad"
    assert str(goal("p99.9<20ms")) == "p99.9 < 20 ms"
    for wrong in ("p98<1ms", "mean>1ms", "mean<0", "mean<fast", "10ms"):
        with pytest.raises(ValueError, match=r"no goal|above 0|not a duration"):
            goal(wrong)
