"""Tables of system calls: by class of files as in 2001, syncs, what they wait for."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from nfslab.display.cells import count, latency, number, share, size, text
from nfslab.display.sections import Cell, Column, Table
from nfslab.evidence.found import by_point
from nfslab.evidence.latency_parts import part_cells, part_columns
from nfslab.evidence.syscalls.sentences import levels_text
from nfslab.evidence.syscalls.sync_blocks import PARTS
from nfslab.evidence.syscalls.sync_series import QUANTILES
from nfslab.evidence.syscalls.sync_steps import STEPS
from nfslab.evidence.syscalls.tables import GROUPS, PLACES, CallGroup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.base import Found
    from nfslab.evidence.syscalls.facts import SeriesFacts, SyscallFacts
    from nfslab.evidence.syscalls.sync_blocks import BlocksRow
    from nfslab.evidence.syscalls.sync_steps import StepsRow
    from nfslab.evidence.syscalls.tables import ClassRow

PLACE_HINTS: Final = {
    "sequential": "begins where the access before ended",
    "rewrite": "begins within the one before",
    "forward": "begins beyond its end",
    "backward": "begins before it",
}
QUANTILE_NAMES: Final = tuple("max" if q == 1 else f"p{q * 100:g}" for q in QUANTILES)


def tables_of(facts: SyscallFacts) -> list[Table]:
    """All tables that there is something for, in the order of the page."""
    made = []
    if facts.classes:
        made.append(calls_table(facts, facts.classes, "Calls by class of files"))
        if facts.has_counts:
            made.append(_places_table(facts.classes))
    if facts.files:
        made.append(calls_table(facts, facts.files, "Calls by file", first="file"))
    if facts.series:
        made.append(_sync_table(facts.series))
    if facts.watch.get("way") == "views" and facts.watch.get("figures"):
        made.append(_totals_table(facts.watch["figures"]))
    if facts.waits.steps:
        made.append(_steps_table(facts.waits.steps))
    if facts.waits.blocks:
        made.append(_blocks_table(facts.waits.blocks))
    return made


def _totals_table(figures: Mapping[str, int]) -> Table:
    """What PostgreSQL's views and /proc counted: there are no calls by class."""
    columns = [Column("source", numeric=False), Column("figure", numeric=False), Column("added")]
    cells = []
    for name, value in figures.items():
        source, _, figure = name.partition(".")
        cells.append([text(source), text(figure), count(value)])
    return Table("Totals while it was watched", columns, cells)


def calls_table(
    found: SyscallFacts, rows: Sequence[ClassRow], title: str, first: str = "class"
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
    found: SyscallFacts, row: ClassRow, groups: Sequence[str], with_files: bool
) -> list[Cell]:
    cells = [text(row.name)]
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


def _called(group: CallGroup, hint: str = "") -> Cell:
    failed = f"{group.errors:,} failed" if group.errors else ""
    plain = count(group.calls)
    return Cell(plain.text, plain.value, plain.tone, "; ".join(t for t in (hint, failed) if t))


def _places_table(rows: Sequence[ClassRow]) -> Table:
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
        line = [text(row.name)]
        for group in groups:
            done = group.calls - group.errors
            line.append(size(group.bytes / done if done else None))
            line += [share(group.share(place)) for place in PLACES[1:]]
        cells.append(line)
    return Table(
        "Where reads and writes lie", columns, cells,
        "Against the access of the same kind before it on the same file, whoever made it.",
    )  # fmt: skip


def _sync_table(series: Sequence[SeriesFacts]) -> Table:
    """A row a series."""
    columns = [
        Column("class", numeric=False), Column("call", numeric=False), Column("calls"),
        Column("failed"), Column("mean"), *(Column(name) for name in QUANTILE_NAMES),
        Column("all their time"), Column("levels", numeric=False, hint="medians between changes"),
    ]  # fmt: skip
    rows = [
        [
            text(one.file_class), text(one.what), count(one.calls),
            count(one.errors), latency(one.sum_ns / one.calls),
            *(latency(value) for value in one.quantiles_ns), latency(one.sum_ns),
            text(levels_text(one)),
        ]
        for one in series
    ]  # fmt: skip
    return Table("Syncs", columns, rows)


def _steps_table(waits: Sequence[StepsRow]) -> Table:
    columns = [Column(name, numeric=False) for name in ("target", "class", "call")]
    columns += [Column("calls"), Column("mean"), *part_columns(STEPS)]
    columns += [Column("WRITEs a sync"), Column("bytes a WRITE"), Column("COMMITs a sync")]
    columns += [Column("nothing under way", hint="syncs that had nothing to wait for")]
    rows = []
    for row in waits:
        n = row.summary.calls
        cells = [text(row.target), text(row.file_class), text(row.what)]
        cells += [
            count(n),
            latency(row.summary.whole_mean_ns),
            *part_cells(row.summary.mean_ns, row.summary.share),
        ]
        cells += [number(row.writes / n)]
        cells += [size(row.write_bytes / row.writes if row.writes else None)]
        cells += [number(row.commits / n), count(row.without_calls)]
        rows.append(cells)
    return Table(
        "What syncs on NFS wait for", columns, rows,
        "Mean, and share of the summed time. The steps of each sync sum to its time exactly.",
    )  # fmt: skip


def _blocks_table(waits: Sequence[BlocksRow]) -> Table:
    columns = [Column("class", numeric=False), Column("call", numeric=False)]
    columns += [Column("calls"), Column("mean"), *part_columns(PARTS)]
    columns += [Column(f"{name} a sync") for name in ("flushes", "writes", "bytes", "reads")]
    rows = []
    for row in waits:
        n = row.summary.calls
        cells = [text(row.file_class), text(row.what), count(n)]
        cells += [
            latency(row.summary.whole_mean_ns),
            *part_cells(row.summary.mean_ns, row.summary.share),
        ]
        cells += [number(v / n) for v in (row.flushes, row.writes)]
        cells += [size(row.write_bytes / n), number(row.reads / n)]
        rows.append(cells)
    return Table(
        "What syncs on local disks wait for", columns, rows,
        "By the requests of the file's disks while the sync lasts, whoever caused them; a FUA "
        "write counts as a flush.",
    )  # fmt: skip


def syncs_by_point(found: Found[SyscallFacts]) -> Table:
    """Syncs of each point over all its runs: sums are exact, quantiles are medians of the runs'."""
    columns = [
        Column("point", numeric=False), Column("class", numeric=False),
        Column("call", numeric=False), Column("runs"), Column("calls"), Column("failed"),
        Column("mean"),
        *(Column(name, hint="the median of the runs'") for name in QUANTILE_NAMES[:-1]),
        Column("max"), Column("time a run"),
    ]  # fmt: skip
    rows = []
    for _, label, runs in by_point(found):
        groups: dict[tuple[str, str], list[SeriesFacts]] = {}
        for one in (one for run in runs for one in run.facts.series):
            groups.setdefault((one.file_class, one.what), []).append(one)
        for (file_class, what), series in groups.items():
            calls, sum_ns = sum(s.calls for s in series), sum(s.sum_ns for s in series)
            quantiles = list(zip(*(s.quantiles_ns for s in series), strict=True))
            cells = [text(label), text(file_class), text(what), count(len(series)), count(calls)]
            cells += [count(sum(s.errors for s in series)), latency(sum_ns / calls)]
            cells += [latency(median(values)) for values in quantiles[:-1]]
            rows.append([*cells, latency(max(quantiles[-1])), latency(sum_ns / len(series))])
    return Table("Syncs, by point", columns, rows)
