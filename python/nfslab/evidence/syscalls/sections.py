"""Tables of system calls: by class of files as in 2001, syncs, what they wait for."""

from __future__ import annotations

from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, Final

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

    from nfslab.display.sections import Shown
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
OF_CALLS: Final[list[Shown[Any]]] = [
    (Column("class", numeric=False), lambda row: text(row.file_class)),
    (Column("call", numeric=False), lambda row: text(row.what)),
]
"""What calls are of, in front of a row of any table of them."""


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
    return Table.of("Totals while it was watched", figures.items(), [
        (Column("source", numeric=False), lambda one: text(one[0].partition(".")[0])),
        (Column("figure", numeric=False), lambda one: text(one[0].partition(".")[2])),
        (Column("added"), lambda one: count(one[1])),
    ])  # fmt: skip


def calls_table(
    found: SyscallFacts, rows: Sequence[ClassRow], title: str, first: str = "class"
) -> Table:
    """The table of 2001: how often each call, bytes, mean times, time in syncs."""
    groups = tuple(GROUPS) if found.has_counts else ("fsync", "fdatasync")
    files: Shown[ClassRow] = (Column("files"), lambda row: count(row.files))
    amounts: list[Shown[ClassRow]] = [
        (Column("bytes read"), lambda row: size(row.group("reads").bytes)),
        (Column("bytes written"), lambda row: size(row.group("writes").bytes)),
        (Column("mean read"), lambda row: latency(row.group("reads").mean_ns)),
        (Column("mean write"), lambda row: latency(row.group("writes").mean_ns)),
    ]
    note = "" if found.has_counts else "Level sync: only calls that make bytes durable are seen."
    return Table.of(title, [*rows, found.total] if len(rows) > 1 else rows, [
        (Column(first, numeric=False), lambda row: text(row.name)),
        *[files] * (first == "class"),
        ([Column(name) for name in groups],
         lambda row: [_called(row.group(name)) for name in groups]),
        (Column("others", hint="ftruncate, rename, sync_file_range and so on"), _others),
        (Column("sync writes", hint="O_SYNC, O_DSYNC, RWF_DSYNC: among the writes, too"),
         lambda row: _called(row.synchronous)),
        *amounts * found.has_counts,
        (Column("mean fsync"), lambda row: latency(row.group("fsync").mean_ns)),
        (Column("mean fdatasync"), lambda row: latency(row.group("fdatasync").mean_ns)),
        (Column("time in syncs"), lambda row: latency(row.sync_ns or None)),
    ], note=note)  # fmt: skip


def _others(row: ClassRow) -> Cell:
    others = CallGroup()
    for one in row.others.values():
        others.calls, others.errors = others.calls + one.calls, others.errors + one.errors
    listed = ", ".join(f"{one.calls:,} {name}" for name, one in sorted(row.others.items()))
    return _called(others, listed)


def _called(group: CallGroup, hint: str = "") -> Cell:
    failed = f"{group.errors:,} failed" if group.errors else ""
    plain = count(group.calls)
    return Cell(plain.text, plain.value, plain.tone, "; ".join(t for t in (hint, failed) if t))


def _places_table(rows: Sequence[ClassRow]) -> Table:
    """Where accesses lie, and how large they are."""
    note = "Against the access of the same kind before it on the same file, whoever made it."
    shown = [row for row in rows if row.group("reads").calls or row.group("writes").calls]
    return Table.of("Where reads and writes lie", shown, [
        (Column("class", numeric=False), lambda row: text(row.name)),
        *(([Column(f"{kind}, mean size"),
            *(Column(f"{kind}: {p}", hint=PLACE_HINTS[p]) for p in PLACES[1:])],
           partial(_placed, kind)) for kind in ("reads", "writes")),
    ], note=note)  # fmt: skip


def _placed(kind: str, row: ClassRow) -> list[Cell]:
    group = row.group(kind)
    done = group.calls - group.errors
    mean = size(group.bytes / done if done else None)
    return [mean, *(share(group.share(place)) for place in PLACES[1:])]


def _sync_table(series: Sequence[SeriesFacts]) -> Table:
    """A row a series."""
    return Table.of("Syncs", series, [
        *OF_CALLS,
        (Column("calls"), lambda one: count(one.calls)),
        (Column("failed"), lambda one: count(one.errors)),
        (Column("mean"), lambda one: latency(one.sum_ns / one.calls)),
        ([Column(name) for name in QUANTILE_NAMES],
         lambda one: [latency(value) for value in one.quantiles_ns]),
        (Column("all their time"), lambda one: latency(one.sum_ns)),
        (Column("levels", numeric=False, hint="medians between changes"),
         lambda one: text(levels_text(one))),
    ])  # fmt: skip


def _apart(parts: Sequence[str]) -> list[Shown[Any]]:
    """Calls of a class that were taken apart."""
    return [
        *OF_CALLS,
        (Column("calls"), lambda row: count(row.summary.calls)),
        (Column("mean"), lambda row: latency(row.summary.whole_mean_ns)),
        (part_columns(parts), lambda row: part_cells(row.summary.mean_ns, row.summary.share)),
    ]


def _steps_table(waits: Sequence[StepsRow]) -> Table:
    note = "Mean, and share of the summed time. The steps of each sync sum to its time exactly."
    return Table.of("What syncs on NFS wait for", waits, [
        (Column("target", numeric=False), lambda row: text(row.target)),
        *_apart(STEPS),
        (Column("WRITEs a sync"), lambda row: number(row.writes / row.summary.calls)),
        (Column("bytes a WRITE"),
         lambda row: size(row.write_bytes / row.writes if row.writes else None)),
        (Column("COMMITs a sync"), lambda row: number(row.commits / row.summary.calls)),
        (Column("nothing under way", hint="syncs that had nothing to wait for"),
         lambda row: count(row.without_calls)),
    ], note=note)  # fmt: skip


def _blocks_table(waits: Sequence[BlocksRow]) -> Table:
    note = (
        "By the requests of the file's disks while the sync lasts, whoever caused them; a FUA "
        "write counts as a flush."
    )
    return Table.of("What syncs on local disks wait for", waits, [
        *_apart(PARTS),
        (Column("flushes a sync"), lambda row: number(row.flushes / row.summary.calls)),
        (Column("writes a sync"), lambda row: number(row.writes / row.summary.calls)),
        (Column("bytes a sync"), lambda row: size(row.write_bytes / row.summary.calls)),
        (Column("reads a sync"), lambda row: number(row.reads / row.summary.calls)),
    ], note=note)  # fmt: skip


def syncs_by_point(found: Found[SyscallFacts]) -> Table:
    """Syncs of each point over all its runs: sums are exact, quantiles are medians of the runs'."""
    columns = [
        Column("configuration", numeric=False), Column("class", numeric=False),
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
    return Table("Syncs, by configuration", columns, rows)
