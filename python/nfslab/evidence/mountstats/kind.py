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
from nfslab.evidence.by_mount import by_mount, by_operation, series_table
from nfslab.evidence.over_time import PanelSpec, middle, named_panel, read_named
from nfslab.storage.mountstats import OperationCounts, TransportCounts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from nfslab.display.figures import Panel
    from nfslab.display.sections import Cell
    from nfslab.evidence.base import Found, SealedRun

    Mounted = tuple[str, str, list["MountFacts"]]
    """Point, target, its facts in every run."""

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
        {"queue_ms": "queue", "round_trip_ms": "round trip", "execute_ms": "whole call"},
    ),
    PanelSpec(
        "mountstats_waiting", "Kernel NFS calls waiting at a send", "1",
        {"backlog": "for a slot", "in_flight": "for a reply"},
    ),
    PanelSpec(
        "mountstats_again", "Kernel NFS calls sent again, timeouts", "1/s",
        {"again_per_s": "sent again", "timeouts_per_s": "timeouts"},
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
        notes = dict.fromkeys(
            f"{run.label}: {note}" for run in found.runs for note in run.facts.notes
        )
        mounts = by_mount(found, lambda facts: facts.mounts)
        tables = [_mount_table(mounts), _operation_table(mounts), _transport_table(mounts)]
        return Section(
            self.title,
            anchor=self.kind,
            intro="As /proc/self/mountstats counts it over the timed part; medians over the runs "
            "of a point.",
            sentences=_sentences(mounts),
            tables=[table for table in tables if table.rows],
            notes=[*notes, NOTE],
        )

    def panels(self, run: SealedRun) -> Sequence[Panel]:
        """Calls, bytes, times, what waits, what was sent again."""
        wanted = [name for spec in _SERIES for name in spec.labels]
        series = read_named(run, "mountstats_series", "target", wanted)
        return [panel for spec in _SERIES for panel in named_panel(spec, series)]


def _mount(target: str, totals: Mapping[str, Any]) -> MountFacts:
    kept = {name: totals[name] for name in MountFacts.model_fields if name in totals}
    return MountFacts.model_validate(kept | {"target": target})


def _sentences(mounts: Sequence[Mounted]) -> list[str]:
    """What went wrong: it stands first."""
    made = []
    for label, target, same in mounts:
        again = sum(one.sum("sends") - one.sum("calls") for one in same)
        timeouts = sum(one.sum("timeouts") for one in same)
        if again > 0 or timeouts:
            made.append(
                f"{label}, {target}: {again:,} calls were sent again, "
                f"{timeouts:,} waited for a major timeout."
            )
        if connects := sum(one.of_transports("connects") for one in same):
            made.append(f"{label}, {target}: connections were made anew {connects:,} times.")
    return made


def _mount_table(mounts: Sequence[Mounted]) -> Table:
    columns = [
        Column("point", False), Column("mount", False), Column("in effect", False),
        Column("runs"), Column("calls"), Column("sent"), Column("received"), Column("queue"),
        Column("round trip"), Column("whole call"), Column("sent again"),
        Column("major timeouts"), Column("errors", hint="replies with another status than OK"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for label, target, same in mounts:
        rows.append(
            [
                cells.text(label),
                cells.text(target),
                cells.text(same[0].protocol(), hint=same[0].options),
                cells.count(len(same)),
                cells.quantity(middle(m.sum("calls") / m.wall_s for m in same), "1/s"),
                cells.quantity(middle(m.sum("bytes_sent") / m.wall_s for m in same), "B/s"),
                cells.quantity(middle(m.sum("bytes_received") / m.wall_s for m in same), "B/s"),
                cells.latency(middle(m.by_call_ns("queue_ms") for m in same)),
                cells.latency(middle(m.by_call_ns("round_trip_ms") for m in same)),
                cells.latency(middle(m.by_call_ns("execute_ms") for m in same)),
                cells.count(sum(m.sum("sends") - m.sum("calls") for m in same), "warning"),
                cells.count(sum(m.sum("timeouts") for m in same), "severe"),
                cells.count(sum(m.sum("errors") for m in same)),
            ]
        )
    return Table("Mounts", columns, rows)


def _operation_table(mounts: Sequence[Mounted]) -> Table:
    columns = [
        Column("point", False), Column("mount", False), Column("operation", False),
        Column("calls"), Column("sent a call"), Column("received a call"), Column("queue"),
        Column("round trip"), Column("whole call"), Column("sent again"), Column("errors"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for label, target, same in mounts:
        all_ = (one for mount in same for one in mount.operations)
        for name, ones in by_operation(all_, OPERATIONS_MOST):
            rows.append([cells.text(label), cells.text(target), cells.text(name), *_cells(ones)])
    note = "NFSv4: an operation is a COMPOUND of the kernel's, named after what it is sent for."
    return Table("Operations", columns, rows, note)


def _cells(ones: Sequence[OperationFacts]) -> list[Cell]:
    return [
        cells.quantity(middle(one.calls for one in ones), "1"),
        cells.size(middle(one.bytes_by_call("bytes_sent") for one in ones)),
        cells.size(middle(one.bytes_by_call("bytes_received") for one in ones)),
        *(
            cells.latency(middle(one.by_call_ns(name) for one in ones))
            for name in ("queue_ms", "round_trip_ms", "execute_ms")
        ),
        cells.count(sum(one.sends - one.calls for one in ones), "warning"),
        cells.count(sum(one.errors or 0 for one in ones)),
    ]


def _transport_table(mounts: Sequence[Mounted]) -> Table:
    columns = [
        Column("point", False), Column("mount", False), Column("connection"),
        Column("sends"), Column("replies"), Column("in flight", hint="mean at a send"),
        Column("backlog", hint="mean of calls without a slot at a send"),
        Column("most slots", hint="used at once since the mount"), Column("connected anew"),
        Column("bad xids", hint="replies to no call"),
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for label, target, same in mounts:
        most = max(len(mount.transports) for mount in same)
        for number in range(min(most, TRANSPORTS_MOST)):
            ones = [m.transports[number] for m in same if number < len(m.transports)]
            rows.append(
                [
                    cells.text(label),
                    cells.text(target),
                    cells.count(number + 1),
                    cells.quantity(middle(one.sends for one in ones), "1"),
                    cells.quantity(middle(one.receives for one in ones), "1"),
                    cells.quantity(middle(one.by_send("in_flight") for one in ones), "1"),
                    cells.quantity(middle(one.by_send("backlog") for one in ones), "1"),
                    cells.quantity(middle(one.slots_max for one in ones), "1"),
                    cells.count(sum(one.connects for one in ones), "warning"),
                    cells.count(sum(one.bad_xids for one in ones), "warning"),
                ]
            )
    return Table("Connections", columns, rows, open=False)
