"""The wall clock and CLOCK_MONOTONIC read as one: by what instants on both are compared, and by
what the clocks of two machines are."""

from __future__ import annotations

from typing import NamedTuple

from nfslab import clock


class Trip(NamedTuple):
    """What one round trip tells of another machine's clocks, in ns."""

    error_ns: int
    """The truth lies so far from the offsets at most."""
    monotonic_ns: int
    realtime_ns: int


def round_trip(here: tuple[int, int, int], there: tuple[int, int, int], heard_ns: int) -> Trip:
    """Offsets of the clocks there from ours: its middle is taken for when they were read.

    `here` is our `clock_pair` before the question, `there` the answer, `heard_ns` our
    CLOCK_MONOTONIC when it came.
    """
    wall_ns, begin_ns, here_ns = here
    wall_there_ns, monotonic_there_ns, there_ns = there
    trip_ns = heard_ns - begin_ns
    middle_ns = trip_ns // 2
    # Up, whatever is odd: the truth has to lie within.
    error_ns = (trip_ns + 1) // 2 + abs(there_ns) + here_ns
    return Trip(
        error_ns,
        monotonic_there_ns - (begin_ns + middle_ns),
        wall_there_ns - (wall_ns + middle_ns),
    )


def clock_pair(readings: int = 3) -> tuple[int, int, int]:
    """(wall clock, CLOCK_MONOTONIC, how long it took to read both), all in ns.

    Of some readings the one with the least time around it: a thread that loses the processor in
    between would look like a step of the clock.
    """
    found = []
    for _ in range(readings):
        before = clock.monotonic_ns()
        wall = clock.wall_ns()
        after = clock.monotonic_ns()
        found.append((after - before, wall, (before + after) // 2))
    width_ns, wall_ns, monotonic_ns = min(found)
    return wall_ns, monotonic_ns, width_ns
