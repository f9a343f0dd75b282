"""A simulated clock for several threads, of which one runs at a time.

A thread runs until it waits: for an instant, a queue, another thread, or what a test gives it. Then
the next one runs that has what it waits for. Only when none has, time passes, up to the first
instant that somebody waits for. So work takes no time, and every outcome is the same each time.

Threads belong to a host, as their starter does; a host's clocks may go otherwise than ours.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

import pytest

from tests.simulated_clock import MONOTONIC_START_NS, WALL_START_NS, SimulatedClock

T = TypeVar("T")
Due = Callable[[], int | None]
"""From which instant on (ns) a thread has what it waits for; None: nobody knows."""

NOW: Final = 0
REAL: Final = "nfslab-stop"
"""The name of a thread that waits for signals, and has no part in this."""


@dataclass(slots=True)
class HostClock:
    """What a host's clocks show beside ours."""

    ahead_ns: int = 0
    drift_ppm: float = 0.0

    def shown(self, ours_ns: int) -> int:
        """What this host's monotonic clock shows at an instant of ours."""
        passed_ns = ours_ns - MONOTONIC_START_NS
        return ours_ns + self.ahead_ns + round(passed_ns * self.drift_ppm / 1e6)


@dataclass(eq=False, slots=True)
class _Waiting:
    thread: threading.Thread
    due: Due
    goes: threading.Event = field(default_factory=threading.Event)


class OneAtATime(SimulatedClock):
    """See above. `running` makes the calling thread the first one."""

    def __init__(self) -> None:
        super().__init__()
        self._threads: dict[threading.Thread, HostClock | None] = {}
        """Those that take part -> their host's clock."""
        self._waiting: list[_Waiting] = []
        self._held: set[threading.Thread] = set()
        self._ending: set[threading.Thread] = set()
        self._stuck = False

    @contextmanager
    def running(self, patch: pytest.MonkeyPatch) -> Iterator[None]:
        """Every thread that is started in the block takes part, and has ended behind it."""
        main = threading.current_thread()
        self._threads[main] = None
        start, join = threading.Thread.start, threading.Thread.join

        def started(thread: threading.Thread) -> None:
            if thread.name == REAL or threading.current_thread() not in self._threads:
                start(thread)
                return
            run, me = thread.run, _Waiting(thread, lambda: NOW)

            def taking_part() -> None:
                try:
                    self._go_on(me)
                    run()
                except SystemExit:
                    pass
                finally:
                    del self._threads[thread]
                    self._next()

            thread.run = taking_part  # type: ignore[method-assign]
            self._threads[thread] = self._threads[threading.current_thread()]
            self._waiting.append(me)
            start(thread)

        def joined(thread: threading.Thread, timeout: float | None = None) -> None:
            if thread in self._threads:
                self.until(lambda: None if thread in self._threads else NOW, timeout)
            if thread not in self._threads:
                join(thread)

        patch.setattr(threading.Thread, "start", started)
        patch.setattr(threading.Thread, "join", joined)
        try:
            yield
        finally:
            self._held.clear()
            self.end([thread for thread in self._threads if thread is not main])
            self.until(lambda: NOW if len(self._threads) == 1 else None)

    def on_host(self, clock: HostClock, thread: threading.Thread) -> threading.Thread:
        """Starts a thread of a host."""
        thread.start()
        self._threads[thread] = clock
        return thread

    def of_host(self, clock: HostClock) -> list[threading.Thread]:
        """Returns the threads of a host that have not ended."""
        return [thread for thread, its in self._threads.items() if its is clock]

    def hold(self, threads: list[threading.Thread]) -> None:
        """Has these and no others stand still, as if their process was stopped or killed."""
        self._held = {*threads}

    def end(self, threads: list[threading.Thread]) -> None:
        """Has SystemExit raised in these where they wait, one after the other."""
        self._held.difference_update(threads)
        self._ending.update(threads)

    def until(self, due: Due, seconds: float | None = None) -> None:
        """Returns at the instant that `due` tells, at the latest after this many seconds."""
        last_ns = None if seconds is None else self._now_ns() + round(seconds * 1e9)

        def first() -> int | None:
            return min((at for at in (due(), last_ns) if at is not None), default=None)

        me = _Waiting(threading.current_thread(), first)
        self._waiting.append(me)
        self._next()
        self._go_on(me)

    def _go_on(self, me: _Waiting) -> None:
        me.goes.wait()
        if me.thread in self._ending:
            raise SystemExit
        if self._stuck:
            self._stuck = False
            pytest.fail("all threads wait for each other, and none for an instant")

    def _next(self) -> None:
        """Lets the next one run, which may be the caller."""
        found: list[tuple[int, _Waiting]] = []
        for one in self._waiting:
            if one.thread in self._held:
                continue
            at_ns = NOW if one.thread in self._ending else one.due()
            if at_ns is not None:
                found.append((max(at_ns, self._now_ns()), one))
        if found:
            at_ns, chosen = min(found, key=lambda entry: entry[0])
            self.advance((at_ns - self._now_ns()) / 1e9)
        else:
            self._stuck, chosen = True, self._waiting[0]
        self._waiting.remove(chosen)
        chosen.goes.set()

    def _now_ns(self) -> int:
        return MONOTONIC_START_NS + self._passed_ns

    def monotonic_ns(self) -> int:
        host = self._threads.get(threading.current_thread())
        if threading.current_thread() in self._threads:
            self._passed_ns += self.tick_ns
        return self._now_ns() if host is None else host.shown(self._now_ns())

    def wall_ns(self) -> int:
        return WALL_START_NS - MONOTONIC_START_NS + self.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        self.until(lambda: None, seconds)

    def wait(self, event: threading.Event, seconds: float | None = None) -> bool:
        self.until(lambda: NOW if event.is_set() else None, seconds)
        return event.is_set()

    def get(self, source: queue.SimpleQueue[T], seconds: float) -> T:
        self.until(lambda: None if source.empty() else NOW, seconds)
        return source.get_nowait()
