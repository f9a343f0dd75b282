"""What single queries (the workload `sql`) read and wrote, at each place on the way to the storage.

    blocks read     not in the database's buffers, by its own counters
    system calls    bytes that reads of tables, indexes and their maps returned (`syscalls`); of
                    SQLite reads of its log, too, which has pages that are not in the database yet
    asked           bytes of the READs sent in the timed part: by our client's record (`rpc` with
                    `calls = true`), the server's (`nfs_server`, replies with their headers), the
                    kernel's mounts (`mountstats`); without these what the kernel fetched for the
                    database's processes (block devices, its own NFS mounts)

What should hold: system calls return what was read in blocks, but for catalogs that a look at the
counters reads. With cold caches at least that much is asked, and what is asked beyond it is
read-ahead; with warm ones less may be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.display import cells
from nfslab.display.numbers import quantity
from nfslab.display.sections import Cell, Column, Section, Table
from nfslab.evidence.base import EvidenceKind, Facts
from nfslab.evidence.cache import facts_of
from nfslab.evidence.mountstats.kind import MountstatsEvidence
from nfslab.evidence.over_time import NS, middle, read_rows
from nfslab.evidence.same import POINT, RUNS, Same, at_points, median
from nfslab.evidence.syscalls.kind import SyscallsEvidence
from nfslab.results.coded_texts import coded_texts, integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel

    from nfslab.evidence.base import Found, SealedRun

OPERATIONS: Final = "queries"
"""What the workload calls its table of them (`Outcome.operations`)."""
DATA_CLASSES: Final = (
    "PostgreSQL tables and indexes", "PostgreSQL free space and visibility maps",
    "InnoDB data", "InnoDB system tablespace", "InnoDB undo", "SQLite database", "SQLite WAL",
)  # fmt: skip
READS: Final = (("rpc_calls", "count", "NFS"), ("nfs_server_calls", "reply_bytes", "NFS replies"))
"""Table of calls, its column of bytes, what that is called."""
KERNEL: Final = "NFS, kernel"
PROCESSES: Final = "/proc/PID/io"
WRITES_LEAST: Final = 0.01
"""Of the blocks read: with a larger log it is no query that only reads."""
AGREE: Final = 0.01
"""Of the blocks read, that system calls may be off; and SLACK_BYTES."""
SLACK_BYTES: Final = 1 << 20
NOTE: Final = (
    "Of one execution; medians over the runs of a configuration. Blocks read were not in the "
    "database's "
    "buffers, those that it read ahead by itself among them. What stands as – it does not tell. "
    "Asked: READs sent in the timed part, or what the kernel fetched for the database's "
    "processes. Asked / read is of queries that only read: above 1 it is "
    "read-ahead, below 1 the page cache had some."
)
WANTS: Final = (
    'What an NFS server was asked for is told by the collectors "rpc" with calls = true, '
    '"nfs_server", "mountstats" (kernel mounts); what system calls returned by "syscalls".'
)


class QueryFacts(Facts):
    """A run's query; bytes are of one execution."""

    query: str
    latency_ms: float
    read_bytes: float | None
    """None: the database cannot tell them from blocks that it made."""
    hit_bytes: float | None
    """None, of these: the database does not tell."""
    temporary_bytes: float | None
    log_bytes: float | None
    called_bytes: float | None
    asked_bytes: float | None
    asked_of: str
    """Which of the sources of `asked_bytes`; empty: none."""

    @property
    def read_ahead(self) -> float | None:
        """Bytes asked by bytes of blocks read, of a query that only reads."""
        if self.asked_bytes is None or not self.read_bytes:
            return None
        # Where nobody tells what was written it is no query that surely only reads.
        if self.log_bytes is None or self.temporary_bytes != 0:
            return None
        if self.log_bytes > WRITES_LEAST * self.read_bytes:
            return None
        return self.asked_bytes / self.read_bytes

    @property
    def disagrees(self) -> bool:
        """Do system calls and blocks tell different things?"""
        if self.called_bytes is None or self.read_bytes is None:
            return False
        allowed = AGREE * self.read_bytes + SLACK_BYTES
        return abs(self.called_bytes - self.read_bytes) > allowed


class ReadFigures(Facts):
    """Of a point."""

    read_bytes: float | None
    read_ahead: float | None


class QueriesEvidence(EvidenceKind[QueryFacts]):
    """Blocks, system calls, what was asked of the storage."""

    kind: ClassVar[str] = "queries"
    title: ClassVar[str] = "What a query reads"
    Facts: ClassVar[type[Facts]] = QueryFacts
    point_key: ClassVar[str] = "reads"
    point_columns: ClassVar[tuple[Column, ...]] = (
        Column("blocks read", hint="of one execution; not in the database's buffers"),
        Column("asked / read", hint="bytes asked of the storage by bytes of blocks read"),
    )

    def present(self, run: SealedRun) -> bool:
        """Of every run of single queries."""
        return run.record.operations == OPERATIONS

    def facts(self, run: SealedRun) -> QueryFacts | None:
        """Of metrics, and of the other evidence of the run. ResultsError."""
        found = {name: metric.value for name, metric in run.record.metrics.items()}
        number = found.get(OPERATIONS)
        if not number:
            return None
        asked, asked_of = _of_nfs(run, found["measured_s"])
        # Nothing at all may mean that it cannot be seen (FUSE).
        fetched = found.get("fetched_bytes") or None
        called = _called(run)
        return QueryFacts(
            query=str(run.record.parameters.get("workload", {}).get("query", "")),
            latency_ms=found["latency_mean_ms"],
            read_bytes=found.get("read_bytes"),
            hit_bytes=found.get("hit_bytes"),
            temporary_bytes=found.get("temporary_bytes"),
            log_bytes=found.get("log_bytes"),
            called_bytes=None if called is None else called / number,
            asked_bytes=fetched if asked is None else asked / number,
            asked_of=asked_of or (PROCESSES if fetched else ""),
        )

    def at_point(self, runs: Sequence[QueryFacts]) -> ReadFigures | None:
        """Medians."""
        if not runs:
            return None
        return ReadFigures(
            read_bytes=middle(run.read_bytes for run in runs),
            read_ahead=middle(run.read_ahead for run in runs),
        )

    def point_cells(self, figures: BaseModel | None) -> Sequence[Cell]:
        """Below `point_columns`."""
        found = figures if isinstance(figures, ReadFigures) else None
        return [
            cells.size(found.read_bytes if found else None),
            cells.number(found.read_ahead if found else None),
        ]

    def section(self, found: Found[QueryFacts]) -> Section | None:
        """By point."""
        points = at_points(found)
        runs = [run.facts for run in found.runs]
        told = any(run.asked_bytes is not None and run.called_bytes is not None for run in runs)
        return Section(
            self.title,
            anchor=self.kind,
            sentences=_sentences(points),
            tables=[_table(points)],
            notes=[NOTE, *([] if told else [WANTS]), *_disagreements(found)],
        )


def _of_nfs(run: SealedRun, measured_s: float) -> tuple[float | None, str]:
    """Bytes asked of NFS servers in the timed part, and by whose account; (None, ""): none."""
    for table, column, name in READS:
        rows = read_rows(run, table, ["t_ns", "operation", column])
        if rows is not None:
            t_ns = integers(rows["t_ns"])
            names, which = coded_texts(rows["operation"])
            read = names.index("READ") if "READ" in names else -1
            timed = (which == read) & (t_ns >= 0) & (t_ns <= measured_s * NS)
            return float(integers(rows[column], missing=0)[timed].sum()), name
    mounts = facts_of(MountstatsEvidence(), run)
    if mounts is not None and mounts.mounts:
        return float(sum(one.bytes.get("server_read_bytes", 0) for one in mounts.mounts)), KERNEL
    return None, ""


def _called(run: SealedRun) -> int | None:
    """Bytes that reads of the data's files returned; None: they were not watched."""
    seen = facts_of(SyscallsEvidence(), run)
    if seen is None or not seen.has_counts:
        return None
    return sum(one.group("reads").bytes for one in seen.classes if one.name in DATA_CLASSES)


def _table(points: Sequence[Same[QueryFacts]]) -> Table:
    return Table.of("By configuration", points, [
        POINT, RUNS,
        (Column("time"), median(lambda run: run.latency_ms, "ms")),
        (Column("buffers hit"), median(lambda run: run.hit_bytes, "B")),
        (Column("blocks read"), median(lambda run: run.read_bytes, "B")),
        (Column("system calls"), median(lambda run: run.called_bytes, "B")),
        (Column("asked"), median(lambda run: run.asked_bytes, "B")),
        (Column("of", numeric=False),
         lambda one: cells.text(", ".join(sorted({run.asked_of for run in one.runs} - {""})))),
        (Column("asked / read"),
         lambda one: cells.number(middle(run.read_ahead for run in one.runs))),
        (Column("temporary"), median(lambda run: run.temporary_bytes, "B")),
        (Column("log"), median(lambda run: run.log_bytes, "B")),
    ])  # fmt: skip


def _sentences(points: Sequence[Same[QueryFacts]]) -> list[str]:
    known = [(middle(run.read_ahead for run in one.runs), one.point) for one in points]
    ratios = sorted((ratio, label) for ratio, label in known if ratio is not None)
    if len(ratios) < 2:
        return []
    (least, first), (most, last) = ratios[0], ratios[-1]
    return [
        f"For each byte that a query read, the storage was asked for {quantity(least, '1')} "
        f"({first}) to {quantity(most, '1')} ({last})."
    ]


def _disagreements(found: Found[QueryFacts]) -> list[str]:
    return [
        f"{run.label}: system calls returned {run.facts.called_bytes:,.0f} bytes of tables and "
        f"indexes, the database counted {run.facts.read_bytes:,.0f}: one of them is not whole."
        for run in found.runs
        if run.facts.disagrees
    ]
