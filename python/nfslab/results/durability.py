"""Unequal durability, said first: what keeps less is often faster, and is no better.

A run's durability is the weakest of its places, as targets and workload read it back (a
database with `fsync = off` keeps nothing, whatever the storage does). A comparison whose two
sides are not known to be equal gets one line that every report prints before any figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nfslab.results.outcomes import Outcomes

_RANK = {"volatile": 0, "unknown": 1, "stable": 2}


def point_levels(outcomes: Outcomes) -> list[set[str]]:
    """Per point the durability levels seen among its counted runs."""
    levels: list[set[str]] = [set() for _ in outcomes.points]
    for line, index in zip(outcomes.counted, outcomes.point_index.tolist(), strict=True):
        levels[index].add(line.durability)
    return levels


def reasons(outcomes: Outcomes, points: Iterable[int]) -> list[str]:
    """Why these points' places are not (known to be) stable, as it was recorded.

    What is said of a stable place, too, is no reason.
    """
    ids = {outcomes.points[index].point_id for index in points}
    places = [
        (place, any(line.point_id in ids for line in setup.lines))
        for setup in outcomes.setups
        for place in setup.record.places.values()
    ]
    stable = {why for place, _ in places if place.durability.level == "stable"
              for why in place.durability.reasons}  # fmt: skip
    targets: dict[str, list[str]] = {}
    for place, asked in places:
        if asked and place.durability.level != "stable":
            said = place.durability.reasons
            own = [why for why in said if why not in stable] or said or [place.durability.level]
            for why in own:
                named = targets.setdefault(why, [])
                if place.target not in named:
                    named.append(place.target)
    return [f"{', '.join(named)}: {why}" for why, named in targets.items()]


def sides(levels: Iterable[str]) -> str:
    """The levels of one side in words, the weakest first."""
    ordered = sorted(set(levels), key=lambda level: _RANK.get(level, 1))
    return " and ".join(ordered) or "unknown"


def unequal(base: set[str], new: set[str]) -> bool:
    """Are two sides not known to be of equal durability?

    Two sides that are both wholly unknown are not said to be unequal: nothing tells them
    apart (each still carries its own note).
    """
    return base != new or len(base) > 1


def sentence(
    base_label: str, base: set[str], new_label: str, new: set[str], why: Iterable[str]
) -> str:
    """The first line of a comparison of unequal durability; empty when it is equal."""
    if not base or not new or not unequal(base, new):
        return ""
    because = "; ".join(why)
    return (
        f"UNEQUAL DURABILITY: {base_label} is {sides(base)}, {new_label} is {sides(new)}"
        + (f" ({because})" if because else "")
        + "; a difference in speed may come from that alone."
    )
