"""Stopping in good order: signals, time limits, and code that does not listen.

The first SIGINT, SIGTERM or SIGHUP is a request: the run under way is given up at the
next place where it looks (`check`, which every waiting loop calls through
`RunContext.remaining_s`), everything is taken down, and what was finished is kept. Code
that does not look is interrupted after `GRACE_S`: a watcher thread sends the main thread
a signal whose handler raises. The same watcher ends a run that has outlived its time
limit without noticing. Teardown and sealing are never interrupted: exceptions are raised
by the handler only within `interruptible()`.

A second request changes nothing (teardown goes on). The third leaves at once, without
teardown; the journal makes that safe: the next start cleans up.

A signal that was ignored when we were started (nohup, a shell's `&`) stays ignored.
Without being in the main thread no handler can be set: then only `request` and the time
limits that code looks at work.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from typing import TYPE_CHECKING

from nfslab import clock
from nfslab.errors import Interrupted, NfslabError, RunFailed
from nfslab.quantities import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

GRACE_S = 2.0
"""Time for code to notice a request, or the end of its time, before it is interrupted."""
REPEAT_S = 10.0
"""A raised exception can get lost (inside of a destructor): tried again so often. Long
enough for the code that is unwound to stop its processes in peace."""
REQUESTS_UNTIL_EXIT = 3
NO_DEADLINE_S = 366 * 86400.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
WAKE_SIGNAL = signal.SIGURG
"""Ignored by default in every program, so a stray one harms nobody."""


class TimeOver(Interrupted):
    """The time limit of this call of the experiment is over; what is finished is kept."""

    exit_code = 1


class Stop:
    """Requests to stop, and deadlines. A context manager: handlers are set inside it."""

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        self.requested = ""
        """Name of the signal that asked first; empty while nobody did."""
        self._count = 0
        self._requested_at = 0.0
        self._deadlines: list[tuple[float, Callable[[], NfslabError]]] = []
        self._interruptible = False
        self._raised_at = -REPEAT_S
        self._tell = tell or (lambda text: print(text, file=sys.stderr, flush=True))
        self._before: dict[int, object] = {}
        # put() of this kind of queue may be called from a signal handler.
        self._changes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._watcher: threading.Thread | None = None

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in STOP_SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._on_stop)
            self._before[WAKE_SIGNAL] = signal.signal(WAKE_SIGNAL, self._on_wake)
            self._watcher = threading.Thread(target=self._watch, name="nfslab-stop", daemon=True)
            self._watcher.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._watcher is not None:
            self._changes.put(False)
            self._watcher.join()
            self._watcher = None
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._before.clear()

    def request(self, name: str = "request") -> None:
        """Ask to stop, as a signal does."""
        self._count += 1
        if self._count == 1:
            self._requested_at = clock.monotonic()
            self.requested = name
            self._changes.put(True)

    def check(self) -> None:
        """Raise `Interrupted` when somebody asked to stop, or the deadline's error."""
        if self.requested:
            raise self._interrupted()
        if self._deadlines:
            when, error = min(self._deadlines, key=lambda entry: entry[0])
            if clock.monotonic() > when:
                raise error()

    def remaining_s(self) -> float:
        """Seconds until the first deadline (a year without one); raises as `check` does."""
        self.check()
        first = min((when for when, _ in self._deadlines), default=None)
        if first is None:
            return NO_DEADLINE_S
        return max(0.001, first - clock.monotonic())

    @contextlib.contextmanager
    def deadline(self, seconds: float, error: Callable[[], NfslabError]) -> Iterator[None]:
        """Within the block there are `seconds` left; then `check` raises `error()`."""
        before = list(self._deadlines)
        self._deadlines.append((clock.monotonic() + seconds, error))
        self._changes.put(True)
        try:
            yield
        finally:
            self._deadlines = before
            self._changes.put(True)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within the block code that does not look is interrupted; outside never.

        What follows the block begins with `shield`: the exception may be raised while
        the block is being left.
        """
        self._raised_at = -REPEAT_S
        self._interruptible = True
        self._changes.put(True)
        try:
            yield
        finally:
            self._interruptible = False

    def shield(self) -> None:
        """From here on nothing is interrupted (teardown, sealing)."""
        self._interruptible = False

    def _interrupted(self) -> Interrupted:
        return Interrupted(
            f"stopped by {self.requested}; every finished run is kept",
            fix="the same command goes on with what is missing",
        )

    def _overdue(self, now: float) -> float | None:
        """Seconds until code has to be interrupted; None when there is no reason to."""
        times = []
        if self.requested:
            times.append(self._requested_at + GRACE_S)
        times += [when + GRACE_S for when, _ in self._deadlines]
        return min(times) - now if times else None

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        name = {signal.SIGINT: "Ctrl-C"}.get(signal.Signals(number), signal.Signals(number).name)
        self.request(name)
        if self._count == 1:
            self._say("stopping: the run under way is given up, what is finished is kept")
        elif self._count < REQUESTS_UNTIL_EXIT:
            self._say("already stopping: taking down what is up (once more leaves at once)")
        else:
            self._say("leaving at once: the next start cleans up what is left")
            os._exit(130)

    def _say(self, text: str) -> None:
        # Inside a handler: a print that was interrupted must not be entered again.
        with contextlib.suppress(RuntimeError, OSError, ValueError):
            self._tell(text)

    def _on_wake(self, number: int, frame: FrameType | None) -> None:
        """In the main thread: interrupt what did not look in time."""
        now = clock.monotonic()
        overdue = self._overdue(now)
        if not self._interruptible or overdue is None or overdue > 0:
            return
        if now - self._raised_at >= REPEAT_S:
            self._raised_at = now
            self.check()

    def _watch(self) -> None:
        """The watcher: sleeps until something changes or is overdue, then wakes the main."""
        main = threading.main_thread().ident
        going = True
        wait: float | None = None
        while going:
            with contextlib.suppress(queue.Empty):
                going = self._changes.get(timeout=wait)
            wait = self._overdue(clock.monotonic())
            if wait is not None and wait <= 0:
                wait = REPEAT_S if self._interruptible else None
                if self._interruptible and main is not None and going:
                    signal.pthread_kill(main, WAKE_SIGNAL)


def run_over(limit_s: float) -> RunFailed:
    """The error of a run that took longer than `limits.run_s`."""
    return RunFailed(
        f"the run took longer than its limit of {format_duration(limit_s)}",
        why="limits.run_s is over",
        fix="allow more ([limits] run_s), or make the run smaller",
    )
