"""The words of a comparison, and the one rule that picks them.

The rule reads the interval, so that the word and the interval can never disagree: a
difference is shown when the interval leaves out "no change" (a ratio of 1, a difference
of 0). A p-value below alpha says the same thing in another unit.

Below three runs on a side nothing is said (`significance unknown (n=2)`): two values know their
spread so badly that an interval reaches over decades.
"""

from __future__ import annotations

from typing import Literal

Better = Literal["higher", "lower"]

FASTER = "faster"
SLOWER = "slower"
HIGHER = "higher"
LOWER = "lower"
INCONCLUSIVE = "inconclusive"
MIN_RUNS = 3
"""Runs on each side, or pairs, from which there is an interval and a test."""
MIN_RUNS_SEQUENTIAL = 4
"""Pairs from which an interval may end an experiment: after three, more than 5 % miss."""
UNKNOWN = tuple(f"significance unknown (n={n})" for n in range(MIN_RUNS))
"""By the runs of the smaller side."""
EMULATED = "emulated: no performance data"
"""An emulated processor made the values: nothing is said of their change."""

WORDS = (FASTER, SLOWER, HIGHER, LOWER, INCONCLUSIVE, EMULATED, *UNKNOWN)


def direction_word(increased: bool, better: Better | None) -> str:
    """The word for a difference that was shown; neutral metrics are higher or lower."""
    if better is None:
        return HIGHER if increased else LOWER
    return FASTER if increased == (better == "higher") else SLOWER


def word(low: float, high: float, no_change: float, better: Better | None) -> str:
    """The verdict of an interval [low, high] of the change from base to new."""
    if low > no_change:
        return direction_word(True, better)
    if high < no_change:
        return direction_word(False, better)
    return INCONCLUSIVE


def unknown(n: int) -> str:
    """The verdict when the smaller side has only `n` values, fewer than `MIN_RUNS`."""
    return UNKNOWN[n]
