"""Single reads, writes and ranges made durable: where in the file, how large, when.

Flow: the tables `events` (level events) and `syncs` of a watch -> one `Accesses` for each class of
files, or each file -> a figure, a table for Parquet, rows for JSON.

Decisions. A write that returns when its bytes are durable is in both tables of level events: it is
one access, and known by its thread and start. At the other levels it is known from `syncs` alone,
as sync_file_range always is. What an access did counts, not what was asked for: a read of 8 KiB
that got 100 bytes has 100. Where it lies is judged as the totals do (`PLACES`): against the access
of the same kind, reading or writing, that ended before it on the same file. Accesses before the
timed part are judged, and not shown.

Limits: accesses without an offset (pipes) and those that failed have no place in a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nfslab.evidence.syscalls.sync_series import (
    NO_FILE,
    OTHER_FILES,
    SYNCHRONOUS,
    file_numbers,
)
from nfslab.evidence.syscalls.tables import GROUPS, PLACES, SyscallTables, names_of
from nfslab.results.coded_texts import coded_texts, integers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Codes = NDArray[np.uint8]

RANGE: Final = "sync_file_range"
KINDS: Final = ("read", "write", SYNCHRONOUS, RANGE)
READ, WRITE, DURABLE_WRITE, MADE_DURABLE = range(len(KINDS))
NO_PLACE: Final = len(PLACES)
"""Of ranges made durable: they are no access of the file's bytes."""
PLACE_NAMES: Final = (*PLACES, "none")


@dataclass(slots=True)
class Accesses:
    """Of one class of files, or one file, in the order of the starts."""

    name: str
    file_class: str
    t_ns: Integers
    """From the timed start, or from the first call."""
    offset: Integers
    size: Integers
    """Bytes that were read or written; of sync_file_range the length asked for (0: to the end)."""
    kind: Codes
    """Index into `KINDS`."""
    place: Codes
    """Index into `PLACE_NAMES`."""
    file_id: Integers
    """-1: not known."""

    @property
    def calls(self) -> int:
        """How many."""
        return int(self.t_ns.size)

    @property
    def bytes(self) -> int:
        """Read and written."""
        return int(self.size[self.kind != MADE_DURABLE].sum())


@dataclass(slots=True)
class FoundAccesses:
    """All that have a place in a file."""

    groups: list[Accesses] = field(default_factory=list)
    """The most calls first."""
    path_of: dict[int, str] = field(default_factory=dict)


def accesses_of(tables: SyscallTables, *, by_file: bool = False) -> FoundAccesses:
    """By class, or by file; empty when no single access was seen."""
    class_of, path_of = names_of(tables.files)
    found = FoundAccesses(path_of=path_of)
    parts = [part for part in (_events(tables), _syncs(tables)) if part is not None]
    if not parts:
        return found
    t_ns, offset, size, kind, file_id, ends = (
        np.concatenate(columns) for columns in zip(*parts, strict=True)
    )
    place = _places(offset, size, kind, file_id, ends)
    if "t_ns" not in tables.syncs.column_names:
        t_ns -= t_ns.min() if t_ns.size else 0
    timed = t_ns >= 0
    order = np.flatnonzero(timed)[np.argsort(t_ns[timed], kind="stable")]
    names, keys = _groups(file_id[order], class_of, path_of, by_file=by_file)
    for number, (name, file_class) in enumerate(names):
        rows = order[keys == number]
        found.groups.append(
            Accesses(name, file_class, t_ns[rows], offset[rows], size[rows], kind[rows],
                     place[rows], file_id[rows])
        )  # fmt: skip
    found.groups.sort(key=lambda one: (-one.calls, one.name))
    return found


def as_table(found: FoundAccesses) -> pa.Table:
    """The series for Parquet, in the order of time: what a row is stands in its names."""

    def texts(words: Sequence[str], codes: Any) -> pa.DictionaryArray[Any, Any]:
        return pa.DictionaryArray.from_arrays(codes, pa.array(words, pa.string()))

    groups = found.groups
    if not groups:
        return pa.table({})
    which = np.repeat(np.arange(len(groups), dtype=np.int32), [one.calls for one in groups])

    def joined(name: str) -> Any:
        return np.concatenate([getattr(one, name) for one in groups])

    return pa.table(
        {
            "t_ns": joined("t_ns"),
            "class": texts([one.file_class for one in groups], which),
            "file_id": pa.array(joined("file_id"), mask=joined("file_id") < 0),
            "kind": texts(KINDS, joined("kind")),
            "place": texts(PLACE_NAMES, joined("place")),
            "offset": joined("offset"),
            "size": joined("size"),
        }
    ).sort_by("t_ns")


def as_content(found: FoundAccesses, most: int) -> list[dict[str, Any]]:
    """For JSON: of each group what it is in all, and at most so many single calls, one in k."""
    made = []
    for one in found.groups:
        one_in = -(-one.calls // most) if most else 0
        counted = {
            "class": one.file_class, "name": one.name, "calls": one.calls, "bytes": one.bytes,
            "kinds": _counted(KINDS, one.kind), "places": _counted(PLACE_NAMES, one.place),
        }  # fmt: skip
        series = {
            "one_in": one_in,
            "t_ns": one.t_ns[::one_in].tolist(),
            "offset": one.offset[::one_in].tolist(),
            "size": one.size[::one_in].tolist(),
            "kind": [KINDS[code] for code in one.kind[::one_in].tolist()],
            "place": [PLACE_NAMES[code] for code in one.place[::one_in].tolist()],
        } if one_in else {}  # fmt: skip
        made.append(counted | series)
    return made


def _counted(names: Sequence[str], codes: Codes) -> dict[str, int]:
    counts: list[int] = np.bincount(codes, minlength=len(names)).tolist()
    return dict(zip(names, counts, strict=True))


def _events(tables: SyscallTables) -> tuple[Any, ...] | None:
    """Reads and writes: t_ns, offset, size, kind, file_id, end."""
    events = tables.events
    if events is None or not events.num_rows:
        return None
    calls, which = coded_texts(events["call"])
    reads = np.array([call in GROUPS["reads"] for call in calls], dtype=bool)
    kind = np.where(reads[which], READ, WRITE).astype(np.uint8)
    kind[_is_durable(events, tables.syncs) & (kind == WRITE)] = DURABLE_WRITE
    return _kept(events, kind, integers(events["bytes"]))


def _syncs(tables: SyscallTables) -> tuple[Any, ...] | None:
    """Ranges made durable, and writes that are, where there are no events."""
    wanted = pc.equal(tables.syncs["call"], pa.scalar(RANGE))
    if tables.events is None:
        wanted = pc.or_(wanted, tables.syncs["synchronous"])
    syncs = tables.syncs.filter(wanted)
    if not syncs.num_rows:
        return None
    durable = np.asarray(syncs["synchronous"].to_numpy(zero_copy_only=False), dtype=bool)
    kind = np.where(durable, DURABLE_WRITE, MADE_DURABLE).astype(np.uint8)
    return _kept(syncs, kind, integers(syncs["size"], missing=0))


def _kept(table: pa.Table, kind: Codes, size: Integers) -> tuple[Any, ...]:
    """Of rows with a place in a file."""
    starts = integers(table["start_ns"])
    offset = integers(table["offset"].cast("int64", safe=False), missing=-1)
    failed = integers(table["error"]) != 0
    placed = (offset >= 0) & ~failed
    t_ns = integers(table["t_ns"]) if "t_ns" in table.column_names else starts
    ends = starts + integers(table["latency_ns"])
    columns = (t_ns, offset, size, kind, file_numbers(table), ends)
    return tuple(column[placed] for column in columns)


def _is_durable(events: pa.Table, syncs: pa.Table) -> NDArray[np.bool_]:
    """Which of the events stand among the syncs, too: a thread makes one call at a time."""
    durable = syncs.filter(syncs["synchronous"])
    threads, which = np.unique(
        np.concatenate([integers(events["tid"]), integers(durable["tid"])]), return_inverse=True
    )
    starts = np.concatenate([integers(events["start_ns"]), integers(durable["start_ns"])])
    keys = (starts - starts.min()) * threads.size + which
    return np.isin(keys[: events.num_rows], keys[events.num_rows :])


def _places(
    offset: Integers, size: Integers, kind: Codes, file_id: Integers, ends: Integers
) -> Codes:
    """As `Place::of` of the core does: against the one that ended before on the same file."""
    place = np.full(offset.size, NO_PLACE, dtype=np.uint8)
    judged = np.flatnonzero((kind != MADE_DURABLE) & (file_id >= 0))
    writes = kind[judged] != READ
    order = judged[np.lexsort((ends[judged], writes, file_id[judged]))]
    if not order.size:
        return place
    begin, end = offset[order], offset[order] + size[order]
    apart = (np.diff(file_id[order]) != 0) | (np.diff(kind[order] != READ) != 0)
    found = np.select(
        [begin[1:] == end[:-1], begin[1:] > end[:-1], begin[1:] >= begin[:-1]],
        [PLACES.index("sequential"), PLACES.index("forward"), PLACES.index("rewrite")],
        PLACES.index("backward"),
    )
    first = PLACES.index("first")
    place[order[0]] = first
    place[order[1:]] = np.where(apart, first, found)
    return place


def _groups(
    file_id: Integers, class_of: dict[int, str], path_of: dict[int, str], *, by_file: bool
) -> tuple[list[tuple[str, str]], Integers]:
    """(name, class) of each group, and each row's."""
    distinct, which = np.unique(file_id, return_inverse=True)
    names: dict[tuple[int, str], int] = {}
    numbers = []
    for number in distinct.tolist():
        file_class = class_of.get(number, OTHER_FILES) if number >= 0 else NO_FILE
        key = (number if by_file else -1, file_class)
        numbers.append(names.setdefault(key, len(names)))
    told = [
        (path_of.get(number, NO_FILE) if by_file else file_class, file_class)
        for number, file_class in names
    ]
    return told, np.array(numbers, dtype=np.int64)[which] if numbers else which.astype(np.int64)
