"""The captures of an experiment's runs: facts of all of them, sections of some.

Facts are the counts, latencies and stalls of a run's capture. What single runs show (sentences,
tables, figures) is made of the stored analysis, as `nfslab trace` makes it of a file.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.captures import causes
from nfslab.captures.analysis import CaptureAnalysis, is_inner
from nfslab.captures.spelling import operation
from nfslab.display import cells
from nfslab.display.sections import Column, Section, Table
from nfslab.errors import ResultsError
from nfslab.evidence.base import ColumnSpec, EvidenceKind, Facts, TableSpec
from nfslab.evidence.by_mount import operations_of
from nfslab.evidence.call_counts.counts import NOT_DERIVED, why_incomplete
from nfslab.evidence.capture import gaps
from nfslab.evidence.capture.section import capture_section
from nfslab.evidence.capture.stored import ANALYSIS_TABLE, stored_analysis
from nfslab.evidence.found import parts_of, problem
from nfslab.evidence.over_time import middle
from nfslab.evidence.same import OPERATION, POINT, RUNS, at_points, median, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab._core import OperationRow
    from nfslab.display.sections import Cell
    from nfslab.evidence.base import Found, RunFacts, SealedRun
    from nfslab.evidence.same import Same, ToCell

COLLECTOR: Final = "capture"
OPERATIONS_MOST: Final = 12
"""Rows of a point, the most frequent operations first."""
INTRO: Final = (
    "Every NFS call, out of the packets on the wire; latencies run from the first byte of a call's "
    "first send to the first byte of its first reply. Medians over the runs of a configuration."
)
HELD_UP: Final = (
    "server_stalled", "server_restarted", "connection_reset", "network_loss", "server_full",
    "client_full", "told_to_wait", "client_waited", "connection_waited", "client_paused",
)  # fmt: skip


class CapturedOperation(Facts):
    """One operation of a run; inner ones are those inside COMPOUNDs."""

    operation: str
    inner: bool
    calls: int
    unanswered: int
    retransmissions: int
    errors: dict[str, int]
    bytes_read: int
    bytes_written: int
    latency_ns: dict[str, float]
    """"min", "mean", "p50", "p90", "p99", "p999", "max"; empty without a reply."""


class Stalls(Facts):
    """Gaps of one kind."""

    count: int
    time_ns: int


class CaptureFacts(Facts):
    """One run."""

    packets: int
    bytes: int
    length_ns: int
    """From the first packet to the last."""
    calls: int
    unanswered: int
    retransmissions: int
    lost_bytes: int
    lost_gaps: int
    kernel_dropped_packets: int | None
    """None: the tool did not say."""
    operations: tuple[CapturedOperation, ...]
    stalls: dict[str, Stalls]
    split: dict[str, float]
    """Of the time of all calls that could be split: share by part ("network", "server")."""
    split_calls: int
    anomalies: dict[str, int]
    notes: tuple[str, ...]
    """What the collector said."""


class CaptureEvidence(EvidenceKind[CaptureFacts]):
    """NFS calls from the packets on the wire."""

    kind: ClassVar[str] = "capture"
    title: ClassVar[str] = "NFS calls"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        TableSpec(
            ANALYSIS_TABLE,
            (
                ColumnSpec("t_ns", "int64", "ns"),
                ColumnSpec("name", "string"),
                ColumnSpec("dtype", "string"),
                ColumnSpec("data", "large_binary"),
            ),
        ),
    )
    Facts: ClassVar[type[Facts]] = CaptureFacts
    version: ClassVar[int] = 2
    json_key: ClassVar[str] = "captures"

    def facts(self, run: SealedRun) -> CaptureFacts | None:
        """Of the stored analysis."""
        capture = stored_analysis(run.folder, run.run_id)
        return None if capture is None else facts_of(capture, run.summary("capture"))

    def section(self, found: Found[CaptureFacts]) -> Section | None:
        """By point of all runs; single runs as parts."""
        problems: list[str] = []
        parts, left_out = parts_of(found, partial(_part, problems=problems))
        if len(found.runs) == 1 and parts:
            return replace(parts[0], title=self.title, anchor=self.kind)
        points = at_points(found)
        return Section(
            self.title,
            anchor=self.kind,
            intro=INTRO,
            tables=[table for table in (_whole(points), _operations(points)) if table.rows],
            notes=left_out,
            problems=problems,
            parts=parts,
        )

    def run_section(self, run: RunFacts[CaptureFacts]) -> Section | None:
        """Without the tables by file, client and user, which the page has."""
        capture = stored_analysis(run.run.folder, f"capture of {run.run.run_id}")
        if capture is None:
            return None
        made = capture_section(_whole_only(capture, run), self.kind, by=())
        sentences = [made.intro, *made.sentences]
        return replace(made, title=self.title, sentences=sentences, notes=_notes(run, made.notes))


def facts_of(capture: CaptureAnalysis, summary: Mapping[str, Any]) -> CaptureFacts:
    """The facts of one capture; `summary` is the collector's."""
    content = capture.content
    rows = [row for row in content["operations"] if row["calls"]]
    whole, stalls = causes.all_calls(capture), content.get("stalls")
    return CaptureFacts(
        packets=content["packets"],
        bytes=content["bytes"],
        length_ns=capture.duration_ns,
        calls=capture.calls,
        unanswered=sum(row["unanswered"] for row in capture.outer),
        retransmissions=sum(row["retransmissions"] for row in capture.outer),
        lost_bytes=content["lost"]["bytes"],
        lost_gaps=content["lost"]["gaps"],
        kernel_dropped_packets=summary.get("kernel_dropped_packets"),
        operations=tuple(_operation(row) for row in rows),
        stalls={
            kind: Stalls(count=total["count"], time_ns=total["time_ns"])
            for kind, total in (stalls["totals"] if stalls else {}).items()
        },
        split={} if whole is None else causes.shares(whole),
        split_calls=0 if whole is None else whole["calls"],
        anomalies={entry["kind"]: entry["count"] for entry in content["anomalies"]},
        notes=tuple(summary.get("notes", [])),
    )


def _operation(row: OperationRow) -> CapturedOperation:
    return CapturedOperation(
        operation=operation(row),
        inner=is_inner(row),
        calls=row["calls"],
        unanswered=row["unanswered"],
        retransmissions=row["retransmissions"],
        errors=row["errors"],
        bytes_read=row["bytes_read"],
        bytes_written=row["bytes_written"],
        latency_ns={name: value for name, value in row["latency_ns"].items() if value is not None},
    )


def _part(run: RunFacts[CaptureFacts], problems: list[str]) -> Section | None:
    """One run as a page shows it; its figures read the tables again when they are drawn."""
    label = f"{run.label} ({run.run.run_id})"
    folder = run.run.folder
    try:
        capture = stored_analysis(folder, label)
    except ResultsError as error:
        problems.append(problem(run.run.run_id, error))
        return None
    if capture is None:
        return None
    name = "capture-" + re.sub(r"[^A-Za-z0-9-]", "-", run.run.run_id)
    # Only what is JSON stays in memory until the page is written.
    light = replace(_whole_only(capture, run), blobs={})
    made = capture_section(light, name, load=partial(_again, run.run))
    return replace(made, notes=_notes(run, made.notes))


def _again(run: SealedRun) -> CaptureAnalysis:
    capture = stored_analysis(run.folder, run.run_id)
    if capture is None:
        raise ResultsError(f"{run.run_id} has no capture any more", fix="restore it from a copy")
    return capture


def _whole_only(capture: CaptureAnalysis, run: RunFacts[CaptureFacts]) -> CaptureAnalysis:
    """Without how files are accessed where calls are missing: it is told by what lies between."""
    if not why_incomplete(run.run.record, COLLECTOR):
        return capture
    content: Any = {name: part for name, part in capture.content.items() if name != "access"}
    return replace(capture, content=content)


def _notes(run: RunFacts[CaptureFacts], notes: Sequence[str]) -> list[str]:
    lacks = why_incomplete(run.run.record, COLLECTOR)
    what = "order, sizes and stability of READs and WRITEs"
    said = [NOT_DERIVED.format(lacks=lacks, what=what)] if lacks else []
    return [*said, *run.facts.notes, *notes]


def _whole(points: Sequence[Same[CaptureFacts]]) -> Table:
    """A row a point: calls, what held them up, what is missing."""
    held = [k for k in HELD_UP if any(k in run.stalls for at in points for run in at.runs)]
    note = "Calls and shares: medians over the runs of a configuration; the other columns: sums."
    return Table.of("Captures", points, [
        POINT, RUNS,
        (Column("calls"), _median_calls),
        (Column("without reply"), total(lambda run: run.unanswered, "severe")),
        (Column("retransmitted"), total(lambda run: run.retransmissions, "warning")),
        *((_held_columns(kind), partial(_held_cells, kind)) for kind in held),
        ([Column("in the network", hint="share of the time of the calls that could be split, "
                 "if most"), Column("in the server")], _split),
        (Column("lost by the capture"),
         lambda at: cells.size(sum(run.lost_bytes for run in at.runs))),
    ], note=note)  # fmt: skip


def _median_calls(at: Same[CaptureFacts] | Same[CapturedOperation]) -> Cell:
    return cells.number(middle(one.calls for one in at.runs))


def _held_columns(kind: str) -> list[Column]:
    _, name, meaning = gaps.KINDS[kind]
    return [Column(name, hint=meaning), Column("time")]


def _held_cells(kind: str, at: Same[CaptureFacts]) -> list[Cell]:
    found = [run.stalls[kind] for run in at.runs if kind in run.stalls]
    count, time_ns = sum(one.count for one in found), sum(one.time_ns for one in found)
    return [cells.count(count, "warning"), cells.latency(time_ns)]


def _split(at: Same[CaptureFacts]) -> list[Cell]:
    told = [run.split for run in at.runs if run.split_calls >= causes.SPLIT_FROM * run.calls]
    return [cells.share(middle(one.get(part) for one in told)) for part in ("network", "server")]


def _latency(key: str) -> ToCell:
    return median(lambda one: one.latency_ns.get(key), "ns")


def _operations(points: Sequence[Same[CaptureFacts]]) -> Table:
    """A row a point and operation: medians of the runs' figures."""
    return Table.of("Operations by configuration", operations_of(points, OPERATIONS_MOST), [
        POINT, OPERATION,
        (Column("calls"), _median_calls),
        *((Column(key), _latency(key)) for key in ("mean", "p50", "p99", "max")),
    ], note="Medians over the runs of each run's figure.")  # fmt: skip
