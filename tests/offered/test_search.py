"""The search for the highest load, against servers whose answer is known exactly."""

from __future__ import annotations

import math

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


def test_goals() -> None:
    metrics = {"response_mean_ms": 5.0, "response_p99_ms": 20.0, "saturated": 0.0}
    assert goal("mean<10ms").verdict(metrics, valid=True) == "good"
    assert goal("mean < 5ms").verdict(metrics, valid=True) == "bad"
    assert goal("p99<20ms").verdict(metrics, valid=True) == "bad"
    assert goal("p99<21ms").verdict(metrics, valid=True) == "good"
    assert goal("p99<21ms").verdict(metrics | {"saturated": 1.0}, valid=True) == "bad"
    assert goal("p99<21ms").verdict(metrics, valid=False) == "invalid"
    assert goal("p99.9<1s").verdict(metrics, valid=True) == "bad", "nothing was answered"
    assert goal("p99.9<1s").verdict(metrics | {"response_p999_ms": 30.0}, valid=True) == "good"
    assert str(goal("p99.9<20ms")) == "p99.9 < 20 ms"
    for wrong in ("p98<1ms", "mean>1ms", "mean<0", "mean<fast", "10ms"):
        with pytest.raises(ValueError, match=r"no goal|above 0|not a duration"):
            goal(wrong)
