"""What the kernel's NFS client counts of the run's mounts, once a second and over the timed part.

How it is read: `nfslab.evidence.polled`. A mount that was made anew meanwhile (counters begin at
zero) gives no row for that interval, and no totals: the run says so.

Cost: Evidence.cpu_s is what reading and differencing took; docs/kernel-nfs.md has figures.

Limits: the kernel counts a call when it ends. It sums times to whole milliseconds: over an interval
with few calls a mean is as coarse as one millisecond by the number of calls. Mounts of one server
may share connections; their transports then count the calls of all of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field

from nfslab import clock
from nfslab.evidence.collector import Collector, CollectorParameters, Side
from nfslab.evidence.polled import NS_PER_S, ROWS_MAX, PolledWatch, table_of
from nfslab.machine.availability import Availability
from nfslab.quantities import Duration
from nfslab.storage import mountstats
from nfslab.storage.mountstats import MountCounts, counts_at, rates, read_counts, since

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from nfslab.targets.base import Place
    from nfslab.workloads.base import RunContext

KERNEL_NFS: Final = ("nfs", "nfs4")
COUNTS: Final = (
    "calls", "sends", "timeouts", "bytes_sent", "bytes_received", "queue_ms", "round_trip_ms",
    "execute_ms", "errors",
)  # fmt: skip
TRANSPORT_COUNTS: Final = (
    "connects", "sends", "receives", "bad_xids", "in_flight", "backlog", "slots_max", "sending",
    "pending",
)  # fmt: skip

_TYPES: Final = {"target": "string", "operation": "string", "protocol": "string"}
"""Columns that are no numbers; a transport's number is one."""


class MountstatsParameters(CollectorParameters):
    """What `[collectors.mountstats]` may hold."""

    interval: Duration = Field(default=1.0, ge=0.05, le=60)
    """Between two readings."""


def nfs_mounts(places: Mapping[str, Place]) -> dict[str, str]:
    """Target -> mount point of places that the kernel's NFS client has mounted; each mount once."""
    found: dict[str, str] = {}
    for place in places.values():
        point = str(place.mount_point)
        if place.filesystem in KERNEL_NFS and point not in found.values():
            found[place.target] = point
    return found


class MountstatsCollector(Collector):
    """Counters of the kernel's NFS client."""

    kind: ClassVar[str] = "mountstats"
    summary: ClassVar[str] = "calls, bytes, queue, round trips of the kernel's NFS mounts, at 1 Hz"
    Parameters: ClassVar[type[CollectorParameters]] = MountstatsParameters
    side: ClassVar[Side] = "files"
    parameters: MountstatsParameters

    @classmethod
    def available(cls) -> Availability:
        """Where the kernel shows its mounts' counters."""
        try:
            with open(mountstats.MOUNTSTATS, encoding="ascii", errors="replace") as file:
                file.read(1)
        except OSError as error:
            return Availability(
                False, f"{mountstats.MOUNTSTATS} cannot be read: {error.strerror}", "mount /proc"
            )
        return Availability(True)

    def applies(self, context: RunContext) -> Availability:
        """Is a place of this run on a mount of the kernel's NFS client?"""
        if not nfs_mounts(context.places):
            return Availability(
                False,
                "no place of this run is mounted by the kernel's NFS client",
                'use client = "kernel", or a path on such a mount',
                moot=True,
            )
        return self.available()

    def start(self, context: RunContext) -> None:
        """The first reading, then a thread; RunFailed when a mount cannot be read."""
        watch = _Watch(context, nfs_mounts(context.places), self.parameters.interval)
        watch.begin()
        self._watch = watch


@dataclass
class _Mount:
    """One mount: its readings that are still needed, and the rows made of the others."""

    point: str
    last_ns: int = 0
    last: MountCounts | None = None
    zero_ns: int = 0
    zero: MountCounts | None = None
    """At the start of the timed part."""
    series: list[dict[str, Any]] = field(default_factory=list)
    operations: list[dict[str, Any]] = field(default_factory=list)
    transports: list[dict[str, Any]] = field(default_factory=list)
    renewed: int = 0
    """How often it was another mount than before."""
    left_out: int = 0

    def take(self, at_ns: int, now: MountCounts) -> None:
        """Rows of what was counted since the reading before."""
        before, self.last = self.last, now
        interval_s = (at_ns - self.last_ns) / NS_PER_S
        self.last_ns = at_ns
        if before is None or interval_s <= 0:
            return
        moved = since(now, before)
        if moved is None:
            self.renewed += 1
            return
        moving = {name: one for name, one in moved.operations.items() if one.sends or one.calls}
        if max(len(self.operations) + len(moving), len(self.transports)) > ROWS_MAX:
            self.left_out += 1
            return
        self.series.append({"at_ns": at_ns} | rates(moved, interval_s))
        self.operations += [
            {"at_ns": at_ns, "operation": name} | {key: getattr(one, key) for key in COUNTS}
            for name, one in moving.items()
        ]
        self.transports += [
            {"at_ns": at_ns, "transport": number, "protocol": one.protocol}
            | {key: getattr(one, key) for key in TRANSPORT_COUNTS}
            for number, one in enumerate(moved.transports)
        ]


class _Watch(PolledWatch):
    """A run's mounts."""

    kind = "mountstats"

    def __init__(self, context: RunContext, points: Mapping[str, str], interval_s: float) -> None:
        super().__init__(context, interval_s)
        self.source = mountstats.MOUNTSTATS
        self._mounts = {target: _Mount(point) for target, point in points.items()}
        self._points = frozenset(points.values())

    def read(self) -> None:
        before_ns = clock.monotonic_ns()
        found = read_counts(self._points)
        at_ns = (before_ns + clock.monotonic_ns()) // 2
        for mount in self._mounts.values():
            if (now := counts_at(found, mount.point)) is not None:
                mount.take(at_ns, now)

    def mark(self) -> None:
        for one in self._mounts.values():
            one.zero, one.zero_ns, one.renewed = one.last, one.last_ns, 0

    def missing(self) -> str:
        seen = any(one.last is not None for one in self._mounts.values())
        return "" if seen else "none of the run's mounts is in it"

    def notes(self) -> list[str]:
        notes = []
        for target, one in self._mounts.items():
            if one.last is None:
                notes.append(f"{target}: the kernel shows no counters of {one.point}")
            if one.renewed:
                notes.append(f"{target}: was mounted anew meanwhile: no totals")
            if one.left_out:
                notes.append(f"{target}: {one.left_out} readings are in the totals only")
        return notes

    def tables(self, zero_ns: int) -> dict[str, pa.Table]:
        found = {}
        for kind, usual in (("series", "double"), ("operations", "int64"), ("transports", "int64")):
            rows = [
                {"target": target} | row
                for target, one in self._mounts.items()
                for row in getattr(one, kind)
            ]
            if rows:
                found[f"mountstats_{kind}"] = table_of(rows, zero_ns, _TYPES, usual)
        return found

    def summary(self) -> dict[str, Any]:
        return {"mounts": {target: _totals(one) for target, one in self._mounts.items()}}


def _totals(mount: _Mount) -> dict[str, Any]:
    """Over the timed part: counters of every operation that moved, of each transport, of files."""
    zero, last = mount.zero, mount.last
    if zero is None or last is None or mount.renewed or (moved := since(last, zero)) is None:
        return {}
    return {
        "source": last.source,
        "mount_point": last.mount_point,
        "version": last.version,
        "options": last.options,
        "wall_s": (mount.last_ns - mount.zero_ns) / NS_PER_S,
        "operations": [
            {"operation": name} | asdict(one)
            for name, one in moved.operations.items()
            if one.calls or one.sends
        ],
        "transports": [asdict(one) | {"rdma": list(one.rdma)} for one in moved.transports],
        "events": moved.events,
        "bytes": moved.bytes,
    }
