"""A clock that moves only when somebody sleeps, waits or looks at it."""

from __future__ import annotations

import os
import queue
import threading
from typing import Final, TypeVar

from nfslab.clock import Clock

T = TypeVar("T")

MONOTONIC_START_NS: Final = 1_000_000_000_000
WALL_START_NS: Final = 1_800_000_000_000_000_000
"""January 2027: no test depends on the day that it runs on."""
LOOK_S: Final = 0.001
"""A thread that waits looks so often whether the time has come."""
TICK_NS: Final = 1_000
"""What a look at the clock costs, so that a loop that only looks comes to its end."""


class SimulatedClock(Clock):
    """Sleeping takes no time: the clock is moved on instead.

    Threads may share one. Its maker's thread moves it when it waits for an event; any other waits
    until the event is set or the time has come, so a collector that polls beside a test does not
    run away with the time.
    """

    def __init__(self, tick_ns: int = TICK_NS) -> None:
        self.tick_ns = tick_ns
        self.slept_s: list[float] = []
        """Every sleep and every wait that was not cut short, in order."""
        self._passed_ns = 0
        self._maker = threading.get_ident()
        self._lock = threading.Lock()

    def advance(self, seconds: float) -> None:
        """Lets this many seconds pass."""
        with self._lock:
            self._passed_ns += round(seconds * 1e9)

    def monotonic_ns(self) -> int:
        with self._lock:
            self._passed_ns += self.tick_ns
            return MONOTONIC_START_NS + self._passed_ns

    def wall_ns(self) -> int:
        return WALL_START_NS - MONOTONIC_START_NS + self.monotonic_ns()

    def thread_cpu_ns(self) -> int:
        return self.monotonic_ns() - MONOTONIC_START_NS

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.advance(seconds)
        os.sched_yield()

    def wait(self, event: threading.Event, seconds: float | None = None) -> bool:
        if seconds is None:
            return event.wait()
        if threading.get_ident() == self._maker:
            if not event.is_set():
                self.sleep(seconds)
            return event.is_set()
        end_ns = self._passed_ns + round(seconds * 1e9)
        while not event.wait(LOOK_S) and self._passed_ns < end_ns:
            pass
        return event.is_set()

    def get(self, source: queue.SimpleQueue[T], seconds: float) -> T:
        if source.empty():
            self.sleep(seconds)
        return source.get_nowait()
