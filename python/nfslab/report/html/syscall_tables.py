"""Tables of system calls: by class of files as in 2001, syncs, steps, block requests.

Built of the page's cells; the terminal and Markdown print the same cells as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.evidence.syscalls.sync_blocks import PARTS
from nfslab.evidence.syscalls.sync_series import QUANTILES
from nfslab.evidence.syscalls.sync_steps import STEPS
from nfslab.evidence.syscalls.tables import GROUPS, PLACES, CallGroup
from nfslab.report.html.capture.cells import Cell, Column, Table, count, latency, share, size, text
from nfslab.report.html.wording import ABSENT, quantity
from nfslab.report.syscalls import levels_text
from nfslab.report.text import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.syscalls.tables import ClassRow, Syscalls
    from nfslab.report.syscalls import WatchedCalls
    from nfslab.statistics.latency_parts import PartsSummary

PLACE_HINTS: Final = {
    "sequential": "begins where the access before ended",
    "rewrite": "begins within the one before",
    "forward": "begins beyond its end",
    "backward": "begins before it",
}
NAME_LENGTH_MOST: Final = 36
"""Of a class, to stand on one line."""
QUANTILE_NAMES: Final = tuple("max" if q == 1 else f"p{q * 100:g}" for q in QUANTILES)


def tables_of(calls: WatchedCalls, *, by_file: bool = False) -> list[Table]:
    """All tables that there is something for, in the order of the page."""
    found = calls.found
    made = []
    if found.classes:
        made.append(calls_table(found, found.classes, "Calls by class of files"))
        if found.has_counts:
            made.append(places_table(found.classes))
    if by_file and found.files:
        made.append(calls_table(found, found.files, "Calls by file", first="file"))
    if found.series:
        made.append(sync_table(found))
    if calls.summary.get("way") == "views" and calls.summary.get("figures"):
        made.append(_totals_table(calls))
    if calls.steps is not None and calls.steps.rows:
        made.append(_steps_table(calls))
    if calls.blocks is not None and calls.blocks.rows:
        made.append(_blocks_table(calls))
    return made


def _totals_table(calls: WatchedCalls) -> Table:
    """What PostgreSQL's views and /proc counted: there are no calls by class."""
    columns = [Column("source", numeric=False), Column("figure", numeric=False), Column("added")]
    cells = []
    for name, value in calls.summary["figures"].items():
        source, _, figure = name.partition(".")
        cells.append([text(source, "nowrap"), text(figure, "nowrap"), count(value)])
    return Table("Totals while it was watched", columns, cells)


def calls_table(
    found: Syscalls, rows: Sequence[ClassRow], title: str, first: str = "class"
) -> Table:
    """The table of 2001: how often each call, bytes, mean times, time in syncs."""
    groups = tuple(GROUPS) if found.has_counts else ("fsync", "fdatasync")
    columns = [Column(first, numeric=False)]
    if first == "class":
        columns.append(Column("files"))
    columns += [Column(name) for name in groups]
    columns.append(Column("others", hint="ftruncate, rename, sync_file_range and so on"))
    columns.append(Column("sync writes", hint="O_SYNC, O_DSYNC, RWF_DSYNC: among the writes, too"))
    if found.has_counts:
        columns += [Column("bytes read"), Column("bytes written"), Column("mean read")]
        columns.append(Column("mean write"))
    columns += [Column("mean fsync"), Column("mean fdatasync"), Column("time in syncs")]
    shown = [*rows, found.total] if len(rows) > 1 else rows
    cells = [_calls_row(found, row, groups, first == "class") for row in shown]
    note = "" if found.has_counts else "Level sync: only calls that make bytes durable are seen."
    return Table(title, columns, cells, note)


def _calls_row(
    found: Syscalls, row: ClassRow, groups: Sequence[str], with_files: bool
) -> list[Cell]:
    cells = [_name(row.name)]
    cells += [count(row.files)] if with_files else []
    cells += [_called(row.group(name)) for name in groups]
    others = CallGroup()
    for one in row.others.values():
        others.calls, others.errors = others.calls + one.calls, others.errors + one.errors
    listed = ", ".join(f"{one.calls:,} {name}" for name, one in sorted(row.others.items()))
    cells += [_called(others, listed), _called(row.synchronous)]
    if found.has_counts:
        reads, writes = row.group("reads"), row.group("writes")
        cells += [size(reads.bytes), size(writes.bytes)]
        cells += [latency(reads.mean_ns), latency(writes.mean_ns)]
    cells += [latency(row.group(name).mean_ns) for name in ("fsync", "fdatasync")]
    return [*cells, latency(row.sync_ns or None)]


def _name(name: str) -> Cell:
    """Of a class or a file: a long one (a relation's, a path) takes two lines."""
    return text(name, "nowrap" if len(name) <= NAME_LENGTH_MOST else "")


def _called(group: CallGroup, hint: str = "") -> Cell:
    failed = f"{group.errors:,} failed" if group.errors else ""
    plain = count(group.calls)
    return Cell(plain.text, plain.value, plain.style, "; ".join(t for t in (hint, failed) if t))


def places_table(rows: Sequence[ClassRow]) -> Table:
    """Where accesses lie, and how large they are."""
    columns = [Column("class", numeric=False)]
    for kind in ("reads", "writes"):
        columns.append(Column(f"{kind}, mean size"))
        columns += [Column(f"{kind}: {p}", hint=PLACE_HINTS[p]) for p in PLACES[1:]]
    cells = []
    for row in rows:
        groups = [row.group("reads"), row.group("writes")]
        if not any(group.calls for group in groups):
            continue
        line = [_name(row.name)]
        for group in groups:
            done = group.calls - group.errors
            line.append(size(group.bytes / done if done else None))
            line += [share(group.share(place)) for place in PLACES[1:]]
        cells.append(line)
    return Table(
        "Where reads and writes lie", columns, cells,
        "Against the access of the same kind before it on the same file, whoever made it.",
    )  # fmt: skip


def sync_table(found: Syscalls) -> Table:
    """A row a series."""
    columns = [
        Column("class", numeric=False), Column("call", numeric=False), Column("calls"),
        Column("failed"), Column("mean"), *(Column(name) for name in QUANTILE_NAMES),
        Column("all their time"), Column("levels", numeric=False, hint="medians between changes"),
    ]  # fmt: skip
    rows = [
        [
            _name(one.file_class), text(one.what, "nowrap"), count(one.calls),
            count(one.errors), latency(one.sum_ns / one.calls),
            *(latency(value) for value in one.quantiles_ns), latency(one.sum_ns),
            text(levels_text(one)),
        ]
        for one in found.series
    ]  # fmt: skip
    return Table("Syncs", columns, rows)


def _steps_table(calls: WatchedCalls) -> Table:
    assert calls.steps is not None
    columns = [Column(name, numeric=False) for name in ("target", "class", "call")]
    columns += [Column("calls"), Column("mean"), *_part_columns(STEPS)]
    columns += [Column("WRITEs a sync"), Column("bytes a WRITE"), Column("COMMITs a sync")]
    columns += [Column("nothing under way", hint="syncs that had nothing to wait for")]
    rows = []
    for row in calls.steps.rows:
        n = row.summary.calls
        cells = [text(row.target), _name(row.file_class), text(row.what, "nowrap")]
        cells += [count(n), latency(row.summary.whole_mean_ns), *_part_cells(row.summary)]
        cells += [Cell(f"{row.writes / n:.2f}", row.writes / n)]
        cells += [size(row.write_bytes / row.writes if row.writes else None)]
        cells += [Cell(f"{row.commits / n:.2f}", row.commits / n), count(row.without_calls)]
        rows.append(cells)
    return Table(
        "What syncs on NFS wait for", columns, rows,
        "Mean, and share of the summed time. The steps of each sync sum to its time exactly.",
    )  # fmt: skip


def _blocks_table(calls: WatchedCalls) -> Table:
    assert calls.blocks is not None
    columns = [Column("class", numeric=False), Column("call", numeric=False)]
    columns += [Column("calls"), Column("mean"), *_part_columns(PARTS)]
    columns += [Column(f"{name} a sync") for name in ("flushes", "writes", "bytes", "reads")]
    rows = []
    for row in calls.blocks.rows:
        n = row.summary.calls
        cells = [_name(row.file_class), text(row.what, "nowrap"), count(n)]
        cells += [latency(row.summary.whole_mean_ns), *_part_cells(row.summary)]
        cells += [Cell(f"{v / n:.2f}", v / n) for v in (row.flushes, row.writes)]
        cells += [size(row.write_bytes / n), Cell(f"{row.reads / n:.2f}", row.reads / n)]
        rows.append(cells)
    return Table(
        "What syncs on local disks wait for", columns, rows,
        "By the requests of the file's disks while the sync lasts, whoever caused them; a FUA "
        "write counts as a flush.",
    )  # fmt: skip


def _part_columns(names: Sequence[str]) -> list[Column]:
    return [Column(name, hint="mean, and share of the time") for name in names]


def _part_cells(summary: PartsSummary) -> list[Cell]:
    return [
        Cell(f"{quantity(mean, 'ns')} ({percent(part)})" if part is not None else ABSENT, mean)
        for mean, part in zip(summary.mean_ns, summary.share, strict=True)
    ]
