"""Findings: each cause where it was planted, none where nothing was, effects within intervals."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nfslab.findings.alone import Alone
from nfslab.findings.answer import answer, contradictions, together
from nfslab.findings.base import Finding, sure_of
from nfslab.findings.calls import Call
from nfslab.findings.registry import findings_alone, findings_of
from nfslab.results.records import LoadShape

from tests.findings.pairs import US, anatomy, calls_pair, compared_sides, pair, within_chance

USUAL = {
    "wal_fsync": 300 * US, "group_commit_wait": 200 * US, "wal_write": 30 * US,
    "buffer_read": 100 * US, "row_lock_waits": 100 * US, "lwlock_waits": 40 * US,
    "running/run_queue": 60 * US, "running/on_cpu": 200 * US, "client": 400 * US,
}  # fmt: skip
PLANTED = {
    "data_reads": "buffer_read",
    "database_locks": "lwlock_waits",
    "log_sync": "wal_fsync",
    "row_locks": "row_lock_waits",
    "run_queue": "running/run_queue",
}
"""Cause -> the part that is made longer."""
LONGER_NS = 600 * US
NOISE = 0.05
BLOCKS = 6


@pytest.mark.parametrize("cause", sorted(PLANTED))
def test_the_planted_cause_comes_first_with_its_size(cause: str) -> None:
    rng = np.random.default_rng(20261123)
    first = inside = 0
    rounds = 12
    for _ in range(rounds):
        new = USUAL | {PLANTED[cause]: USUAL[PLANTED[cause]] + LONGER_NS}
        found = findings_of(pair(USUAL, new, noise=NOISE, blocks=BLOCKS, rng=rng))
        if found and found[0].cause == cause:
            first += 1
            low, high = found[0].interval_ns
            inside += low <= LONGER_NS <= high
    assert first >= rounds - 1
    assert inside >= within_chance(0.95, first)


def test_a_against_a_names_nothing() -> None:
    """At most one in twenty; the whole's difference has to be shown first."""
    rng = np.random.default_rng(7)
    rounds = 40
    named = sum(
        bool(findings_of(pair(USUAL, USUAL, noise=0.05, blocks=4, rng=rng))) for _ in range(rounds)
    )
    assert named <= 0.05 * rounds


def test_where_the_metric_shows_nothing_nothing_is_named() -> None:
    """The verdict and the findings never contradict each other."""
    new = USUAL | {"row_lock_waits": USUAL["row_lock_waits"] + LONGER_NS}
    rng = np.random.default_rng(11)
    assert findings_of(pair(USUAL, new, noise=0.02, blocks=6, rng=rng, shown=False)) == []


def test_a_faster_point_has_no_finding() -> None:
    rng = np.random.default_rng(3)
    less = {path: ns / 2 for path, ns in USUAL.items()}
    assert findings_of(pair(USUAL, less, noise=0.02, blocks=6, rng=rng)) == []


def test_a_cause_has_no_more_than_the_whole_difference() -> None:
    """Its part grew by 0.7 ms, and another became 0.3 ms shorter, because of it or not."""
    new = USUAL | {"wal_fsync": USUAL["wal_fsync"] + 700 * US, "client": USUAL["client"] - 300 * US}
    first, *_ = findings_of(pair(USUAL, new, noise=0.02, blocks=6, rng=np.random.default_rng(13)))
    assert first.cause == "log_sync"
    assert first.effect_ns == pytest.approx(400 * US, rel=0.15)
    assert first.interval_ns[0] <= 400 * US < 700 * US <= first.interval_ns[1]
    assert any("shorter" in one for one in first.evidence)


def test_what_was_sampled_is_less_sure_and_wider() -> None:
    new = USUAL | {"row_lock_waits": USUAL["row_lock_waits"] + LONGER_NS}
    sides = [
        findings_of(
            pair(USUAL, new, noise=0.02, blocks=6, rng=np.random.default_rng(5), sampled=sampled)
        )[0]
        for sampled in (frozenset[str](), frozenset({"row_lock_waits"}))
    ]
    widths = [one.interval_ns[1] - one.interval_ns[0] for one in sides]
    assert [one.confidence for one in sides] == ["high", "medium"]
    assert widths[1] >= widths[0] + 2 * 0.4 * 600 * US


@pytest.mark.parametrize(("cause", "own_us"), [("log_sync", 700), ("data_reads", 600)])
def test_who_makes_others_wait_longer_may_have_their_waits_too(cause: str, own_us: int) -> None:
    """A row is locked until its transaction ends: the whole 1.0 ms may be of the planted 0.6 ms.
    A group-commit wait is of the log's, and of no one's who waits for a row."""
    path, whole_ns = PLANTED[cause], LONGER_NS + 400 * US
    longer = {path: USUAL[path] + LONGER_NS, "row_lock_waits": USUAL["row_lock_waits"] + 300 * US,
              "group_commit_wait": USUAL["group_commit_wait"] + 100 * US}  # fmt: skip
    found = findings_of(
        pair(USUAL, USUAL | longer, noise=0.01, blocks=6, rng=np.random.default_rng(17))
    )
    by_cause = {one.cause: one for one in found}
    first, locks = by_cause[cause], by_cause["row_locks"]
    assert first is found[0]
    assert first.effect_ns == pytest.approx(own_us * US, rel=0.1)
    assert first.interval_ns[1] == pytest.approx(whole_ns, rel=0.1)
    assert any("locks" in one for one in first.evidence)
    assert locks.interval_ns[1] == pytest.approx(300 * US, rel=0.2), "they hold up nobody else"


def test_rows_stay_locked_while_their_holder_waits_for_a_light_lock() -> None:
    """0.9 ms may be of the planted 0.6 ms; a group-commit wait is not of it."""
    longer = {"lwlock_waits": LONGER_NS, "row_lock_waits": 300 * US, "group_commit_wait": 400 * US}
    new = USUAL | {path: USUAL[path] + more_ns for path, more_ns in longer.items()}
    rng = np.random.default_rng(19)
    first = findings_of(pair(USUAL, new, noise=0.01, blocks=6, rng=rng))[0]
    assert first.cause == "database_locks"
    assert first.interval_ns[1] == pytest.approx(900 * US, rel=0.1)


def test_an_effect_that_samples_may_have_off_by_all_of_it_is_not_sure() -> None:
    assert [sure_of(10, doubt) for doubt in (0.5, 5, 15)] == ["high", "medium", "low"]


def test_differences_of_parts_sum_to_that_of_the_whole() -> None:
    new = USUAL | {"wal_fsync": 900 * US, "client": 100 * US}
    made = pair(USUAL, new, noise=0.2, blocks=5, rng=np.random.default_rng(1))
    assert sum(one.difference_ns for one in made.parts) == pytest.approx(made.whole.difference_ns)
    sizes = [abs(one.difference_ns) for one in made.parts]
    assert sizes == sorted(sizes, reverse=True)


USUAL_NS = {
    "RPC backlog": 10 * US,
    "request transit": 40 * US,
    "server processing": 30 * US,
    "reply transit": 40 * US,
}
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
    "server_cpu": ("server processing", {"GETATTR": LONG_NS, "WRITE": LONG_NS}),
    "server_disk": ("server processing", {"WRITE": LONG_NS}),
    "wire_latency": ("reply transit", {"GETATTR": LONG_NS, "WRITE": LONG_NS}),
    "bandwidth": ("reply transit", {"WRITE": LONG_NS}),
    "server_threads": ("server queue", {"GETATTR": LONG_NS, "WRITE": LONG_NS}),
    "slots": ("RPC backlog", {"GETATTR": LONG_NS, "WRITE": LONG_NS}),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_the_largest_part_has_its_cause(cause: str) -> None:
    stage, longer = CAUSES[cause]
    found = findings_alone(point(calls(stage, **longer)))
    assert found[0].cause == cause
    stages = ("request transit", "reply transit") if "transit" in stage else (stage,)
    whole_ns = sum(longer.values()) + 2 * sum(USUAL_NS.get(one, 0.0) for one in stages)
    assert found[0].effect_ns == pytest.approx(whole_ns, rel=0.03)


def test_a_stage_without_the_calls_that_tell_is_not_named() -> None:
    """WRITEs alone: neither processor or disk, nor distance or bandwidth."""
    for stage in ("server processing", "reply transit"):
        only = {"WRITE": Call(1.0, 8500.0, USUAL_NS | {stage: LONG_NS})}
        assert findings_alone(point(only)) == []


def alone(parts: dict[str, float], *, runs: int = 4, **record: Any) -> Alone:
    sides = {label: [anatomy(parts, frozenset())] * runs for label in ("base", "new")}
    made = compared_sides(sides, records={"base": record})
    return Alone(made.base, made.sides[0])


def test_amdahls_law_bounds_what_removal_gives() -> None:
    first = findings_alone(alone({"wal_fsync": 600 * US, "client": 200 * US}))[0]
    assert (first.cause, first.effect_ns, first.confidence) == ("log_sync", 600 * US, "high")
    assert "4 times" in first.without_it  # 800 us / 200 us


def test_two_runs_are_not_sure() -> None:
    first = findings_alone(alone({"wal_fsync": 600 * US, "client": 200 * US}, runs=2))[0]
    assert (first.confidence, first.interval_ns) == ("low", (0.0, 800 * US))


def test_utilisation_of_workers_is_rate_times_service() -> None:
    """Two threads of load, 100 us of service in an operation of 250 us, one worker: 80 %."""
    nfs = {"served": {"model": {"threads": 1}}}
    made = point(
        {"WRITE": Call(1.0, 8500.0, {"server processing": 100 * US, "reply transit": 100 * US})}
    )
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
    twice = [finding("a", 30, "storage"), finding("b", 30, "storage/server processing")]
    assert "No single cause" not in answer(twice, 100, ())


def test_two_reasons_for_the_same_time_contradict() -> None:
    one, other = (finding(name, 10, "wal_fsync", because=name) for name in ("a", "b"))
    assert contradictions([one, other, finding("c", 5, "wal_fsync")]) == [("a", "b")]


def test_causes_of_the_same_time_that_come_to_more_than_the_whole_do_not_add_up() -> None:
    twice = [
        finding("a", 60, "storage"),
        finding("b", 50, "storage/server processing"),
        finding("c", 5),
    ]
    assert together(twice, 100).startswith("a and b are ")
    assert together(twice, 115) == "", "they may be read as shares of it"
    assert together([finding("a", 60), finding("b", 50)], 100) == "", "each has its own"
    one, other = (finding(name, 60, "wal_fsync", because=name) for name in ("a", "b"))
    assert together([one, other], 100) == "", "told as a contradiction"
