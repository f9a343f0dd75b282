"""The evidence `wire` in reports: what the network between client and server took, both ways.

Needs both ends' captures of a run: `capture` with all calls, and `capture_server`. One transit
by itself is told with how far the clocks may move it, and not at all where the calls disprove the
clocks; the two together always. Calls that were retransmitted are left out: of how many a figure
is, is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.display import cells
from nfslab.display.numbers import quantity
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import ColumnSpec, EvidenceKind, Facts, TableSpec
from nfslab.evidence.found import by_point
from nfslab.evidence.over_time import middle
from nfslab.evidence.same import POINT, RUNS, Same, median, total
from nfslab.evidence.wire.joined import (
    ALL,
    BACK,
    PARTS,
    SERVER_TABLE,
    THERE,
    HostOnWire,
    WireFacts,
    on_the_wire,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from nfslab.display.sections import Cell, Shown
    from nfslab.evidence.base import Found, SealedRun
    from nfslab.evidence.wire.joined import OperationOnWire

INTRO: Final = (
    "Each call in the captures of both ends. Transit runs from a message's last byte at one end to "
    "the same byte at the other; what a host does is at the host. Clocks that are off move time "
    "from one transit to the other, and leave both together as they are."
)
SEE: Final = (
    "See that both ends saw the same packets (interface, filter), and that nothing between them "
    "changes addresses."
)
SHARE_LEAST: Final = 0.9
"""Of the calls, to say what the network took of all."""
CONTRADICTED: Final = (
    "the clocks of client and server are further apart than they were compared to ({by}): transits "
    "are not told apart"
)


class WireEvidence(EvidenceKind[WireFacts]):
    """What the network took."""

    kind: ClassVar[str] = "wire"
    title: ClassVar[str] = "What the network took"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        TableSpec(
            SERVER_TABLE,
            (
                ColumnSpec("t_ns", "int64", "ns"),
                ColumnSpec("client", "string"),
                ColumnSpec("client_port", "uint16"),
                ColumnSpec("xid", "uint32"),
                ColumnSpec("call_last_ns", "int64", "ns since 1970"),
                ColumnSpec("reply_first_ns", "int64", "ns since 1970"),
                ColumnSpec("reply_last_ns", "int64", "ns since 1970"),
            ),
            "server",
        ),
    )
    Facts: ClassVar[type[Facts]] = WireFacts

    def facts(self, run: SealedRun) -> WireFacts | None:
        """The calls that are in both captures."""
        return on_the_wire(run)

    def section(self, found: Found[WireFacts]) -> Section | None:
        """By point and client host."""
        rows = list(_rows(found))
        sentences = [said for row in rows if row.name == ALL and (said := _said(row))]
        problems = [
            f"{run.label}, {host.host}: no call is in both captures. {SEE}"
            for run in found.runs
            for host in run.facts.hosts
            if not host.rows
        ]
        notes = [note for run in found.runs for host in run.facts.hosts
                 for note in _notes(run.label, host)]  # fmt: skip
        tables = [Table.of("Calls in both captures", rows, COLUMNS)] if rows else []
        return Section(
            self.title,
            anchor=self.kind,
            intro=INTRO,
            sentences=sentences,
            tables=tables,
            notes=notes,
            problems=problems,
        )


Row = Same[tuple["HostOnWire", "OperationOnWire"]]


def _rows(found: Found[WireFacts]) -> Iterator[Row]:
    """An operation of a client host at a point, over its runs."""
    for _, label, runs in by_point(found):
        seen: dict[tuple[str, str], list[tuple[HostOnWire, OperationOnWire]]] = {}
        for host in (host for run in runs for host in run.facts.hosts):
            for row in host.rows:
                seen.setdefault((host.host, row.operation), []).append((host, row))
        for (name, operation), some in seen.items():
            yield Same(label, some, name, operation)


def _part(part: int) -> Callable[[Row], Cell]:
    """A median over the runs; nothing of a way that the clocks do not allow to tell."""
    of = median(lambda one: one[1].summary.mean_ns[part], "ns")

    def cell(row: Row) -> Cell:
        return cells.text("") if part in (THERE, BACK) and _contradicted(row) else of(row)

    return cell


def _contradicted(row: Row) -> bool:
    return any(host.contradicted_ns for host, _ in row.runs)


def _of(figure: Callable[[Any], float | None]) -> Callable[[Row], Cell]:
    return median(lambda one: figure(one[1]), "ns")


COLUMNS: Final[list[Shown[Row]]] = [
    POINT,
    (Column("client host", False), lambda row: cells.text(row.target)),
    (Column("operation", False), lambda row: cells.text(row.name)),
    RUNS,
    (Column("calls"), total(lambda one: one[1].summary.calls)),
    (Column("mean"), _of(lambda row: row.summary.whole_mean_ns)),
    *((Column(name), _part(part)) for part, name in enumerate(PARTS)),
    (Column("clocks", hint="how far time may be on the wrong one of the two transits"),
     median(lambda one: one[0].error_ns, "ns")),
    (Column("both transits, p50"), _of(lambda row: row.ways_p50_ns)),
    (Column("both transits, p99"), _of(lambda row: row.ways_p99_ns)),
]  # fmt: skip


def _said(row: Row) -> str:
    """What the network took of a call, on average; nothing of a part of the calls."""
    hosts = [host for host, _ in row.runs]
    if sum(h.calls for h in hosts) < SHARE_LEAST * sum(h.total for h in hosts):
        return ""

    def mean(figure: Callable[[OperationOnWire], float]) -> float:
        return middle(figure(one) for _, one in row.runs) or 0.0

    there, back = (mean(lambda one, n=part: one.summary.mean_ns[n]) for part in (THERE, BACK))  # type: ignore[misc]
    both = quantity(mean(lambda one: one.summary.mean_ns[THERE] + one.summary.mean_ns[BACK]), "ns")
    whole = quantity(mean(lambda one: one.summary.whole_mean_ns), "ns")
    said = f"{row.point}, {row.target}: of a call's {whole} the network took {both}"
    if not _contradicted(row):
        error = quantity(max(host.error_ns for host in hosts), "ns")
        said += f" ({quantity(there, 'ns')} request, {quantity(back, 'ns')} reply, ±{error})"
    return said + "."


def _notes(label: str, host: HostOnWire) -> Iterator[str]:
    where = f"{label}, {host.host}"
    if host.contradicted_ns:
        by = quantity(host.contradicted_ns, "ns")
        yield f"{where}: {CONTRADICTED.format(by=f'by {by} at least')}."
    if host.left_out:
        listed = ", ".join(f"{count:,} {why}" for why, count in host.left_out.items())
        yield f"{where}: left out {listed}."
