"""How long a load's threads were on a processor, and how long they waited for one.

The scheduler's own account (/proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst):
time on a processor, and time runnable but waiting, in ns. Each thread is read several times while
it lives; what lies between its first and its last reading counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from nfslab import clock

if TYPE_CHECKING:
    from collections.abc import Iterable

Reading = tuple[int, int, int]
"""(monotonic ns, ns on a processor, ns waiting for one)."""
Thread = tuple[int, int]
"""(process, thread)."""


@dataclass(slots=True)
class Processors:
    """First and last reading of each thread of this program since the timed part began."""

    program: str
    """As /proc/PID/comm has it: one of another name is none of the load's."""
    _readings: dict[Thread, tuple[Reading, Reading]] = field(default_factory=dict)
    _began: bool = False

    def begin(self) -> None:
        """The timed part begins."""
        self._readings.clear()
        self._began = True

    def read(self, threads: Iterable[Thread]) -> None:
        """Read these now; one that is gone (or of another kernel) is left out."""
        for one in threads if self._began else ():
            now = read_schedstat(*one) if _program(one[0]) == self.program else None
            if now is not None:
                first, _ = self._readings.get(one, (now, now))
                self._readings[one] = (first, now)

    def summary(self) -> dict[str, int]:
        """Sums over the threads, in ns; `watched_ns`: between first and last readings."""
        pairs = self._readings.values()
        sums = [sum(last[k] - first[k] for first, last in pairs) for k in range(3)]
        names = ("watched_ns", "on_cpu_ns", "queued_ns")
        return {"processes": len(pairs)} | dict(zip(names, sums, strict=True))


def read_schedstat(pid: int, tid: int) -> Reading | None:
    """Of a thread of this machine; None: there is none with these numbers."""
    try:
        file = Path("/proc") / str(pid) / "task" / str(tid) / "schedstat"
        running, waiting, _ = file.read_text().split()
        return clock.monotonic_ns(), int(running), int(waiting)
    except (OSError, ValueError):
        return None


def _program(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""
