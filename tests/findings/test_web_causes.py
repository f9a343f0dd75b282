"""Causes at a web server: named where they were planted, and not where something else differs."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nfslab.evidence.anatomy.parts import CallFacts
from nfslab.findings.base import Finding
from nfslab.findings.registry import findings_of
from nfslab.results.records import LoadShape, Metric

from tests.findings.pairs import US, anatomy, compared_sides

PLANTED = {"documents", "web_server_cpu"}
"""Those that only a web server has."""
BLOCKS, NOISE = 6, 0.03
LONGER_NS = 900 * US
USUAL = {
    "document_open": 40 * US, "document_read": 200 * US, "log_write": 5 * US, "log_fsync": 100 * US,
    "elsewhere": 500 * US,
}  # fmt: skip
OVER_NFS = {
    "document_open/server processing": 30 * US, "document_open/reply transit": 20 * US,
    "document_read/server processing": 100 * US, "document_read/reply transit": 20 * US,
    "document_read/rest": 60 * US, "elsewhere": 500 * US,
}  # fmt: skip
OF_NAMES = {"LOOKUP": (0.1, 300.0), "GETATTR": (0.2, 250.0), "ACCESS": (1.0, 280.0)}
READS = {"READ": (0.5, 60_000.0)}
Calls = Mapping[str, tuple[float, float]]


def called(calls: Calls, slower: Mapping[str, float] = {}) -> dict[str, Any]:
    """Facts with these calls: kind -> number a request, bytes; `slower`: ns more of their
    service."""
    made = tuple(
        CallFacts(
            operation=name, per_operation=number, bytes_mean=size,
            parts_ns={
                "server processing": 30 * US + slower.get(name, 0.0), "reply transit": 20 * US,
            },
        )
        for name, (number, size) in calls.items()
    )  # fmt: skip
    return {"calls": made, "calls_recorded": True}


def found_of(
    usual: Mapping[str, float],
    longer: Mapping[str, float],
    *,
    facts: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    records: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
) -> list[Finding]:
    """Findings where these parts are longer by so much."""
    rng = np.random.default_rng(1)
    sides = {}
    new = {path: ns + longer.get(path, 0.0) for path, ns in usual.items()}
    for (label, parts), more in zip((("base", usual), ("new", new)), facts, strict=True):
        noisy = [
            {path: ns * float(np.exp(rng.normal(0, NOISE))) for path, ns in parts.items()}
            for _ in range(BLOCKS)
        ]
        update = {"operation": "request", **more}
        sides[label] = [anatomy(one, frozenset()).model_copy(update=update) for one in noisy]
    return findings_of(compared_sides(sides, records=dict(zip(sides, records, strict=True))))


def limit(size: int) -> dict[str, Any]:
    return {"memory_limit": {"limit_bytes": size}}


def cpu(server_us: float, client_us: float = 10.0) -> dict[str, Any]:
    metrics = {
        "server_cpu_us_per_request": Metric(value=server_us, unit="us"),
        "client_cpu_us_per_request": Metric(value=client_us, unit="us"),
    }
    return {"metrics": metrics, "load": LoadShape(kind="closed", clients=8)}


def test_slower_storage_is_named_and_what_may_follow_is_in_its_interval() -> None:
    """Who waits for a worker waits for what that does: three times as long is elsewhere."""
    longer = {"document_read": LONGER_NS, "elsewhere": 3 * LONGER_NS}
    first = found_of(USUAL, longer)[0]
    assert (first.cause, first.confidence) == ("documents", "high")
    assert first.effect_ns == pytest.approx(LONGER_NS, rel=0.1)
    low, high = first.interval_ns
    assert low <= LONGER_NS
    assert high >= 3.5 * LONGER_NS


def test_time_that_is_only_elsewhere_has_no_cause_in_the_storage() -> None:
    assert not found_of(USUAL, {"elsewhere": LONGER_NS})
    assert not found_of(USUAL, {"elsewhere": LONGER_NS}, records=(limit(1 << 30), limit(1 << 26)))


def test_a_tighter_limit_of_memory_tells_why_documents_are_read() -> None:
    small, large = limit(96 << 20), limit(512 << 20)
    longer = {"document_read": LONGER_NS}
    first = found_of(USUAL, longer, records=(large, small))[0]
    assert first.cause == "client_memory"
    assert "96 MiB instead of 512 MiB" in first.because
    for records in ((small, large), (large, large)):
        found = found_of(USUAL, longer, records=records)
        assert [one.cause for one in found] == ["documents"]


def test_a_slower_sync_of_the_posts_log() -> None:
    first = found_of(USUAL, {"log_fsync": LONGER_NS})[0]
    assert first.cause == "log_sync"


def others(share: float) -> dict[str, Any]:
    values = {"others_during": share, "steal_during": 0.0}
    return {"checks": [SimpleNamespace(name="busy_machine", verdict="ok", values=values)]}


def test_others_on_the_processors() -> None:
    longer = {"elsewhere": LONGER_NS}
    found = found_of(USUAL, longer, records=(others(0.02), others(0.6)))
    assert [one.cause for one in found] == ["noisy_neighbour"]
    assert not found_of(USUAL, longer, records=(others(0.02), others(0.02)))


def test_others_have_the_processors_that_a_slower_point_leaves_them() -> None:
    """They were there at the base: two that always compute had 45 % beside it, and 83 % beside
    calls that are longer on their way."""
    longer = {"elsewhere": LONGER_NS}
    assert not found_of(USUAL, longer, records=(others(0.45), others(0.83)))


def test_others_do_not_make_more_calls() -> None:
    more = {name: (20 * number, size) for name, (number, size) in OF_NAMES.items()}
    longer = {"document_open/reply transit": LONGER_NS}
    seen = others(0.02), others(0.6)
    facts = called(OF_NAMES | READS), called(more | READS)
    causes = [one.cause for one in found_of(OVER_NFS, longer, facts=facts, records=seen)]
    assert causes[0] == "attribute_cache"
    assert "noisy_neighbour" not in causes
    as_many = found_of(OVER_NFS, longer, facts=(facts[0], facts[0]), records=seen)
    assert "noisy_neighbour" in {one.cause for one in as_many}


@pytest.mark.parametrize(
    ("base", "new", "longer_ns", "named"),
    [
        pytest.param(60, 180, LONGER_NS, True, id="as much longer as it needs more"),
        pytest.param(60, 60, LONGER_NS, False, id="it needs no more"),
        pytest.param(60, 62, LONGER_NS, False, id="it needs hardly more"),
        pytest.param(60, 90, 20 * LONGER_NS, False, id="far longer than it needs more"),
        pytest.param(6, 12, LONGER_NS, False, id="more than eight requests could wait for"),
    ],
)
def test_the_web_servers_processors(base: float, new: float, longer_ns: float, named: bool) -> None:
    found = found_of(USUAL, {"elsewhere": longer_ns}, records=(cpu(base), cpu(new)))
    assert ([one.cause for one in found] == ["web_server_cpu"]) == named
    assert all(one.confidence == "medium" for one in found)


def test_attributes_that_are_not_kept() -> None:
    """Twenty times as many calls for names and attributes, each as long as before."""
    more = {name: (20 * number, size) for name, (number, size) in OF_NAMES.items()}
    longer = {"document_open/server processing": 700 * US, "document_open/reply transit": 200 * US}
    facts = called(OF_NAMES | READS), called(more | READS)
    first = found_of(OVER_NFS, longer, facts=facts)[0]
    assert first.cause == "attribute_cache"
    assert first.effect_ns == pytest.approx(LONGER_NS, rel=0.1)
    found = found_of(OVER_NFS, longer, facts=(facts[0], facts[0]))
    assert "attribute_cache" not in {one.cause for one in found}


def test_documents_that_were_in_the_clients_memory_are_read_again() -> None:
    more = {"READ": (10.0, 60_000.0)}
    longer = {"document_read/server processing": 700 * US, "document_read/reply transit": 200 * US}
    facts = called(OF_NAMES | READS), called(OF_NAMES | more)
    causes = [one.cause for one in found_of(OVER_NFS, longer, facts=facts)]
    assert causes[0] == "cold_data"
    with_limit = found_of(OVER_NFS, longer, facts=facts, records=(limit(1 << 30), limit(1 << 26)))
    assert with_limit[0].cause == "client_memory"


@pytest.mark.parametrize(
    ("slower", "cause"),
    [
        pytest.param({"READ": 1800 * US}, "server_disk", id="reads alone"),
        pytest.param(dict.fromkeys([*OF_NAMES, *READS], 500 * US), "server_cpu", id="every call"),
    ],
)
def test_a_server_that_serves_more_slowly(slower: Mapping[str, float], cause: str) -> None:
    calls = OF_NAMES | READS
    of_names = sum(calls[name][0] * slower.get(name, 0.0) for name in OF_NAMES)
    longer = {
        "document_open/server processing": of_names,
        "document_read/server processing": READS["READ"][0] * slower["READ"],
    }
    found = found_of(OVER_NFS, longer, facts=(called(calls), called(calls, slower)))
    assert found[0].cause == cause


def test_a_longer_wire_is_of_calls_of_every_size() -> None:
    calls = called(OF_NAMES | READS)
    far = {
        **calls,
        "calls": tuple(
            one.model_copy(update={"parts_ns": one.parts_ns | {"reply transit": 520 * US}})
            for one in calls["calls"]
        ),
    }
    longer = {"document_open/reply transit": 650 * US, "document_read/reply transit": 250 * US}
    assert found_of(OVER_NFS, longer, facts=(calls, far))[0].cause == "wire_latency"


def test_nothing_planted_nothing_named() -> None:
    calls = called(OF_NAMES | READS)
    assert not found_of(USUAL, {}, records=(cpu(60), cpu(60)))
    assert not found_of(OVER_NFS, {}, facts=(calls, calls))
