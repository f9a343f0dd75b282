"""What findings come to: one cause, several that share it, two that exclude each other, or none."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.findings.base import Finding

SINGLE: Final = 0.5
"""Of the whole: a cause that has so much of it is the cause."""
TOLD: Final = 0.5
"""Of the whole: with less, the evidence does not tell."""


def answer(found: Sequence[Finding], whole_ns: float, wants: Sequence[str]) -> str:
    """In a sentence, where no single cause has half of it; empty: the first one does.

    `wants`: collectors that would tell more.
    """
    apart = _apart(found)
    told_ns = sum(one.effect_ns for one in apart)
    if apart and max(one.effect_ns for one in apart) >= SINGLE * whole_ns:
        return ""
    if told_ns >= TOLD * whole_ns and len(apart) > 1:
        return f"No single cause: {_listed([one.cause for one in apart])} share it."
    again = ", ".join(f'"{name}"' for name in wants)
    said = f"The evidence does not tell {'the rest' if apart else 'why'}"
    return f"{said}: run again with collectors = [{again}]." if wants else f"{said}."


def contradictions(found: Sequence[Finding]) -> list[tuple[str, str]]:
    """Pairs of causes that claim the same time, each for a reason of its own: at most one of the
    two has all of it."""
    return [
        (one.cause, other.cause)
        for one, other in combinations(found, 2)
        if one.because and other.because and set(one.paths) & set(other.paths)
    ]


def together(found: Sequence[Finding], whole_ns: float) -> str:
    """In a sentence, where causes come to more than the whole, since some are of the same time;
    empty where `contradictions` says it."""
    if contradictions(found):
        return ""
    shared = [
        one.cause
        for one in found
        if any(_overlap(path, other) for path in one.paths for other in found if other is not one)
    ]
    if len(shared) < 2 or sum(one.effect_ns for one in found) <= whole_ns:
        return ""
    return f"{_listed(shared)} are partly of the same time: they do not add up."


def _apart(found: Sequence[Finding]) -> list[Finding]:
    """Without those that are of time that an earlier one has."""
    kept: list[Finding] = []
    for one in found:
        if not any(_overlap(path, other) for path in one.paths for other in kept):
            kept.append(one)
    return kept


def _overlap(path: str, other: Finding) -> bool:
    return any(
        path == mine or path.startswith(f"{mine}/") or mine.startswith(f"{path}/")
        for mine in other.paths
    )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
