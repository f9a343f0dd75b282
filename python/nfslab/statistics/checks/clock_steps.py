"""Steps of the wall clock during a run, seen against the monotonic clock.

Both clocks are read together at intervals (a sampler does it anyway). Their difference is
constant but for the slow correction by NTP (the kernel slews by at most 500 ppm) and jumps
when somebody sets the clock or the machine was suspended. Durations are monotonic and do
not suffer, but samples, logs and evidence are matched by wall clock.

The two reads are not one: when the thread is interrupted between them the difference jumps
and comes back with the next sample. Such a delay is counted apart and is no step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nfslab.statistics.checks.check import Check

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

NAME = "clock_steps"
THRESHOLD_NS = 1_000_000
"""A step smaller than this cannot be told from the delay between the two reads."""
SLEW_PER_NS = 500e-6
"""The kernel's limit for correcting the clock gradually (adjtimex, 500 ppm)."""
STEPS_LISTED = 20
"""Steps listed in the result; all of them are counted."""


def check_clock_steps(wall_ns: ArrayLike, monotonic_ns: ArrayLike) -> Check:
    """Did the wall clock jump? Both series in integer nanoseconds, read pairwise in order."""
    wall = np.asarray(wall_ns, dtype=np.int64).ravel()
    monotonic = np.asarray(monotonic_ns, dtype=np.int64).ravel()
    if wall.size != monotonic.size:
        raise ValueError("both clocks must have been read equally often")
    if wall.size < 2:
        return Check(NAME, "unknown", f"the clocks were read {wall.size} times; two are needed")
    elapsed = np.diff(monotonic)
    if np.any(elapsed < 0):
        at = int(np.flatnonzero(elapsed < 0)[0]) + 1
        back: dict[str, Any] = {"sample": at, "back_ns": int(-elapsed[at - 1])}
        return Check(NAME, "violation", "the monotonic clock went backwards", back)
    offset = wall - monotonic
    offset = offset - offset[0]
    change = np.diff(offset)
    allowed = THRESHOLD_NS + SLEW_PER_NS * elapsed
    jumps = np.abs(change) > allowed
    steps, delays, i = [], 0, 0
    positions = np.flatnonzero(jumps).tolist()
    while i < len(positions):
        at = positions[i]
        returns = i + 1 < len(positions) and positions[i + 1] == at + 1
        if returns and abs(int(offset[at + 2] - offset[at])) <= allowed[at] + allowed[at + 1]:
            delays += 1
            i += 2
            continue
        steps.append((at + 1, int(change[at])))
        i += 1
    span = int(monotonic[-1] - monotonic[0])
    stepped = sum(size for _, size in steps)
    values: dict[str, Any] = {
        "samples": int(wall.size),
        "steps": len(steps),
        "step_samples": [at for at, _ in steps[:STEPS_LISTED]],
        "step_sizes_ns": [size for _, size in steps[:STEPS_LISTED]],
        "read_delays": delays,
        "drift_ppm": (int(offset[-1]) - stepped) / span * 1e6 if span else 0.0,
        "threshold_ns": THRESHOLD_NS,
    }
    if steps:
        largest = max((size for _, size in steps), key=abs)
        return Check(
            NAME,
            "warning",
            f"the wall clock was stepped {len(steps)} times (largest {largest / 1e9:+.3f} s): "
            "times of day before and after a step do not match",
            values,
        )
    return Check(NAME, "ok", f"no step above {THRESHOLD_NS / 1e6:g} ms", values)
