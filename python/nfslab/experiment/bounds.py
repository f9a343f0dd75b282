"""Physical bounds of this machine, measured once a call: what no workload on it can beat.

Both are far on the safe side, so that a figure beyond them is a fault of the measurement
and never a fast machine:

* A transaction is at least one request and one answer through the kernel; the bound is the
  fastest write and read of one byte through a pipe *within* one thread, without the wake-up
  of another one that every real round trip has.
* Data that a thread reads or writes is copied at least once; the bound is the fastest copy
  between two buffers that stay in its cache, which memory is slower than.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from nfslab import clock

TRIPS = 2000
COPIES = 400
COPY_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class Bounds:
    """What was measured, in the units of the checks."""

    kernel_round_trip_ns: int
    copy_bytes_per_s: float
    """Of one thread."""


@lru_cache(maxsize=1)
def physical_bounds() -> Bounds:
    """Measure them (some 10 ms) the first time, remember them afterwards."""
    return Bounds(_round_trip_ns(), _copy_bytes_per_s())


def _round_trip_ns() -> int:
    source, sink = os.pipe()
    try:
        best = 1 << 62
        for _ in range(TRIPS):
            began = clock.monotonic_ns()
            os.write(sink, b"x")
            os.read(source, 1)
            best = min(best, clock.monotonic_ns() - began)
        return best
    finally:
        os.close(source)
        os.close(sink)


def _copy_bytes_per_s() -> float:
    import numpy as np

    one, other = np.ones(COPY_BYTES, np.uint8), np.zeros(COPY_BYTES, np.uint8)
    best = 1 << 62
    for _ in range(COPIES):
        began = clock.monotonic_ns()
        np.copyto(other, one)
        best = min(best, clock.monotonic_ns() - began)
    return COPY_BYTES * 1e9 / max(best, 1)
