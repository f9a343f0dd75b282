"""What the threads of MariaDB's clients wait for, looked at now and then.

For where pauses cannot be timed: /proc/PID/task/TID/syscall (proc_pid_syscall(5)). A look is at an
instant drawn evenly from its interval, and is of all threads of the load's connections, one by one;
the interval grows so that looking takes a hundredth of a processor at most. Needs the right to
read that file (ptrace(2), PTRACE_MODE_ATTACH), and x86-64.

Limits: a thread that is running, and one that waits for a processor, look the same.
"""

from __future__ import annotations

import platform
import random
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.errors import Unavailable
from nfslab.evidence.mariadb.calls import Wait, state_of, wait_of
from nfslab.results.core_tables import typed_table

if TYPE_CHECKING:
    import pyarrow as pa

WAITS_TABLE: Final = "mariadb_waits"
INTERVAL_NS: Final = 10_000_000
REST: Final = 100
"""Looks are so far apart that they take this part of the time."""
STRETCH_NS: Final = 200_000_000
"""Looks are counted by stretches of time so long."""
ROWS_MOST: Final = 1_000_000
RUNNING: Final = "running"
MACHINE: Final = "x86_64"


class ThreadLooks:
    """Looks from a thread of its own until it is stopped."""

    def __init__(self, pid: int, seed: int) -> None:
        """Unavailable: it may not be looked at."""
        from nfslab._core import program_image

        self._folder = Path("/proc") / str(pid) / "task"
        self._random = random.Random(seed)
        self._tids: tuple[int, ...] = ()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nfslab-mariadb-looks", daemon=True)
        self._stretches: list[tuple[int, int, int, Counter[int | None]]] = []
        self.cpu_ns = 0
        self.looks = 0
        if platform.machine() != MACHINE:
            raise _unseen(f"only calls of {MACHINE} are known")
        try:
            self._program = range(*program_image(pid))
            (self._folder / str(pid) / "syscall").read_text(encoding="ascii")
        except OSError as error:
            raise _unseen(str(error)) from error

    def watch(self, tids: set[int]) -> None:
        """The threads of the load, as they are told."""
        self._tids = tuple(tids)

    def begin(self) -> None:
        """The timed part begins."""
        self._thread.start()

    def end(self, zero_ns: int, class_of: dict[int, str]) -> pa.Table:
        """t_ns (a stretch's end), over_ns, wait ("running"), file_class, threads (mean number)."""
        import pyarrow as pa

        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()
        rows = []
        for begun_ns, ended_ns, looks, seen in self._stretches:
            sums: Counter[Wait] = Counter()
            for state, times in seen.items():
                sums[Wait(RUNNING, "") if state is None else wait_of(state, class_of)] += times
            for wait, times in sums.items():
                rows.append((ended_ns - zero_ns, ended_ns - begun_ns, *wait, times / looks))
        types: dict[str, Any] = {"t_ns": pa.int64(), "over_ns": pa.int64()}
        types |= {"wait": pa.string(), "file_class": pa.string(), "threads": pa.float64()}
        return typed_table(rows, types)

    def _run(self) -> None:
        interval_ns = INTERVAL_NS
        while not self._over.is_set() and len(self._stretches) < ROWS_MOST:
            begun_ns, looks, seen = clock.monotonic_ns(), 0, Counter[int | None]()
            while clock.monotonic_ns() - begun_ns < STRETCH_NS:
                before_ns = clock.thread_cpu_ns()
                looks += self._look(seen)
                took_ns = clock.thread_cpu_ns() - before_ns
                self.cpu_ns += took_ns
                interval_ns = max(INTERVAL_NS, REST * took_ns)
                # Two draws around the mean: instants do not fall into step with the load.
                if clock.wait(self._over, self._random.uniform(0.0, 2.0) * interval_ns / 1e9):
                    break
            if looks:
                self._stretches.append((begun_ns, clock.monotonic_ns(), looks, seen))
                self.looks += looks

    def _look(self, seen: Counter[int | None]) -> int:
        """1; 0 where there is no thread yet."""
        for tid in self._tids:
            try:
                line = (self._folder / str(tid) / "syscall").read_text(encoding="ascii")
            except OSError:  # it has ended
                continue
            seen[state_of(line, self._program)] += 1
        return 1 if self._tids else 0


def _unseen(why: str) -> Unavailable:
    return Unavailable("threads are not looked at", why=why, fix=f"run as root, on {MACHINE}")
