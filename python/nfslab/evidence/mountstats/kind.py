"""Mounts of the kernel's NFS client in reports: facts, section and panels of `mountstats`.

Facts are the totals of the timed part. A mean by call is a sum of the kernel's by its number of
calls, as mountstats(8) of nfs-utils prints it; a rate is a count by the time between the readings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.display import cells
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import EvidenceKind, Facts, TableSpec
from nfslab.evidence.by_mount import by_mount, operations_of, series_table
from nfslab.evidence.over_time import PanelSpec, named_panel, read_named
from nfslab.evidence.same import MOUNT, OPERATION, POINT, RUNS, Same, median, noted, total
from nfslab.storage.mountstats import OperationCounts, TransportCounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from nfslab.display.figures import Panel
    from nfslab.evidence.base import Found, SealedRun

    Mounts = Sequence[Same["MountFacts"]]

MS: Final = 1e6
"""Nanoseconds."""
OPERATIONS_MOST: Final = 12
"""Rows of one mount at one point, the most frequent operations first."""
TRANSPORTS_MOST: Final = 16
_SERIES: Final = (
    PanelSpec("mountstats_calls", "Kernel NFS calls", "1/s", {"calls_per_s": ""}),
    PanelSpec(
        "mountstats_bytes", "Kernel NFS bytes", "B/s",
        {"sent_bytes_per_s": "sent", "received_bytes_per_s": "received"},
    ),
    PanelSpec(
        "mountstats_times", "Kernel NFS times of a call", "ms",
        {"queue_ms": "RPC backlog", "round_trip_ms": "round trip", "execute_ms": "whole call"},
    ),
    PanelSpec(
        "mountstats_waiting", "Kernel NFS calls waiting at a send", "1",
        {"backlog": "for a slot", "in_flight": "for a reply"},
    ),
    PanelSpec(
        "mountstats_again", "Kernel NFS retransmissions, timeouts", "1/s",
        {"again_per_s": "retransmitted", "timeouts_per_s": "timeouts"},
    ),
)  # fmt: skip
NOTE: Final = (
    "The kernel counts a call when it ends and sums times in whole milliseconds. A queue is from "
    "the call until it is first sent, a round trip from its last send to the reply."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationFacts(OperationCounts):
    """One operation of one mount in the timed part, as the kernel counts it."""

    operation: str

    def by_call_ns(self, name: str) -> float | None:
        """A summed time by the number of calls."""
        return getattr(self, name) * MS / self.calls if self.calls else None

    def bytes_by_call(self, name: str) -> float | None:
        """The same of bytes."""
        return getattr(self, name) / self.calls if self.calls else None


@dataclass(frozen=True, slots=True)
class TransportFacts(TransportCounts):
    """One connection in the timed part."""

    def by_send(self, name: str) -> float | None:
        """A sum over sends by their number; None: nothing was sent, or it is not counted."""
        value = getattr(self, name)
        return None if value is None or not self.sends else value / self.sends


class MountFacts(Facts):
    """One mount in the timed part."""

    target: str
    source: str
    version: int
    options: str
    """In effect."""
    wall_s: float
    operations: tuple[OperationFacts, ...]
    transports: tuple[TransportFacts, ...]
    events: dict[str, int]
    bytes: dict[str, int]

    def sum(self, name: str) -> int:
        """A count of all operations."""
        return sum(getattr(one, name) or 0 for one in self.operations)

    def by_call_ns(self, name: str) -> float | None:
        """A summed time of all operations by the number of calls."""
        return self.sum(name) * MS / calls if (calls := self.sum("calls")) else None

    def of_transports(self, name: str) -> int:
        """A count of all connections."""
        return sum(getattr(one, name) or 0 for one in self.transports)

    def protocol(self) -> str:
        """Such as "NFSv4.2, tcp × 4"."""
        given = dict(one.partition("=")[::2] for one in self.options.split(","))
        kinds = sorted({one.protocol for one in self.transports})
        version = given.get("vers", str(self.version))
        return f"NFSv{version}, {'/'.join(kinds)} × {len(self.transports)}"


class MountstatsFacts(Facts):
    """One run."""

    mounts: tuple[MountFacts, ...]
    notes: tuple[str, ...]


class MountstatsEvidence(EvidenceKind[MountstatsFacts]):
    """Calls, bytes, queue, round trips and connections of the kernel's NFS mounts."""

    kind: ClassVar[str] = "mountstats"
    title: ClassVar[str] = "What the kernel's NFS client did"
    tables: ClassVar[tuple[TableSpec, ...]] = (series_table("mountstats_series", _SERIES),)
    Facts: ClassVar[type[Facts]] = MountstatsFacts

    def facts(self, run: SealedRun) -> MountstatsFacts | None:
        """Of the collector's totals."""
        summary = run.summary("mountstats")
        mounts = {name: one for name, one in summary.get("mounts", {}).items() if one}
        notes = tuple(summary.get("notes", []))
        if not mounts and not notes:
            return None
        made = tuple(_mount(name, one) for name, one in mounts.items())
        return MountstatsFacts(mounts=made, notes=notes)

    def section(self, found: Found[MountstatsFacts]) -> Section | None:
        """Mounts, their operations and connections by point."""
        mounts = by_mount(found, lambda facts: facts.mounts)
        tables = [_mount_table(mounts), _operation_table(mounts), _transport_table(mounts)]
        return Section(
            self.title,
            anchor=self.kind,
            intro="As /proc/self/mountstats counts it over the timed part; medians over the runs "
            "of a configuration.",
            sentences=_sentences(mounts),
            tables=[table for table in tables if table.rows],
            notes=[*noted(found), NOTE],
        )

    def panels(self, run: SealedRun) -> Sequence[Panel]:
        """Calls, bytes, times, what waits, what was retransmitted."""
        wanted = [name for spec in _SERIES for name in spec.labels]
        series = read_named(run, "mountstats_series", "target", wanted)
        return [panel for spec in _SERIES for panel in named_panel(spec, series)]


def _mount(target: str, totals: Mapping[str, Any]) -> MountFacts:
    kept = {name: totals[name] for name in MountFacts.model_fields if name in totals}
    return MountFacts.model_validate(kept | {"target": target})


def _sentences(mounts: Mounts) -> list[str]:
    """What went wrong: it stands first."""
    made = []
    for mount in mounts:
        label, target, same = mount.point, mount.target, mount.runs
        again = sum(one.sum("sends") - one.sum("calls") for one in same)
        timeouts = sum(one.sum("timeouts") for one in same)
        if again > 0 or timeouts:
            made.append(
                f"{label}, {target}: {again:,} calls were retransmitted, "
                f"{timeouts:,} waited for a major timeout."
            )
        if connects := sum(one.of_transports("connects") for one in same):
            made.append(f"{label}, {target}: connections were made anew {connects:,} times.")
    return made


def _mount_table(mounts: Mounts) -> Table:
    return Table.of("Mounts", mounts, [
        POINT, MOUNT,
        (Column("in effect", False),
         lambda mount: cells.text(mount.runs[0].protocol(), hint=mount.runs[0].options)),
        RUNS,
        (Column("calls"), median(lambda m: m.sum("calls") / m.wall_s, "1/s")),
        (Column("sent"), median(lambda m: m.sum("bytes_sent") / m.wall_s, "B/s")),
        (Column("received"), median(lambda m: m.sum("bytes_received") / m.wall_s, "B/s")),
        (Column("RPC backlog"), median(lambda m: m.by_call_ns("queue_ms"), "ns")),
        (Column("round trip"), median(lambda m: m.by_call_ns("round_trip_ms"), "ns")),
        (Column("whole call"), median(lambda m: m.by_call_ns("execute_ms"), "ns")),
        (Column("retransmitted"), total(lambda m: m.sum("sends") - m.sum("calls"), "warning")),
        (Column("major timeouts"), total(lambda m: m.sum("timeouts"), "severe")),
        (Column("errors", hint="replies with another status than OK"),
         total(lambda m: m.sum("errors"))),
    ])  # fmt: skip


def _operation_table(mounts: Mounts) -> Table:
    note = "NFSv4: an operation is a COMPOUND of the kernel's, named after what it is sent for."
    return Table.of("Operations", operations_of(mounts, OPERATIONS_MOST), [
        POINT, MOUNT, OPERATION,
        (Column("calls"), median(lambda one: one.calls, "1")),
        (Column("sent a call"), median(lambda one: one.bytes_by_call("bytes_sent"), "B")),
        (Column("received a call"), median(lambda one: one.bytes_by_call("bytes_received"), "B")),
        (Column("RPC backlog"), median(lambda one: one.by_call_ns("queue_ms"), "ns")),
        (Column("round trip"), median(lambda one: one.by_call_ns("round_trip_ms"), "ns")),
        (Column("whole call"), median(lambda one: one.by_call_ns("execute_ms"), "ns")),
        (Column("retransmitted"), total(lambda one: one.sends - one.calls, "warning")),
        (Column("errors"), total(lambda one: one.errors)),
    ], note=note)  # fmt: skip


def _transport_table(mounts: Mounts) -> Table:
    rows = [
        Same(mount.point, [m.transports[number] for m in mount.runs if number < len(m.transports)],
             mount.target, str(number + 1))
        for mount in mounts
        for number in range(min(max(len(m.transports) for m in mount.runs), TRANSPORTS_MOST))
    ]  # fmt: skip
    return Table.of("Connections", rows, [
        POINT, MOUNT,
        (Column("connection"), lambda row: cells.count(int(row.name))),
        (Column("sends"), median(lambda one: one.sends, "1")),
        (Column("replies"), median(lambda one: one.receives, "1")),
        (Column("in flight", hint="mean at a send"),
         median(lambda one: one.by_send("in_flight"), "1")),
        (Column("backlog", hint="mean of calls without a slot at a send"),
         median(lambda one: one.by_send("backlog"), "1")),
        (Column("max slots", hint="used at once since the mount"),
         median(lambda one: one.slots_max, "1")),
        (Column("connected anew"), total(lambda one: one.connects, "warning")),
        (Column("bad xids", hint="replies to no call"),
         total(lambda one: one.bad_xids, "warning")),
    ], open=False)  # fmt: skip
