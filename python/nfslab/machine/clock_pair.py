"""The wall clock and CLOCK_MONOTONIC read as one: by what instants on both are compared."""

from __future__ import annotations

import time


def clock_pair(readings: int = 3) -> tuple[int, int, int]:
    """(wall clock, CLOCK_MONOTONIC, how long it took to read both), all in ns.

    Of some readings the one with the least time around it: a thread that loses the processor in
    between would look like a step of the clock.
    """
    found = []
    for _ in range(readings):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        found.append((after - before, wall, (before + after) // 2))
    width_ns, wall_ns, monotonic_ns = min(found)
    return wall_ns, monotonic_ns, width_ns
