"""How busy was the machine before a run began, and during it? Load, pressure, who used the CPUs.

CPU time per process is read from its CPU clock (clock_getcpuclockid(3)): nanoseconds for
the whole process, where /proc/<pid>/stat counts in hundredths of a second, too coarse for
a window of less than a tenth. Processes that were born or that ended inside the window
show only as the difference between what the CPUs did and what was attributed.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, field
from typing import Any

from nfslab import clock
from nfslab.machine.cpu_times import process_cpu_ns, read_cpu_times
from nfslab.machine.processes import (
    CLOCK_TICKS_PER_S,
    all_statuses,
    descendants_of,
    find_ours,
    ourselves,
    status_of,
)
from nfslab.machine.readings import Reader

WINDOW_S = 0.06
PROCESSES_MAX = 100_000
KERNEL = 2
"""kthreadd: the kernel's threads, which work for whoever asks, are its children."""
SHOWN = 8
"""Busiest processes that are named."""
SHARE_SHOWN = 0.005
"""Less than this share of one CPU is not worth a name."""


@dataclass(slots=True)
class LoadWindow:
    """CPU time of all processes at one instant; `finish` compares with a later one."""

    begin_ns: int = field(default_factory=clock.monotonic_ns)
    clocks_ns: dict[int, int] = field(default_factory=lambda: _clocks())
    busy_ticks: int | None = field(default_factory=lambda: _busy_ticks())

    def finish(self, reader: Reader, token: str = "") -> dict[str, Any]:
        """Load before the start; waits until the window is long enough to mean something.

        What carries the token is the run's own, as we are."""
        left_s = WINDOW_S - (clock.monotonic_ns() - self.begin_ns) / 1e9
        if left_s > 0:
            clock.sleep(left_s)
        after, busy = _clocks(), _busy_ticks()
        window_ns = clock.monotonic_ns() - self.begin_ns
        used = {
            pid: (cpu_ns - self.clocks_ns[pid]) / window_ns
            for pid, cpu_ns in after.items()
            if pid in self.clocks_ns
        }
        ours = {os.getpid()}
        if token:
            ours |= {one.identity.pid for one in find_ours(token)}
        own = sum(used.pop(pid, 0.0) for pid in ours)
        cpus_busy = None
        if busy is not None and self.busy_ticks is not None:
            cpus_busy = (busy - self.busy_ticks) / CLOCK_TICKS_PER_S * 1e9 / window_ns
        return {
            "window_ns": window_ns,
            "load_average": [float(w) for w in (reader.text("/proc/loadavg") or "").split()[:3]],
            "pressure": {
                name: _pressure(reader.text(f"/proc/pressure/{name}"))
                for name in ("cpu", "memory", "io")
            },
            "cpus_busy": cpus_busy,
            "others_cpus": sum(used.values()),
            "own_cpus": own,
            "top": _named(used),
        }


@dataclass(slots=True)
class OthersWindow:
    """CPU time of programs that are not a run's, from now on."""

    begin_ns: int = field(default_factory=clock.monotonic_ns)
    clocks_ns: dict[int, int] = field(default_factory=lambda: _clocks())

    def finish(self, token: str) -> float:
        """Share of all processors, 0 to 1, of programs that are neither ours, nor started by the
        run with this token, nor the kernel's threads. What ended before now is not in it."""
        after, window_ns = _clocks(), clock.monotonic_ns() - self.begin_ns
        statuses = all_statuses()
        ours = {KERNEL, *ourselves(statuses), *(one.identity.pid for one in find_ours(token))}
        ours |= {*descendants_of([os.getpid()], statuses, PROCESSES_MAX)}
        others = {one.identity.pid for one in statuses if one.parent != KERNEL} - ours
        used_ns = sum(
            cpu_ns - self.clocks_ns.get(pid, 0) for pid, cpu_ns in after.items() if pid in others
        )
        return used_ns / window_ns / (os.cpu_count() or 1)


def is_here(host: str) -> bool:
    """Is it a name or an address of this machine? One that nobody knows may be."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return True
    for family, kind, *_, address in found:
        # Only an own address can be bound (bind(2), EADDRNOTAVAIL).
        with contextlib.suppress(OSError), socket.socket(family, kind) as one:
            one.bind(address)
            return True
    return False


def _clocks() -> dict[int, int]:
    """Process id -> CPU nanoseconds used so far."""
    found: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and len(found) < PROCESSES_MAX:
            used_ns = process_cpu_ns(int(name))
            if used_ns is not None:
                found[int(name)] = used_ns
    return found


def _busy_ticks() -> int | None:
    """Ticks that all CPUs together were not idle."""
    times = read_cpu_times()
    return None if times is None else times.busy_ticks


def _pressure(text: str | None) -> dict[str, dict[str, float]] | None:
    """Shares of time (per cent) of the last 10, 60, 300 s, and microseconds since boot."""
    if text is None:
        return None
    found = {}
    for line in text.splitlines():
        name, *pairs = line.split()
        found[name] = {key: float(value) for key, value in (p.split("=") for p in pairs)}
    return found


def _named(used: dict[int, float]) -> list[dict[str, Any]]:
    """The busiest processes, as shares of one CPU."""
    top = sorted(used.items(), key=lambda item: -item[1])[:SHOWN]
    named = []
    for pid, share in top:
        status = status_of(pid)
        if share >= SHARE_SHOWN and status is not None:
            named.append({"pid": pid, "name": status.name, "cpus": round(share, 3)})
    return named
