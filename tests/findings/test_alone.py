"""A point alone: its largest part by name, what the laws bound, and the answers that name none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nfslab.findings.alone import Alone
from nfslab.findings.answer import answer, contradictions, together
from nfslab.findings.base import Finding
from nfslab.findings.calls import Call
from nfslab.findings.registry import findings_alone
from nfslab.results.records import LoadShape

from tests.findings.pairs import US, anatomy, calls_pair, compared_sides

USUAL_NS = {"client queue": 10 * US, "way there": 40 * US, "service": 30 * US, "way back": 40 * US}
LONG_NS = 2000 * US


def point(calls: dict[str, Call]) -> Alone:
    """An operation on files that does these calls."""
    made = calls_pair(calls, calls, noise=0.02, blocks=5, rng=np.random.default_rng(1))
    return Alone(made.base, made.sides[0])


def calls(stage: str, **longer: float) -> dict[str, Call]:
    """GETATTR and WRITE, one an operation each, longer in that stage by ns."""
    sizes = {"GETATTR": 250.0, "WRITE": 8500.0}
    return {
        name: Call(1.0, size, USUAL_NS | {stage: USUAL_NS.get(stage, 0) + longer.get(name, 0.0)})
        for name, size in sizes.items()
    }


CAUSES = {
    "server_cpu": ("service", {"GETATTR": LONG_NS, "WRITE": LONG_NS}),
    "server_disk": ("service", {"WRITE": LONG_NS}),
    "wire_latency": ("way back", {"GETATTR": LONG_NS, "WRITE": LONG_NS}),
    "bandwidth": ("way back", {"WRITE": LONG_NS}),
    "server_threads": ("server queue", {"GETATTR": LONG_NS, "WRITE": LONG_NS}),
    "slots": ("client queue", {"GETATTR": LONG_NS, "WRITE": LONG_NS}),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_largest_part_has_its_cause(cause: str) -> None:
    stage, longer = CAUSES[cause]
    found = findings_alone(point(calls(stage, **longer)))
    assert found[0].cause == cause
    stages = ("way there", "way back") if "way" in stage else (stage,)
    whole_ns = sum(longer.values()) + 2 * sum(USUAL_NS.get(one, 0.0) for one in stages)
    assert found[0].effect_ns == pytest.approx(whole_ns, rel=0.03)


def test_a_stage_without_the_calls_that_tell_is_not_named() -> None:
    """WRITEs alone: neither processor or disk, nor distance or bandwidth."""
    for stage in ("service", "way back"):
        only = {"WRITE": Call(1.0, 8500.0, USUAL_NS | {stage: LONG_NS})}
        assert findings_alone(point(only)) == []


def alone(parts: dict[str, float], *, runs: int = 4, **record: Any) -> Alone:
    sides = {label: [anatomy(parts, frozenset())] * runs for label in ("base", "new")}
    made = compared_sides(sides, records={"base": record})
    return Alone(made.base, made.sides[0])


def test_amdahls_law_bounds_what_removal_gives() -> None:
    first = findings_alone(alone({"log_sync": 600 * US, "client": 200 * US}))[0]
    assert (first.cause, first.effect_ns, first.confidence) == ("log_sync", 600 * US, "high")
    assert "4 times" in first.without_it  # 800 us / 200 us


def test_two_runs_are_not_sure() -> None:
    first = findings_alone(alone({"log_sync": 600 * US, "client": 200 * US}, runs=2))[0]
    assert (first.confidence, first.interval_ns) == ("low", (0.0, 800 * US))


def test_utilisation_of_workers_is_rate_times_service() -> None:
    """Two threads of load, 100 us of service in an operation of 250 us, one worker: 80 %."""
    nfs = {"served": {"model": {"threads": 1}}}
    made = point({"WRITE": Call(1.0, 8500.0, {"service": 100 * US, "way back": 100 * US})})
    for run in made.runs:
        run.run.record.places["data"] = SimpleNamespace(facts={"nfs": nfs})  # type: ignore[assignment]
        run.run.record.load = LoadShape(kind="closed", clients=2)
    assert made.workers_busy() == pytest.approx(0.8, rel=0.02)


def finding(cause: str, ns: float, *paths: str, because: str = "") -> Finding:
    return Finding(cause, "", ns, (ns, ns), "high", "", (), "", paths or (cause,), because)


def test_answers() -> None:
    three = [finding("a", 30), finding("b", 25), finding("c", 20)]
    assert answer([finding("a", 60)], 100, ()) == ""
    assert answer(three, 100, ()) == "No single cause: a, b and c share it."
    few = answer([finding("a", 20)], 100, ["postgres", "fsync"])
    assert few.endswith('run again with collectors = ["postgres", "fsync"].')
    # The same time told twice is not two shares of it.
    twice = [finding("a", 30, "storage"), finding("b", 30, "storage/service")]
    assert "No single cause" not in answer(twice, 100, ())


def test_two_reasons_for_the_same_time_contradict() -> None:
    one, other = (finding(name, 10, "log_sync", because=name) for name in ("a", "b"))
    assert contradictions([one, other, finding("c", 5, "log_sync")]) == [("a", "b")]


def test_causes_of_the_same_time_that_come_to_more_than_the_whole_do_not_add_up() -> None:
    twice = [finding("a", 60, "storage"), finding("b", 50, "storage/service"), finding("c", 5)]
    assert together(twice, 100).startswith("a and b are ")
    assert together(twice, 115) == "", "they may be read as shares of it"
    assert together([finding("a", 60), finding("b", 50)], 100) == "", "each has its own"
    one, other = (finding(name, 60, "log_sync", because=name) for name in ("a", "b"))
    assert together([one, other], 100) == "", "told as a contradiction"
