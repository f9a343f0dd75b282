"""Causes within NFS calls: each where it was planted, in an operation on files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from nfslab.findings.calls import Call
from nfslab.findings.registry import FINDINGS, findings_of

from tests.findings import test_causes, test_lost_time, test_reasons, test_web_causes
from tests.findings.pairs import US, calls_pair, within_chance

NOISE = 0.05
BLOCKS = 6
USUAL_NS = {
    "RPC backlog": 10 * US, "request transit": 40 * US, "server queue": 5 * US,
    "server processing": 30 * US, "reply transit": 40 * US,
}  # fmt: skip
USUAL = {
    "GETATTR": Call(0.5, 250, USUAL_NS),
    "WRITE": Call(1.0, 8500, USUAL_NS),
    "READ": Call(0.5, 8500, USUAL_NS),
    "COMMIT": Call(0.2, 300, USUAL_NS),
}
ALL = tuple(USUAL)


def slower(kinds: tuple[str, ...], **stages_us: float) -> dict[str, Call]:
    """These kinds of calls take longer in these stages."""
    more = {name.replace("_", " "): us * US for name, us in stages_us.items()}

    def longer(call: Call) -> Call:
        parts = {name: ns + more.get(name, 0.0) for name, ns in call.parts_ns.items()}
        return replace(call, parts_ns=parts)

    return {name: longer(call) if name in kinds else call for name, call in USUAL.items()}


def number(**calls: tuple[float, float]) -> dict[str, Call]:
    """Other numbers of calls, of other sizes."""
    return USUAL | {
        name: replace(USUAL[name], per_operation=n, bytes_mean=size)
        for name, (n, size) in calls.items()
    }


@dataclass(frozen=True)
class Planted:
    """A new point, and by how much its operation is longer, in us."""

    cause: str
    longer_us: float
    calls: Mapping[str, Call] = field(default_factory=lambda: USUAL)
    others: Mapping[str, float] = field(default_factory=dict)


PLANTED = {
    "a slow disk, and its queue": Planted(
        "server_disk", 1.7 * 700,
        slower(("WRITE", "READ", "COMMIT"), server_processing=500, server_queue=200)),
    "a slow disk for writes": Planted(
        "server_disk", 300, slower(("WRITE",), server_processing=300)),
    "a busy processor": Planted("server_cpu", 2.2 * 100, slower(ALL, server_processing=100)),
    "slow flushes": Planted("commit_slow", 0.2 * 5000, slower(("COMMIT",), server_processing=5000)),
    "far away": Planted(
        "wire_latency", 2.2 * 600, slower(ALL, request_transit=300, reply_transit=300)),
    "far away, a full window": Planted(
        "wire_latency", 2.2 * 800,
        slower(ALL, request_transit=300, reply_transit=300, RPC_backlog=200)),
    "a narrow wire": Planted(
        "bandwidth", 1.5 * 400, slower(("WRITE", "READ"), request_transit=400)),
    "near saturation, a processor slower by a third": Planted(
        "server_cpu", 2.2 * 210, slower(ALL, server_processing=10, server_queue=200)),
    "few threads": Planted("server_threads", 2.2 * 200, slower(ALL, server_queue=200)),
    "few threads, a full window": Planted(
        "server_threads", 2.2 * 300, slower(ALL, server_queue=200, RPC_backlog=100)),
    "few slots": Planted("slots", 2.2 * 200, slower(ALL, RPC_backlog=200)),
    "small transfers": Planted("small_transfers", 7 * 125, number(WRITE=(8.0, 1300))),
    "attributes not kept": Planted("attribute_cache", 3 * 125, number(GETATTR=(3.5, 250))),
    "nothing kept": Planted("cold_data", 2 * 125, number(READ=(2.5, 8500))),
    "losses": Planted("loss", 400, others={"retransmitted": 400 * US}),
    "stalls": Planted("server_stall", 400, others={"server pause": 400 * US}),
}  # fmt: skip


def test_every_cause_is_planted() -> None:
    planted = {one.cause for one in PLANTED.values()} | set(test_causes.PLANTED)
    planted |= set(test_reasons.PLANTED) | test_lost_time.PLANTED | test_web_causes.PLANTED
    assert planted == set(FINDINGS)


@pytest.mark.parametrize("name", PLANTED)
def test_the_planted_cause_comes_first_with_its_size(name: str) -> None:
    planted = PLANTED[name]
    rng = np.random.default_rng(20261124)
    rounds, first, inside = 10, 0, 0
    for _ in range(rounds):
        made = calls_pair(
            USUAL, planted.calls, noise=NOISE, blocks=BLOCKS, rng=rng, others=planted.others
        )
        found = findings_of(made)
        if found and found[0].cause == planted.cause:
            first += 1
            low, high = found[0].interval_ns
            inside += low <= planted.longer_us * US <= high
    assert first >= rounds - 1
    assert inside >= within_chance(0.95, first)


def test_a_against_a_names_nothing() -> None:
    rng = np.random.default_rng(7)
    rounds = 40
    named = sum(
        bool(findings_of(calls_pair(USUAL, USUAL, noise=0.1, blocks=4, rng=rng)))
        for _ in range(rounds)
    )
    assert named <= 0.05 * rounds


def test_without_both_records_no_stage_is_named() -> None:
    """Only what the parts say is left."""
    rng = np.random.default_rng(1)
    made = calls_pair(USUAL, {}, noise=NOISE, blocks=4, rng=rng, others={"rest": 5000 * US})
    assert findings_of(made) == []


def test_a_queue_before_a_slower_server_is_not_for_want_of_threads() -> None:
    """Near saturation a queue grows by far more than the service that it waits for."""
    rng = np.random.default_rng(3)
    for service_us in (3.0, 6.0):
        made = calls_pair(
            USUAL,
            slower(ALL, server_processing=service_us, server_queue=200),
            noise=0.01,
            blocks=6,
            rng=rng,
        )
        assert "server_threads" not in {one.cause for one in findings_of(made)}


def test_a_way_to_a_busy_server_is_not_sure() -> None:
    """What the server's kernel holds meanwhile counts as the request transit."""
    rng = np.random.default_rng(5)
    busy = slower(ALL, server_processing=1000)
    both = {name: replace(call, parts_ns=dict(call.parts_ns) | {"request transit": 440 * US})
            if name in ("WRITE", "READ") else call for name, call in busy.items()}  # fmt: skip
    (found, *_) = findings_of(calls_pair(busy, both, noise=0.02, blocks=6, rng=rng))
    assert (found.cause, found.confidence) == ("bandwidth", "medium")


def test_a_longer_way_does_not_hide_a_queue_that_leads_elsewhere() -> None:
    """The wire is no reason for a queue before the server's workers; more calls are."""
    slow = slower(ALL, reply_transit=400, server_queue=300)
    rng = np.random.default_rng(31)
    both = findings_of(calls_pair(USUAL, slow, noise=NOISE, blocks=BLOCKS, rng=rng))
    assert [one.cause for one in both] == ["wire_latency", "server_threads"]
    often = {
        name: replace(call, per_operation=call.per_operation * 1.3) for name, call in slow.items()
    }
    found = findings_of(calls_pair(USUAL, often, noise=NOISE, blocks=BLOCKS, rng=rng))
    assert "server_threads" not in {one.cause for one in found}
