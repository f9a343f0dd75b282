"""What the kernel's NFS client counts of the run's mounts, once a second and over the timed part.

    start: a reading ──> one at the start of the timed part, one an interval ──> stop: the last

Decisions. Rows are differences of two readings, at the time of the later one, so nothing is lost
between them. Totals are the difference between the start of the timed part and the last reading,
never a sum of rows. A mount that was made anew meanwhile (counters begin at zero) gives no row for
that interval, and no totals: the run says so.

Cost: Evidence.cpu_s is what reading and differencing took; docs/kernel-nfs.md has figures.

Limits: the kernel counts a call when it ends. It sums times to whole milliseconds: over an interval
with few calls a mean is as coarse as one millisecond by the number of calls. Mounts of one server
may share connections; their transports then count the calls of all of them.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field

from nfslab.errors import RunFailed
from nfslab.evidence.collector import Collector, CollectorParameters, Evidence, Side
from nfslab.machine.availability import Availability
from nfslab.quantities import Duration
from nfslab.storage import mountstats
from nfslab.storage.mountstats import MountCounts, MountstatsError, counts_at, read_counts, since

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from nfslab.targets.base import Place
    from nfslab.workloads.base import RunContext

NS_PER_S: Final = 1e9
ROWS_MAX: Final = 2_000_000
"""Of one table: a mount with 20 operations a second for a day."""
KERNEL_NFS: Final = ("nfs", "nfs4")
COUNTS: Final = (
    "calls", "sends", "timeouts", "bytes_sent", "bytes_received", "queue_ms", "round_trip_ms",
    "execute_ms", "errors",
)  # fmt: skip
TRANSPORT_COUNTS: Final = (
    "connects", "sends", "receives", "bad_xids", "in_flight", "backlog", "slots_max", "sending",
    "pending",
)  # fmt: skip


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
        self.series.append({"at_ns": at_ns} | _rates(moved, interval_s))
        self.operations += [
            {"at_ns": at_ns, "operation": name} | {key: getattr(one, key) for key in COUNTS}
            for name, one in moving.items()
        ]
        self.transports += [
            {"at_ns": at_ns, "transport": number, "protocol": one.protocol}
            | {key: getattr(one, key) for key in TRANSPORT_COUNTS}
            for number, one in enumerate(moved.transports)
        ]


class _Watch:
    """A run's mounts, read by a thread until `end`."""

    def __init__(self, context: RunContext, points: Mapping[str, str], interval_s: float) -> None:
        self._context, self._interval_s = context, interval_s
        self._mounts = {target: _Mount(point) for target, point in points.items()}
        self._points = frozenset(points.values())
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mountstats", daemon=True)
        self._began_ns = time.monotonic_ns()
        self._cpu_s = 0.0
        self._readings = 0
        self._problem = ""

    def begin(self) -> None:
        """RunFailed: it cannot be read, or shows none of the mounts."""
        self._read()
        if not self._problem and all(one.last is None for one in self._mounts.values()):
            self._problem = "none of the run's mounts is in it"
        if self._problem:
            raise RunFailed(
                f"{mountstats.MOUNTSTATS} is of no use",
                why=self._problem,
                fix="leave the collector mountstats out, and please report this with the file",
            )
        self._context.timed.at_start(self._mark)
        self._thread.start()

    def end(self) -> Evidence:
        """The last reading; tables and totals."""
        self._over.set()
        self._thread.join()
        self._read()
        zero_ns = self._context.timed.start_or(self._began_ns)
        notes = self._notes()
        self._context.notes.extend(f"collector mountstats: {note}" for note in notes)
        begun = time.thread_time()
        tables = _tables(self._mounts, zero_ns)
        summary: dict[str, Any] = {
            "mounts": {target: _totals(one) for target, one in self._mounts.items()},
            "interval_s": self._interval_s,
            "readings": self._readings,
            "notes": notes,
        }
        if self._problem:
            summary["incomplete"] = f"reading ended early: {self._problem}"
        return Evidence(
            tables=tables,
            summary=summary,
            cpu_s=self._cpu_s + time.thread_time() - begun,
            wall_s=(time.monotonic_ns() - self._began_ns) / NS_PER_S,
        )

    def _run(self) -> None:
        due = time.monotonic() + self._interval_s
        while not self._over.wait(max(0.0, due - time.monotonic())) and not self._problem:
            self._read()
            # What was missed is not caught up with: a row has its own exact interval.
            due = max(due + self._interval_s, time.monotonic())

    def _mark(self) -> None:
        """The timed part begins now: its totals are counted from here."""
        self._read()
        with self._lock:
            for one in self._mounts.values():
                one.zero, one.zero_ns, one.renewed = one.last, one.last_ns, 0

    def _read(self) -> None:
        with self._lock:
            if self._problem:
                return
            begun = time.thread_time()
            try:
                before_ns = time.monotonic_ns()
                found = read_counts(self._points)
                at_ns = (before_ns + time.monotonic_ns()) // 2
            except (OSError, MountstatsError) as error:
                self._problem = str(error)
                return
            self._readings += 1
            for mount in self._mounts.values():
                if (now := counts_at(found, mount.point)) is not None:
                    mount.take(at_ns, now)
            self._cpu_s += time.thread_time() - begun

    def _notes(self) -> list[str]:
        notes = []
        for target, one in self._mounts.items():
            if one.last is None:
                notes.append(f"{target}: the kernel shows no counters of {one.point}")
            if one.renewed:
                notes.append(f"{target}: was mounted anew meanwhile: no totals")
            if one.left_out:
                notes.append(f"{target}: {one.left_out} readings are in the totals only")
        if self._problem:
            notes.append(f"reading ended early: {self._problem}")
        return notes


def _rates(moved: MountCounts, interval_s: float) -> dict[str, Any]:
    """Of all operations of a mount; a mean without a call is None."""
    whole = moved.sum
    sends = moved.total("sends")

    def by_call(value: int) -> float | None:
        return value / whole.calls if whole.calls else None

    return {
        "calls_per_s": whole.calls / interval_s,
        "sent_bytes_per_s": whole.bytes_sent / interval_s,
        "received_bytes_per_s": whole.bytes_received / interval_s,
        "queue_ms": by_call(whole.queue_ms),
        "round_trip_ms": by_call(whole.round_trip_ms),
        "execute_ms": by_call(whole.execute_ms),
        "again_per_s": (whole.sends - whole.calls) / interval_s,
        "timeouts_per_s": whole.timeouts / interval_s,
        "backlog": moved.total("backlog") / sends if sends else None,
        "in_flight": moved.total("in_flight") / sends if sends else None,
    }


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


_TYPES: Final = {
    "t_ns": "int64", "target": "string", "operation": "string", "protocol": "string",
    "transport": "int64",
}  # fmt: skip


def _tables(mounts: Mapping[str, _Mount], zero_ns: int) -> dict[str, pa.Table]:
    found = {}
    for kind, types in (("series", "double"), ("operations", "int64"), ("transports", "int64")):
        rows = [
            {"t_ns": row["at_ns"] - zero_ns, "target": target} | row
            for target, one in mounts.items()
            for row in getattr(one, kind)
        ]
        if rows:
            found[f"mountstats_{kind}"] = _table(sorted(rows, key=lambda row: row["t_ns"]), types)
    return found


def _table(rows: Sequence[Mapping[str, Any]], type_name: str) -> pa.Table:
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "int64": pa.int64(), "double": pa.float64(), "string": pa.string()
    }  # fmt: skip
    names = [name for name in rows[0] if name != "at_ns"]
    schema = pa.schema([(name, types[_TYPES.get(name, type_name)]) for name in names])
    return pa.table({name: [row[name] for row in rows] for name in names}, schema=schema)
