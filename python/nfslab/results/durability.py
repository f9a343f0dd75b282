"""Unequal durability, said first: what keeps less is often faster, and is no better.

A run's durability is the weakest of its places, as the targets read it back, and of the
database's own settings: `fsync = off` and `synchronous_commit = off` give up the promise
whatever the storage does. A comparison whose two sides are not known to be equal gets one
line that every report prints before any figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nfslab.results.outcomes import Outcomes

GIVING_UP = {
    "fsync": "the database never flushes (fsync = off)",
    "synchronous_commit": "a commit does not wait for its flush (synchronous_commit = off)",
}
"""Server settings that, when off, let a commit that was confirmed be lost."""

_OFF = frozenset({"off", "false", "no", "0"})
_RANK = {"volatile": 0, "unknown": 1, "stable": 2}


def settings_reasons(parameters: Mapping[str, Any]) -> list[str]:
    """Why the workload's own settings make it volatile; empty when they do not."""
    workload = parameters.get("workload")
    settings = workload.get("settings") if isinstance(workload, dict) else None
    if not isinstance(settings, dict):
        return []
    return [
        reason
        for name, reason in GIVING_UP.items()
        if name in settings and str(settings[name]).strip().lower() in _OFF
    ]


def point_levels(outcomes: Outcomes) -> list[set[str]]:
    """Per point the durability levels seen among its counted runs, settings included."""
    levels: list[set[str]] = [set() for _ in outcomes.points]
    volatile = [
        bool(settings_reasons(parameters_at(outcomes, index)))
        for index in range(len(outcomes.points))
    ]
    for line, index in zip(outcomes.counted, outcomes.point_index.tolist(), strict=True):
        levels[index].add("volatile" if volatile[index] else line.durability)
    return levels


def parameters_at(outcomes: Outcomes, index: int) -> dict[str, Any]:
    """The resolved experiment at a point: as written, with what the axes set there."""
    resolved = outcomes.record.resolved
    found: dict[str, Any] = dict(resolved)
    for path, value in outcomes.points[index].settings.items():
        *parents, last = path.split(".")
        level = found
        for part in parents:
            child = level.get(part)
            level[part] = dict(child) if isinstance(child, dict) else {}
            level = level[part]
        level[last] = value
    return found


def reasons(outcomes: Outcomes, points: Iterable[int]) -> list[str]:
    """What was recorded about the durability of these points' places and settings."""
    wanted = set(points)
    ids = {outcomes.points[index].point_id for index in wanted}
    found: list[str] = []
    for index in wanted:
        found += [r for r in settings_reasons(parameters_at(outcomes, index)) if r not in found]
    for setup in outcomes.setups:
        if not any(line.point_id in ids for line in setup.lines):
            continue
        for place in setup.record.places.values():
            if place.durability.level != "stable":
                for reason in place.durability.reasons or [place.durability.level]:
                    text = f"{place.target}: {reason}"
                    if text not in found:
                        found.append(text)
    return found


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
