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
from nfslab.evidence.capture import gaps
from nfslab.evidence.capture.section import capture_section
from nfslab.evidence.capture.stored import ANALYSIS_TABLE, stored_analysis
from nfslab.evidence.found import by_point, parts_of, problem
from nfslab.evidence.over_time import middle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab._core import OperationRow
    from nfslab.display.sections import Cell
    from nfslab.evidence.base import Found, RunFacts, SealedRun

OPERATIONS_MOST: Final = 12
"""Rows of a point, the most frequent operations first."""
INTRO: Final = (
    "Every NFS call, out of the packets on the wire; latencies run from the first byte of a call's "
    "first send to the first byte of its first reply. Medians over the runs of a point."
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
        points = [(label, [run.facts for run in runs]) for _, label, runs in by_point(found)]
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
        made = capture_section(capture, self.kind, by=())
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
    light = replace(capture, blobs={})
    made = capture_section(light, name, load=partial(_again, run.run))
    return replace(made, notes=_notes(run, made.notes))


def _again(run: SealedRun) -> CaptureAnalysis:
    capture = stored_analysis(run.folder, run.run_id)
    if capture is None:
        raise ResultsError(f"{run.run_id} has no capture any more", fix="restore it from a copy")
    return capture


def _notes(run: RunFacts[CaptureFacts], notes: Sequence[str]) -> list[str]:
    return [*run.facts.notes, *notes]


def _whole(points: Sequence[tuple[str, Sequence[CaptureFacts]]]) -> Table:
    """A row a point: calls, what held them up, what is missing."""
    held = [k for k in HELD_UP if any(k in run.stalls for _, runs in points for run in runs)]
    columns = [
        Column("point", False), Column("runs"), Column("calls"), Column("without reply"),
        Column("sent again"),
    ]  # fmt: skip
    for kind in held:
        _, name, meaning = gaps.KINDS[kind]
        columns += [Column(name, hint=meaning), Column("time")]
    columns += [
        Column(
            "in the network", hint="share of the time of the calls that could be split, if most"
        ),
        Column("in the server"),
        Column("lost by the capture"),
    ]
    rows: list[list[Cell]] = []
    for label, runs in points:
        row = [
            cells.text(label),
            cells.count(len(runs)),
            cells.number(middle(run.calls for run in runs)),
            cells.count(sum(run.unanswered for run in runs), "severe"),
            cells.count(sum(run.retransmissions for run in runs), "warning"),
        ]
        for kind in held:
            found = [run.stalls[kind] for run in runs if kind in run.stalls]
            row.append(cells.count(sum(one.count for one in found), "warning"))
            row.append(cells.latency(sum(one.time_ns for one in found)))
        told = [run.split for run in runs if run.split_calls >= causes.SPLIT_FROM * run.calls]
        for part in ("network", "server"):
            row.append(cells.share(middle(split.get(part) for split in told)))
        rows.append([*row, cells.size(sum(run.lost_bytes for run in runs))])
    note = "Calls and shares: medians over the runs of a point; the other columns: sums."
    return Table("Captures", columns, rows, note)


def _operations(points: Sequence[tuple[str, Sequence[CaptureFacts]]]) -> Table:
    """A row a point and operation: medians of the runs' figures."""
    quantiles = ("mean", "p50", "p99", "max")
    rows: list[list[Cell]] = []
    for label, runs in points:
        by_name: dict[str, list[CapturedOperation]] = {}
        for run in runs:
            for one in run.operations:
                by_name.setdefault(one.operation, []).append(one)
        ordered = sorted(by_name.items(), key=lambda item: -sum(one.calls for one in item[1]))
        for name, same in ordered[:OPERATIONS_MOST]:
            latencies = (middle(one.latency_ns.get(key) for one in same) for key in quantiles)
            rows.append(
                [
                    cells.text(label),
                    cells.text(name),
                    cells.number(middle(one.calls for one in same)),
                    *map(cells.latency, latencies),
                ]
            )
    columns = [Column("point", False), Column("operation", False), Column("calls")]
    columns += [*map(Column, quantiles)]
    note = "Medians over the runs of each run's figure."
    return Table("Operations by point", columns, rows, note)
