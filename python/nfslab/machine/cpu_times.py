"""CPU time as the kernel accounts it: of all CPUs together, and of one process.

Two sources. /proc/stat (proc_stat(5)) has the time of all CPUs by kind in clock ticks
(10 ms): exact over seconds, coarse over tenths. A process's CPU clock (clock_getcpuclockid(3))
has nanoseconds for all its threads, where /proc/PID/stat counts ticks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from nfslab.machine.processes import CLOCK_TICKS_PER_S

KINDS: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""In the order of /proc/stat; guest time is part of user and would count twice."""
IDLE: Final = ("idle", "iowait")
BUSY: Final = ("user", "nice", "system", "irq", "softirq")


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Time of all CPUs together since boot (or of a span), in clock ticks."""

    ticks: tuple[int, ...]
    """As `KINDS`."""
    cpus: int
    """CPUs that were online."""

    @property
    def busy_ticks(self) -> int:
        """Not idle; time that a hypervisor took counts as busy."""
        return sum(self.ticks) - sum(self.ticks[KINDS.index(kind)] for kind in IDLE)

    def since(self, earlier: CpuTimes) -> dict[str, float]:
        """CPU seconds by kind between two readings; what the kernel took back counts as zero."""
        return {
            kind: max(0, now - then) / CLOCK_TICKS_PER_S
            for kind, now, then in zip(KINDS, self.ticks, earlier.ticks, strict=True)
        }


def read_cpu_times() -> CpuTimes | None:
    """The counters now; None where there is no /proc/stat."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            text = file.read()
    except OSError:
        return None
    return parse_cpu_times(text)


def parse_cpu_times(text: str) -> CpuTimes | None:
    """The content of /proc/stat; None when it has no line of all CPUs."""
    lines = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    if not lines or lines[0][0] != "cpu" or len(lines[0]) <= len(KINDS):
        return None
    ticks = tuple(int(word) for word in lines[0][1 : 1 + len(KINDS)])
    return CpuTimes(ticks, len(lines) - 1)


def process_cpu_ns(pid: int) -> int | None:
    """CPU nanoseconds that a process has used so far; None when there is none."""
    try:
        # The kernel's encoding of "CPU clock of this process" as a clock's number.
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return None
