"""The one place where nfslab's Python reads a clock or sleeps.

A test replaces the clock, and then nothing waits and no outcome depends on what else the machine
does. `tests/house` refuses any other use of `time` in the product. Call it through the module
(`clock.monotonic()`): a name that was imported from here would keep the clock of its import.

Not behind this seam: the Rust core (its crates have a clock of their own, `measure::Clock`), and
waits for a process or a socket, which end by an event and not by time.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, TypeVar

T = TypeVar("T")


class Clock:
    """The machine's clocks. A simulated one overrides all of these."""

    def monotonic_ns(self) -> int:
        """Returns nanoseconds of CLOCK_MONOTONIC (clock_gettime(2))."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """Returns nanoseconds since 1970 by CLOCK_REALTIME, which somebody may set."""
        return time.time_ns()

    def thread_cpu_ns(self) -> int:
        """Returns the calling thread's CPU time in nanoseconds (CLOCK_THREAD_CPUTIME_ID)."""
        return time.thread_time_ns()

    def sleep(self, seconds: float) -> None:
        """Returns after this many seconds."""
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float | None = None) -> bool:
        """Waits until the event is set, or for this many seconds; returns whether it is set."""
        return event.wait(seconds)

    def get(self, source: queue.SimpleQueue[T], seconds: float) -> T:
        """Returns a queue's next item, or raises queue.Empty after this many seconds."""
        return source.get(timeout=seconds)


class Deadline:
    """An instant on the monotonic clock by which something has to be over."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    def left_s(self) -> float:
        """Returns the seconds that are left, never below zero."""
        return max(0.0, self._end - monotonic())

    def passed(self) -> bool:
        """Returns whether no time is left."""
        return monotonic() >= self._end


_REAL: Final = Clock()
_current = _REAL


@contextmanager
def replaced(other: Clock) -> Iterator[None]:
    """Makes every thread use the other clock within the block."""
    global _current
    before = _current
    _current = other
    try:
        yield
    finally:
        _current = before


def monotonic_ns() -> int:
    """Returns nanoseconds of the monotonic clock."""
    return _current.monotonic_ns()


def monotonic() -> float:
    """Returns seconds of the monotonic clock."""
    return _current.monotonic_ns() / 1e9


def wall_ns() -> int:
    """Returns nanoseconds since 1970 by the wall clock."""
    return _current.wall_ns()


def wall() -> datetime:
    """Returns the wall clock's date and time, in UTC."""
    return datetime.fromtimestamp(_current.wall_ns() / 1e9, UTC)


def thread_cpu() -> float:
    """Returns the calling thread's CPU time in seconds."""
    return _current.thread_cpu_ns() / 1e9


def thread_cpu_ns() -> int:
    """Returns the calling thread's CPU time in nanoseconds."""
    return _current.thread_cpu_ns()


def sleep(seconds: float) -> None:
    """Returns after this many seconds."""
    _current.sleep(seconds)


def wait(event: threading.Event, seconds: float | None = None) -> bool:
    """Waits until the event is set, or for this many seconds; returns whether it is set."""
    return _current.wait(event, seconds)


def get(source: queue.SimpleQueue[T], seconds: float) -> T:
    """Returns a queue's next item, or raises queue.Empty after this many seconds."""
    return _current.get(source, seconds)
