"""What the machine did: CPU, memory, devices, network, pressure, from /proc at 10 Hz.

The Rust core samples (`_core.SystemSampler`: a thread that never takes Python's lock) and
hands over counters since boot; here they become rates. A rate stands at the time of the
later of the two samples it is made of, and is their exact difference over the exact time
between them, so nothing is lost between samples, and rates weighted by their intervals
add up to what the counters say.

Decisions: a counter that goes down (a device that went and came, an overflow, the kernel's
own correction of idle time) gives no rate: the value is null and the summary counts it.
Sources that a kernel does not have are absent tables or columns, never zeros. All devices
are kept; those below the run's places are marked with their roles and come first. The
summary covers the timed part only (the rate whose interval begins in it), weighted by
time; the tables also show what came before and after.

Limits: CPU time is counted in clock ticks by most kernels, so a single 100 ms sample is
coarse, the mean is not. `utilisation` is the share of time with at least one request; a
device that serves many at once is not full at 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field

from nfslab.errors import RunFailed
from nfslab.evidence.collector import Collector, CollectorParameters, Evidence, Side
from nfslab.machine.availability import Availability, core
from nfslab.quantities import Duration
from nfslab.results.groups import grouped

if TYPE_CHECKING:
    from nfslab._core import SystemSampler
    from nfslab.workloads.base import RunContext

NS_PER_S: Final = 1e9


class SystemCollectorParameters(CollectorParameters):
    """What `[collectors.system]` may hold."""

    interval: Duration = Field(default=0.1, ge=0.01, le=60)
    """Between two samples."""


class SystemCollector(Collector):
    """CPU, memory, devices, network and pressure of the machine."""

    kind: ClassVar[str] = "system"
    summary: ClassVar[str] = "CPU, memory, devices, network and pressure from /proc"
    Parameters: ClassVar[type[CollectorParameters]] = SystemCollectorParameters
    side: ClassVar[Side] = "server"
    of_machine: ClassVar[bool] = True
    parameters: SystemCollectorParameters

    @classmethod
    def available(cls) -> Availability:
        """Is there a /proc, and the core to read it?"""
        if not Path("/proc/stat").exists():
            return Availability(False, "/proc/stat is not there", "mount /proc (Linux only)")
        return core()

    def start(self, context: RunContext) -> None:
        """Take the first sample and go on in a thread of the core."""
        from nfslab._core import CoreError, SystemSampler

        group = context.services.memory_cgroup
        directory = str(group.path) if group is not None else None
        try:
            sampler = SystemSampler(round(self.parameters.interval * NS_PER_S), directory)
            sampler.start()
        except CoreError as error:
            raise RunFailed(
                "the machine cannot be watched",
                why=str(error),
                fix="correct [collectors.system], or leave the collector out",
            ) from error
        self._watch = SystemWatch(sampler, context)


@dataclass(frozen=True, slots=True)
class SystemWatch:
    """One run's sampling."""

    sampler: SystemSampler
    context: RunContext

    def end(self) -> Evidence:
        """Take the last sample; everything as tables, t = 0 at the start of the timed part."""
        from nfslab._core import CoreError
        from nfslab.evidence.system.recording import Recording

        try:
            result = self.sampler.stop()
        except CoreError as error:
            raise RunFailed(
                "the machine could not be watched",
                why=str(error),
                fix="run it again, or leave the collector system out",
            ) from error
        timed = self.context.timed
        places = self.context.places.items()
        roles = grouped((device, role) for role, place in places for device in place.devices)
        recording = Recording(
            result,
            start_ns=timed.start_or(result["start_monotonic_ns"]),
            end_ns=timed.end_ns,
            roles={device: ",".join(names) for device, names in roles.items()},
        )
        cost = result["cost"]
        return Evidence(
            tables=recording.tables(),
            summary=recording.summary(),
            cpu_s=cost["cpu_ns"] / NS_PER_S,
            wall_s=cost["wall_ns"] / NS_PER_S,
        )
