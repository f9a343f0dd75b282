"""A program that nfslab has started: watching it, ending it, and what CPU time it took.

A started program leads a process group (and session) of its own. Its end is learnt through
a pidfd, so that waiting with a time limit needs no polling, and it is reaped with wait4(2),
which tells the CPU time of the program and of the children that it waited for. As long as
it is not reaped its number cannot be given to another process: that is why the group is
signalled before, never after.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import TYPE_CHECKING

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine.processes import CLOCK_TICKS_PER_S, all_statuses, status_of

if TYPE_CHECKING:
    import subprocess

    from nfslab.machine.resources import Entry

KILL_LIMIT_S = 10.0
"""How long a program may take to vanish after SIGKILL."""
GROUP_LIMIT_S = 2.0
"""How long the others of its group may take; what is left then is found by the journal."""
GROUP_POLL_S = 0.005
TELL_POLL_S = 0.005
SEE_LOG = "see what it says in its log, which lies with the run's"


class Process:
    """A started program, journalled. Made by `Host.spawn`."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        argv: list[str],
        entry: Entry,
        stop_signal: int,
        started_monotonic_ns: int,
    ) -> None:
        self.pid = popen.pid
        self.argv = argv
        self.started_monotonic_ns = started_monotonic_ns
        self._popen = popen
        self._entry = entry
        self._stop_signal = stop_signal
        self._returncode: int | None = None
        self._cpu_s = (0.0, 0.0)
        self._lock = threading.Lock()
        entry.reaped_by(self.poll)

    def __repr__(self) -> str:
        return f"Process({self.pid}, {self.argv!r})"

    def poll(self) -> int | None:
        """Exit code (minus the signal when one ended it); None while it runs."""
        with self._lock:
            if self._returncode is None:
                self._reap(os.WNOHANG)
            return self._returncode

    def tell(self, text: bytes, timeout_s: float) -> None:
        """Write to its standard input (spawned with `stdin="pipe"`).

        RunFailed when it has ended or closed its input, or does not read within the time; then
        part of the text may have been written.
        """
        deadline = clock.monotonic() + timeout_s
        left = memoryview(text)
        while left:
            try:
                left = left[self._tell_some(left) :]
            except BlockingIOError:
                wait_s = deadline - clock.monotonic()
                if wait_s <= 0:
                    raise RunFailed(
                        f"{self.argv[0]} did not listen for {timeout_s:g} s", fix=SEE_LOG
                    ) from None
                clock.sleep(min(wait_s, TELL_POLL_S))
            except OSError as error:
                why = error.strerror or str(error)
                raise RunFailed(f"{self.argv[0]} listens no more", why=why, fix=SEE_LOG) from error

    def _tell_some(self, text: memoryview) -> int:
        """As much as the pipe takes; under the lock nobody closes it (and its number)."""
        with self._lock:
            pipe = self._popen.stdin
            if pipe is None or pipe.closed:
                raise RunFailed(f"{self.argv[0]} cannot be told anything", why="no open input")
            os.set_blocking(pipe.fileno(), False)
            return os.write(pipe.fileno(), text)

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end; RunFailed when `timeout_s` is over (it goes on running)."""
        if not self.ended_within(timeout_s):
            raise RunFailed(f"{self.argv[0]} still runs after {timeout_s:g} s", fix=SEE_LOG)
        with self._lock:
            if self._returncode is None:
                self._reap(0)
            assert self._returncode is not None
            return self._returncode

    def stop(self, signal: int | None = None, grace_s: float = 5.0) -> int:
        """Ask it to end, after the grace insist; its whole group goes. The exit code.

        `signal` defaults to the one given to `spawn`, SIGTERM unless said otherwise.
        """
        if (code := self.poll()) is not None:
            return code
        self._signal_group(signal or self._stop_signal)
        self.ended_within(grace_s)
        # Also what is left of the group. The leader is not waited for yet, so the number
        # of its group cannot have been given to anyone else.
        self._signal_group(9)
        self._await_group()
        return self.wait(KILL_LIMIT_S)

    def _await_group(self) -> None:
        """Wait until nobody but the leader is left: a killed process takes a moment."""
        deadline = clock.monotonic() + GROUP_LIMIT_S
        while clock.monotonic() < deadline and any(
            status.group == self.pid and status.alive and status.identity.pid != self.pid
            for status in all_statuses()
        ):
            clock.sleep(GROUP_POLL_S)

    def cpu_s(self) -> tuple[float, float]:
        """CPU seconds (user, system) so far; after the end: exact, from wait4(2)."""
        if self.poll() is None and (status := status_of(self.pid)) is not None:
            user = status.user_ticks + status.waited_user_ticks
            system = status.system_ticks + status.waited_system_ticks
            return user / CLOCK_TICKS_PER_S, system / CLOCK_TICKS_PER_S
        return self._cpu_s

    def ended_within(self, timeout_s: float | None) -> bool:
        """Wait, without reaping, until it ended (True) or the time is over (False)."""
        if self.poll() is not None:
            return True
        deadline = None if timeout_s is None else clock.monotonic() + timeout_s
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return self._ended_within_polling(deadline)
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        try:
            while True:
                left = None if deadline is None else deadline - clock.monotonic()
                if poller.poll(None if left is None else max(0, int(left * 1000) + 1)):
                    return True
                if left is not None and left <= 0:
                    return False
        finally:
            os.close(descriptor)

    def _ended_within_polling(self, deadline: float | None) -> bool:
        """The same where the kernel has no pidfd (before 5.3)."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while self._returncode is None and os.waitid(os.P_PID, self.pid, flags) is None:
            if deadline is not None and clock.monotonic() > deadline:
                return False
            clock.sleep(0.01)
        return True

    def _reap(self, flags: int) -> None:
        """wait4; the caller holds the lock."""
        pid, status, usage = os.wait4(self.pid, flags)
        if pid == 0:
            return
        self._cpu_s = (usage.ru_utime, usage.ru_stime)
        self._returncode = os.waitstatus_to_exitcode(status)
        # So that Popen does not wait for a stranger that got the number meanwhile.
        self._popen.returncode = self._returncode
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):
                self._popen.stdin.close()
        self._entry.release()

    def _signal_group(self, number: int) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._returncode is None:
                os.killpg(self.pid, number)
