"""What sar printed beside DBT-2's rates: memory in use, CPU by kind, operations of the disks.

Memory in use is all that is not free, caches included, as sar's %memused. CPU shares are of all
processors' time. Operations are reads and writes that the disks themselves completed: partitions
and layers above them would count twice.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nfslab import clock
from nfslab.machine.cpu_times import CpuTimes, read_cpu_times
from nfslab.machine.mounts import SYS
from nfslab.results.records import Metric

READS, WRITES = 0, 4
"""Fields of a disk's `stat` (Documentation/block/stat.rst): operations completed."""
NS_PER_S: Final = 1e9


@dataclass(frozen=True, slots=True)
class MachineUse:
    """Counters at an instant."""

    at_ns: int
    cpu: CpuTimes | None
    disk_operations: int

    @classmethod
    def now(cls) -> MachineUse:
        """Read them."""
        return cls(clock.monotonic_ns(), read_cpu_times(), sum(map(_operations, _disks())))

    def since(self, earlier: MachineUse) -> dict[str, Metric]:
        """Between two readings, under the names of the published table's columns."""
        seconds = (self.at_ns - earlier.at_ns) / NS_PER_S
        used = 1 - os.sysconf("SC_AVPHYS_PAGES") / os.sysconf("SC_PHYS_PAGES")
        found = {"memory_used_pct": Metric(value=100 * used, unit="%")}
        if self.cpu is not None and earlier.cpu is not None:
            spent = self.cpu.since(earlier.cpu)
            whole = sum(spent.values())
            user, system = spent["user"] + spent["nice"], spent["system"]
            if whole > 0:
                found["cpu_user_pct"] = Metric(value=100 * user / whole, unit="%")
                found["cpu_sys_pct"] = Metric(value=100 * system / whole, unit="%")
        operations = (self.disk_operations - earlier.disk_operations) / seconds
        return found | {"io_per_s": Metric(value=operations, unit="1/s")}


def _disks() -> list[Path]:
    """Those that are hardware, or a hypervisor's."""
    return [disk for disk in (SYS / "block").glob("*") if (disk / "device").exists()]


def _operations(disk: Path) -> int:
    try:
        words = (disk / "stat").read_text(encoding="ascii").split()
    except OSError:
        return 0  # it has just gone
    return int(words[READS]) + int(words[WRITES])
