"""How long a load's backends were on a processor, and how long they waited for one.

The scheduler's own account (/proc/PID/schedstat, Documentation/scheduler/sched-stats.rst): time on
a processor, and time runnable but waiting, in ns. Each process is read several times while it
lives; what lies between its first and its last reading counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Reading = tuple[int, int, int]
"""(monotonic ns, ns on a processor, ns waiting for one)."""


@dataclass(slots=True)
class Processors:
    """First and last reading of each process since the timed part began."""

    _readings: dict[int, tuple[Reading, Reading]] = field(default_factory=dict)
    _began: bool = False

    def begin(self) -> None:
        """The timed part begins."""
        self._readings.clear()
        self._began = True

    def read(self, pids: Iterable[int]) -> None:
        """Read these processes now; one that is gone (or of another kernel) is left out."""
        for pid in pids if self._began else ():
            now = read_schedstat(pid)
            if now is not None:
                first, _ = self._readings.get(pid, (now, now))
                self._readings[pid] = (first, now)

    def summary(self) -> dict[str, int]:
        """Sums over the processes, in ns; `watched_ns`: between first and last readings."""
        pairs = self._readings.values()
        sums = [sum(last[k] - first[k] for first, last in pairs) for k in range(3)]
        names = ("watched_ns", "on_cpu_ns", "queued_ns")
        return {"processes": len(pairs)} | dict(zip(names, sums, strict=True))


def read_schedstat(pid: int) -> Reading | None:
    """Of a PostgreSQL process of this machine; None: there is none with that number."""
    folder = Path("/proc") / str(pid)
    try:
        if (folder / "comm").read_text().strip() != "postgres":
            return None
        running, waiting, _ = (folder / "schedstat").read_text().split()
        return monotonic_ns(), int(running), int(waiting)
    except (OSError, ValueError):
        return None
