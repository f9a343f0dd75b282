"""MariaDB under load: facts and section of the collector `mariadb`.

Facts are how many of the load's threads were in each wait, on average over the timed part, and by
how much InnoDB's counters grew. What a thread waits for is told by the system call that it is in,
with the class of its file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.display import cells, numbers
from nfslab.display.sections import Column, Section, Table
from nfslab.evidence.base import ColumnSpec, EvidenceKind, Facts, TableSpec
from nfslab.evidence.mariadb.calls import CLIENT, IDLE
from nfslab.evidence.mariadb.exact_times import BLOCKED, TIMES_TABLE
from nfslab.evidence.mariadb.looks import RUNNING, WAITS_TABLE
from nfslab.evidence.over_time import NS, middle, read_rows
from nfslab.evidence.same import POINT, RUNS, at_points, median, noted
from nfslab.results.evidence_tables import evidence_path, read_evidence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.base import Found, SealedRun
    from nfslab.evidence.same import Same, ToCell

WAITS_MOST: Final = 10
"""Rows of a point; the JSON has all."""
OUTSIDE: Final = (CLIENT, IDLE)
SHOWN: Final = {
    "Innodb_data_fsyncs": ("syncs", "1"),
    "Innodb_os_log_written": ("log written", "B"),
    "Innodb_data_reads": ("reads", "1"),
    "Innodb_data_writes": ("writes", "1"),
    "Innodb_row_lock_waits": ("row lock waits", "1"),
    "Innodb_buffer_pool_wait_free": ("waits for a free page", "1"),
}
"""Counter -> column, its unit; of a transaction."""
NOTE: Final = (
    "A wait is the system call that a thread is blocked in, with the class of its file. "
    '"another\'s flush": one writes and syncs the log for a group; "latch": of a page, an index, '
    "or a mutex. Threads that wait for their client are left out."
)


class ThreadWait(Facts):
    """One wait of the load's threads."""

    wait: str
    threads: float
    """Mean number over the timed part."""
    source: str
    """"exact", or "sampled"."""


class MariadbFacts(Facts):
    """One run."""

    version: str
    threads: int
    """Of connections of the load, that were told."""
    waits: tuple[ThreadWait, ...]
    """The most first; those of the client's time are not among them."""
    per_transaction: dict[str, float]
    """Counter of SHOW GLOBAL STATUS -> its growth over the timed part, of a transaction."""
    notes: tuple[str, ...] = ()
    """What could not be watched, and why."""


class MariadbEvidence(EvidenceKind[MariadbFacts]):
    """Time of the threads and counters of the MariaDB under load."""

    kind: ClassVar[str] = "mariadb"
    title: ClassVar[str] = "What MariaDB did"
    tables: ClassVar[tuple[TableSpec, ...]] = (
        TableSpec(
            TIMES_TABLE,
            (
                ColumnSpec("t_ns", "int64", "ns"),
                ColumnSpec("tid", "int32"),
                ColumnSpec("client", "bool"),
                *(ColumnSpec(name, "string") for name in ("kind", "wait", "file_class")),
                ColumnSpec("ns", "int64", "ns"),
                ColumnSpec("times", "int64", "1"),
            ),
            host="server",
        ),
        TableSpec(
            WAITS_TABLE,
            (
                ColumnSpec("t_ns", "int64", "ns"),
                ColumnSpec("over_ns", "int64", "ns"),
                *(ColumnSpec(name, "string") for name in ("wait", "file_class")),
                ColumnSpec("threads", "double", "1"),
            ),
            host="server",
        ),
    )
    Facts: ClassVar[type[Facts]] = MariadbFacts

    def present(self, run: SealedRun) -> bool:
        """The collector's summary is enough."""
        return bool(run.summary("mariadb"))

    def facts(self, run: SealedRun) -> MariadbFacts:
        """Of the summary and the table of times or looks. ResultsError."""
        summary = run.summary("mariadb")
        metrics = run.record.metrics
        counted = metrics.get(run.record.operations)
        each = counted.value if counted is not None else 0.0
        said = ("not_exact", "not_told", "incomplete")
        return MariadbFacts(
            version=summary.get("version", ""),
            threads=len(summary.get("threads", ())),
            waits=_waits(run, metrics["measured_s"].value if "measured_s" in metrics else 0.0),
            per_transaction={
                name: grown / each for name, grown in summary.get("status", {}).items() if each
            },
            notes=tuple(str(summary[name]) for name in said if name in summary),
        )

    def section(self, found: Found[MariadbFacts]) -> Section | None:
        """Waits and counters by point."""
        points = at_points(found)
        tables = [_counters(points), _wait_table(points)]
        tables = [table for table in tables if table.rows]
        notes = noted(found)
        if not tables and not notes:
            return None
        return Section(
            self.title,
            anchor=self.kind,
            intro="Medians over the runs of a configuration.",
            sentences=_sentences(points),
            tables=tables,
            notes=[*notes, NOTE],
        )


def _waits(run: SealedRun, seconds: float) -> tuple[ThreadWait, ...]:
    if not seconds:
        return ()
    sums: dict[str, float] = {}
    exact = evidence_path(run.folder, TIMES_TABLE).is_file()
    if exact:
        for row in read_evidence(run.folder, TIMES_TABLE).to_pylist():
            if row["client"] and row["wait"] not in OUTSIDE:
                named = _label(row["wait"], row["file_class"])
                name = named if row["kind"] == BLOCKED else row["kind"]
                sums[name] = sums.get(name, 0.0) + row["ns"] / NS / seconds
    else:
        rows = read_rows(run, WAITS_TABLE, ["t_ns", "over_ns", "wait", "file_class", "threads"])
        seen = rows.to_pylist() if rows is not None else []
        seen = [row for row in seen if 0 <= row["t_ns"] - row["over_ns"] <= seconds * NS]
        stretches = {row["t_ns"]: row["over_ns"] for row in seen}
        whole_ns = sum(stretches.values())
        for row in seen:
            if row["wait"] not in OUTSIDE:
                name = _label(row["wait"], row["file_class"])
                mine = row["threads"] * row["over_ns"] / whole_ns
                sums[name] = sums.get(name, 0.0) + mine
    source = "exact" if exact else "sampled"
    ordered = sorted(sums.items(), key=lambda one: -one[1])
    return tuple(ThreadWait(wait=name, threads=mean, source=source) for name, mean in ordered)


def _label(wait: str, file_class: str) -> str:
    return f"{wait}: {file_class}" if file_class else wait


def _counters(points: Sequence[Same[MariadbFacts]]) -> Table:
    known = [at for at in points if any(run.per_transaction for run in at.runs)]
    shown = [(Column(label), _median(name, unit)) for name, (label, unit) in SHOWN.items()]
    return Table.of("InnoDB's counters, of a transaction", known, [POINT, RUNS, *shown])


def _median(counter: str, unit: str) -> ToCell:
    return median(lambda run: run.per_transaction.get(counter), unit)


def _means(runs: Sequence[MariadbFacts]) -> Mapping[str, float]:
    """Medians over the runs (a run that never saw a wait has 0 of it), the most first."""
    names = dict.fromkeys(one.wait for run in runs for one in run.waits)
    tables = [{one.wait: one.threads for one in run.waits} for run in runs if run.waits]
    found = {name: middle(table.get(name, 0.0) for table in tables) or 0.0 for name in names}
    return dict(sorted(found.items(), key=lambda one: -one[1]))


def _wait_table(points: Sequence[Same[MariadbFacts]]) -> Table:
    rows = [
        [cells.text(at.point), cells.text(wait), cells.quantity(threads, "1")]
        for at in points
        for wait, threads in list(_means(at.runs).items())[:WAITS_MOST]
        if threads > 0
    ]
    columns = [Column("configuration", False), Column("wait", False), Column("threads, mean")]
    return Table("What the load's threads did", columns, rows, open=False)


def _sentences(points: Sequence[Same[MariadbFacts]]) -> list[str]:
    said = []
    for at in points:
        waits = [one for one in _means(at.runs).items() if one[0] not in (RUNNING, "queued")]
        if waits and waits[0][1] > 0:
            wait, threads = waits[0]
            said.append(f"{at.point}: most waited for {wait}, {numbers.number(threads)} threads.")
    return said
