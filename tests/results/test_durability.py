"""Why one side is less durable: what is said of the durable side, too, is no reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nfslab.results.durability import reasons
from nfslab.results.records import DurabilityRecord


def setup(point: str, **places: DurabilityRecord) -> Any:
    return SimpleNamespace(
        lines=[SimpleNamespace(point_id=point)],
        record=SimpleNamespace(
            places={
                name: SimpleNamespace(target=name, durability=durability)
                for name, durability in places.items()
            }
        ),
    )


def outcomes(*setups: Any) -> Any:
    points = [SimpleNamespace(point_id=one.lines[0].point_id) for one in setups]
    return SimpleNamespace(points=points, setups=setups)


CACHE = "the disk has a cache"
MEMORY = "it lies in memory"
STABLE = DurabilityRecord(level="stable", reasons=[CACHE])
VOLATILE = DurabilityRecord(level="volatile", reasons=[CACHE, MEMORY])


def test_what_stable_places_have_too_is_no_reason() -> None:
    found = outcomes(setup("a", one=STABLE), setup("b", one=VOLATILE))
    assert reasons(found, [1]) == [f"one: {MEMORY}"]


def test_targets_with_one_reason_are_named_together() -> None:
    found = outcomes(setup("a", one=VOLATILE, two=VOLATILE), setup("b", one=STABLE, two=VOLATILE))
    assert reasons(found, [0, 1]) == [f"one, two: {MEMORY}"]


def test_without_a_reason_of_its_own_all_are_said() -> None:
    found = outcomes(
        setup("a", one=STABLE),
        setup("b", one=DurabilityRecord(level="unknown", reasons=[CACHE])),
        setup("c", one=DurabilityRecord(level="unknown")),
    )
    assert reasons(found, [1]) == [f"one: {CACHE}"]
    assert reasons(found, [2]) == ["one: unknown"]
