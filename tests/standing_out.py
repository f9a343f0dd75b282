"""Causes planted larger and larger, until they stand out from what the machine does to a run.

A delay of 20 ms is the largest part of a latency where nothing else goes on; where a processor is
away for 300 ms, it need not be. What a test asks of two measured things is therefore asked of the
first of several plants that stands out. Code that is wrong is wrong with each of them: the last
one's findings are given back as they are, and the test's assertions say what they lack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Plant = TypeVar("Plant")
Found = TypeVar("Found")

FACTORS = (1, 4, 16, 64)
"""Of a plant that stands out on a machine that does nothing else."""


def standing_out(
    plants: Iterable[Plant], watch: Callable[[Plant], Found], stands_out: Callable[[Found], bool]
) -> tuple[Plant, Found]:
    """The first plant whose findings stand out (or the last one), and these findings."""
    for plant in plants:
        found = watch(plant)
        if stands_out(found):
            break
    return plant, found
