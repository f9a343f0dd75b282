"""System calls on files, summed up: the table of 2001 by class of files, and the series of syncs.

Flow: tables of a watch (or of a run's folder) -> `SyscallTables` -> `sum_up` -> `Syscalls`. The
columns are those of `crates/python/src/syscall_tables.rs`; in a run's folder with `t_ns` in front,
from the timed start, and with the files' `class`.

Decisions. A file belongs to the class of the first of its names that has one. Calls come from the
totals (`counts`) where the level has them, from the records of single syncs otherwise; then there
is nothing of opens, reads, writes, and it says so (`has_counts`). A write that returns when its
bytes are durable is a write *and* a sync: it stands among the writes, and in a column of its own
that is in no sum with the others. Syncs beyond what is kept as rows are in the totals (`beyond`),
and in no series. Shares of places are of the reads or writes that have a place.

Limits: what was lost, and reads, writes and names that were not kept, are in the watch's figures
and notes, not here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from nfslab.evidence.syscalls.sync_series import (
    NO_FILE,
    OTHER_FILES,
    SYNC_CALLS,
    SyncSeries,
    series_of,
)
from nfslab.evidence.syscalls.totals import totals_of
from nfslab.results.coded_texts import integers
from nfslab.results.evidence_tables import has_evidence, read_evidence

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TABLES: Final = ("files", "syncs", "events", "counts", "blocks", "beyond")
PREFIX: Final = "syscall_"
"""Of the evidence's names: syscall_syncs, ..."""
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "opens": ("open",),
    "reads": ("read", "pread64", "readv", "preadv", "sendfile", "copy_file_range", "splice"),
    "writes": (
        "write",
        "pwrite64",
        "writev",
        "pwritev",
        "sendfile_to",
        "copy_file_range_to",
        "splice_to",
    ),
    "seeks": ("lseek",),
    "closes": ("close",),
    "fsync": ("fsync",),
    "fdatasync": ("fdatasync",),
}
"""Columns of the table, as in 2001. All other calls are in "others", by name."""
PLACES: Final = ("first", "sequential", "rewrite", "forward", "backward")
NO_PLAIN_FILES: Final = (
    "anon_inode:", "/dev/", "/proc/", "/sys/", "pipe:", "socket:", "/memfd:", "/anon_hugepage"
)  # fmt: skip
NO_PLAIN_FILE: Final = "pipes, sockets, devices"
ALL: Final = "all"
FILES_MOST: Final = 2000
"""Rows of a table by file or class (relations are classes); the rest are one row."""


@dataclass(slots=True)
class SyscallTables:
    """What a watch gave; None: this level has none."""

    files: pa.Table
    syncs: pa.Table
    counts: pa.Table | None = None
    events: pa.Table | None = None
    blocks: pa.Table | None = None
    beyond: pa.Table | None = None
    """Totals of syncs for which there was no room as rows (`totals`)."""


@dataclass(slots=True)
class CallGroup:
    """Calls of one kind on one class (or file)."""

    calls: int = 0
    errors: int = 0
    bytes: int = 0
    latency_sum_ns: int = 0
    latency_max_ns: int = 0
    places: list[int] = field(default_factory=lambda: [0] * len(PLACES))

    @property
    def mean_ns(self) -> float | None:
        """Of all calls; None without one."""
        return self.latency_sum_ns / self.calls if self.calls else None

    def share(self, place: str) -> float | None:
        """Of the accesses that followed another one; None without any."""
        followed = sum(self.places[1:])
        return self.places[PLACES.index(place)] / followed if followed else None

    def add(self, row: Mapping[str, Any]) -> None:
        """A row of the totals."""
        self.calls += row["calls"]
        self.errors += row["errors"]
        self.bytes += row["bytes"]
        self.latency_sum_ns += row["latency_sum_ns"]
        self.latency_max_ns = max(self.latency_max_ns, row["latency_max_ns"])
        self.places = [a + b for a, b in zip(self.places, row["places"], strict=True)]


@dataclass(slots=True)
class ClassRow:
    """One class of files, or one file."""

    name: str
    file_class: str
    files: int = 0
    groups: dict[str, CallGroup] = field(default_factory=dict)
    others: dict[str, CallGroup] = field(default_factory=dict)
    """Calls that have no column: ftruncate, rename, sync_file_range, ..."""
    synchronous: CallGroup = field(default_factory=CallGroup)
    """Writes that returned when their bytes were durable (they are in "writes", too)."""

    @property
    def calls(self) -> int:
        """All of them."""
        return sum(one.calls for one in [*self.groups.values(), *self.others.values()])

    @property
    def sync_ns(self) -> int:
        """Time in calls that make bytes durable."""
        known = [self.groups.get("fsync"), self.groups.get("fdatasync")]
        known += [self.others.get(name) for name in SYNC_CALLS]
        return sum(one.latency_sum_ns for one in known if one) + self.synchronous.latency_sum_ns

    def group(self, name: str) -> CallGroup:
        """An empty one where there is none."""
        return self.groups.get(name) or CallGroup()


@dataclass(slots=True)
class Syscalls:
    """Everything of one watch."""

    has_counts: bool
    classes: list[ClassRow] = field(default_factory=list)
    """The most time in syncs first, then the most calls."""
    files: list[ClassRow] = field(default_factory=list)
    series: list[SyncSeries] = field(default_factory=list)
    """The most time first."""
    total: ClassRow = field(default_factory=lambda: ClassRow(ALL, ALL))
    untimed: int = 0
    """Syncs before the timed part: in nothing here."""


def with_classes(files: pa.Table, classes: Sequence[tuple[str, str]]) -> pa.Table:
    """The table of files with a column `class` (null: none of them matches)."""
    from nfslab._core import classify_paths

    paths = [path or "" for path in files["path"].to_pylist()]
    found = [
        NO_PLAIN_FILE if one is None and is_no_plain_file(path) else one
        for path, one in zip(paths, classify_paths(paths, list(classes)), strict=True)
    ]
    return files.append_column("class", pa.array(found, pa.string()))


def is_no_plain_file(path: str) -> bool:
    """Is this what the kernel calls a pipe, a socket, ..., or a device or a file of /proc?"""
    if path.startswith("/dev/shm/"):
        return False  # a folder in memory, with files in it
    return (":[" in path and not path.startswith("/")) or path.startswith(NO_PLAIN_FILES)


def has_syscalls(run: Path) -> bool:
    """Did a collector of this run watch system calls (and see any)?"""
    return any(has_evidence(run, PREFIX + name) for name in ("files", "syncs", "counts"))


def read_syscall_tables(run: Path) -> SyscallTables | None:
    """The evidence of a sealed run's folder; None without any. ResultsError."""
    if not has_syscalls(run):
        return None
    there = [name for name in TABLES if has_evidence(run, PREFIX + name)]
    return tables_from({name: read_evidence(run, PREFIX + name) for name in there})


def tables_from(found: dict[str, pa.Table]) -> SyscallTables:
    """Of the tables that there are; files and syncs are empty ones where there was no row."""
    for name, columns in EMPTY.items():
        if name not in found:
            found[name] = pa.schema(list(columns)).empty_table()
    return SyscallTables(**{name: found[name] for name in TABLES if name in found})


EMPTY: Final[dict[str, tuple[tuple[str, Any], ...]]] = {
    "files": (("file_id", "uint32"), ("device", "string"), ("inode", "uint64"),
              ("path", "string"), ("seen_ns", "uint64"), ("class", "string")),
    "syncs": (("t_ns", "int64"), ("start_ns", "uint64"), ("latency_ns", "uint64"),
              ("pid", "uint32"), ("tid", "uint32"), ("call", "string"), ("synchronous", "bool"),
              ("file_id", "uint32"), ("offset", "uint64"), ("size", "uint64"),
              ("error", "uint32")),
}  # fmt: skip
"""Columns of a table of which there was no row."""


def processes_of(syncs: pa.Table) -> dict[int, str]:
    """pid -> title, of the processes that synced (where it was seen)."""
    if "process" not in syncs.column_names:
        return {}
    pairs = syncs.select(["pid", "process"]).group_by(["pid", "process"]).aggregate([])
    return {row["pid"]: row["process"] for row in pairs.to_pylist() if row["process"]}


def sum_up(tables: SyscallTables, *, by_file: bool = False) -> Syscalls:
    """Classes, files if asked, and series."""
    class_of, path_of = names_of(tables.files)
    syncs, untimed = timed(tables.syncs)
    found = Syscalls(has_counts=tables.counts is not None, untimed=untimed)
    rows: dict[str, ClassRow] = {}
    files: dict[int | None, ClassRow] = {}
    synchronous, others = _added_up(syncs, tables.beyond)
    totals = others if tables.counts is None else _rows(tables.counts)
    seen: dict[str, set[int | None]] = {}
    kinds = [(row, False) for row in totals] + [(row, True) for row in synchronous]
    for row, is_synchronous in kinds:
        number = row["file_id"]
        name = class_of.get(number, OTHER_FILES) if number is not None else NO_FILE
        into = [rows.setdefault(name, ClassRow(name, name)), found.total]
        seen.setdefault(name, set()).add(number)
        if by_file and not is_synchronous:
            path = path_of.get(number, NO_FILE) if number is not None else NO_FILE
            files.setdefault(number, ClassRow(path, name, 1))
        if number in files:
            into.append(files[number])
        for one in into:
            (one.synchronous if is_synchronous else _group_of(one, row["call"])).add(row)
    for name, numbers in seen.items():
        rows[name].files = len(numbers - {None})
    found.total.files = sum(row.files for row in rows.values())
    found.classes = _bounded(sorted(rows.values(), key=_most_first), "classes")
    found.files = _bounded(sorted(files.values(), key=_most_first), "files")
    found.series = series_of(syncs, class_of)
    return found


def names_of(files: pa.Table) -> tuple[dict[int, str], dict[int, str]]:
    """file_id -> class, and -> the name that was seen first."""
    class_of: dict[int, str] = {}
    path_of: dict[int, str] = {}
    classes = files["class"].to_pylist() if "class" in files.column_names else [None] * len(files)
    paths: list[Any] = files["path"].to_pylist()
    numbers: list[Any] = files["file_id"].to_pylist()
    for number, path, name in zip(numbers, paths, classes, strict=True):
        path_of.setdefault(number, path)
        if name is not None:
            class_of.setdefault(number, name)
    return class_of, path_of


def timed(syncs: pa.Table) -> tuple[pa.Table, int]:
    """Syncs of the timed part, and how many came before it."""
    if "t_ns" not in syncs.column_names:
        return syncs, 0
    kept = syncs.filter(pa.array(integers(syncs["t_ns"]) >= 0))
    return kept, syncs.num_rows - kept.num_rows


def _group_of(row: ClassRow, call: str) -> CallGroup:
    for name, calls in GROUPS.items():
        if call in calls:
            return row.groups.setdefault(name, CallGroup())
    return row.others.setdefault(call, CallGroup())


def _most_first(row: ClassRow) -> tuple[int, int, str]:
    return -row.sync_ns, -row.calls, row.name


def _bounded(rows: list[ClassRow], what: str) -> list[ClassRow]:
    left = rows[FILES_MOST:]
    if not left:
        return rows
    rest = ClassRow(f"{len(left):,} more {what}", "", sum(row.files for row in left))
    for row in left:
        for name, group in row.groups.items():
            _merge(rest.groups.setdefault(name, CallGroup()), group)
        for name, group in row.others.items():
            _merge(rest.others.setdefault(name, CallGroup()), group)
        _merge(rest.synchronous, row.synchronous)
    return [*rows[:FILES_MOST], rest]


def _merge(into: CallGroup, other: CallGroup) -> None:
    into.add({name: getattr(other, name) for name in CallGroup.__dataclass_fields__})


TOTALS: Final = (
    "file_id", "call", "calls", "errors", "bytes", "latency_sum_ns", "latency_max_ns", "places",
)  # fmt: skip


def _rows(counts: pa.Table) -> list[dict[str, Any]]:
    """Without the histograms, which would be most of it."""
    return counts.select(list(TOTALS)).to_pylist()


def _added_up(
    syncs: pa.Table, beyond: pa.Table | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows as the totals have them: of the writes that make bytes durable, and of all others."""
    rows = [] if not syncs.num_rows else totals_of(syncs).to_pylist()
    rows += [] if beyond is None else beyond.to_pylist()
    for row in rows:
        row["places"] = [0] * len(PLACES)
    return [one for one in rows if one["synchronous"]], [
        one for one in rows if not one["synchronous"]
    ]
