"""What an fsync on NFS waits for: its time split into the three steps of 26 July 2001.

Needs the syncs of a run (collector `fsync` or `syscalls`), and every call: the record of the NFS
client (`rpc` with `calls = true`; our own, or the kernel's by its tracepoints), or for other mounts
a capture (`capture` with `calls = true`, see `sync_capture`). A sync and a call belong together by
file and time: the call is on the file that the sync was for (the mount shows the server's fileid as
the inode, the run's summary says which device is which target), and it was under way while the sync
lasted.

    waiting     a WRITE that the client had taken before the sync began is under way
    sending     one that it took after that (the dirty pages)
    committing  a COMMIT is under way
    rest        none of them: the kernel, FUSE, our client's own work, other calls

A call is under way from the client's taking it (its queue included) to its end; in a capture from
its first byte on the wire to the last one of its reply, so that the client's queue is the rest's.
An instant at which several go on counts for the first of these. So the four sum to the sync's time
exactly.

Limits: who caused a call is not recorded: of two processes that sync one file at a time each has
the other's calls in its time, which it waits for as well. A sync that needs one WRITE sends it
FILE_SYNC and has no COMMIT (docs/mount.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from nfslab.evidence.clocks import on_clock_of
from nfslab.evidence.syscalls import sync_capture as sync_capture
from nfslab.evidence.syscalls.sync_series import file_numbers, grouped
from nfslab.evidence.syscalls.tables import SyscallTables, names_of, timed
from nfslab.results.coded_texts import coded_texts, integers, unsigned
from nfslab.results.evidence_tables import has_evidence, read_evidence
from nfslab.results.upgrade import table_host
from nfslab.statistics.interval_cover import began_within, cover
from nfslab.statistics.latency_parts import PartsSummary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from nfslab.results.records import HostRecord

    Integers = NDArray[np.int64]

STEPS: Final = ("waiting", "sending", "committing", "rest")
CALLS: Final = "rpc_calls"
COLUMNS: Final = ("operation", "enqueued_ns", "completed_ns", "count", "target")
FILE: Final = "file_id"
FOREVER: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class StepsRow:
    """Syncs of one kind on one class of files of one target."""

    target: str
    file_class: str
    what: str
    summary: PartsSummary
    """Parts in the order of `STEPS`."""
    writes: int
    """WRITEs that were taken while these syncs lasted, of the same files."""
    write_bytes: int
    commits: int
    without_calls: int
    """Syncs during which nothing was under way: nothing was dirty."""


@dataclass(slots=True)
class SyncSteps:
    """A run's syncs on NFS, taken apart."""

    rows: list[StepsRow] = field(default_factory=list)
    """The most time first."""
    syncs: int = 0
    elsewhere: int = 0
    """Syncs of files that are on no target whose calls are known."""
    unknown_file: int = 0
    """WRITEs and COMMITs whose file is not known: in no sync."""
    captured: list[str] = field(default_factory=list)
    """Targets whose calls a capture saw."""
    clock_error_ns: int = 0
    """How far the capture's instants may be off against the syncs'."""
    unanswered: int = 0
    """WRITEs and COMMITs without a reply in the capture: in no sync."""
    dropped: int = 0
    """Packets and calls that the capture lacks, or did not keep."""
    shared: list[str] = field(default_factory=list)
    """Targets whose calls in the capture cannot be told from another mount's."""
    problem: str = ""
    """Why a capture was not joined."""

    def notes(self) -> list[str]:
        """What a reader has to know, in sentences."""
        notes = []
        if self.elsewhere and self.syncs:
            notes.append(
                f"Syncs of files on no NFS mount whose calls are known: {self.elsewhere:,}."
            )
        if self.unknown_file:
            notes.append(
                f"Of {self.unknown_file:,} WRITEs and COMMITs it is not known which file they "
                "were for (no reply told its number): what they took is in the rest."
            )
        return [*notes, *self._capture_notes()]

    def _capture_notes(self) -> list[str]:
        if self.problem:
            return [f"Syncs on NFS are not joined to the capture's calls: {self.problem}."]
        notes = [
            f"Calls of {target} are not joined: another mount of its server is here, and the "
            "capture cannot tell their files apart."
            for target in self.shared
        ]
        if not self.captured:
            return notes
        notes += [
            f"Calls of {' and '.join(self.captured)} as a capture saw them: under way from the "
            "first byte of the call to the last of the reply on the wire; the client's own queue "
            f"is in the rest. The clocks agree within {self.clock_error_ns / 1000:.1f} us."
        ]
        if self.unanswered:
            notes.append(
                f"{self.unanswered:,} WRITEs and COMMITs have no reply in the capture: what they "
                "took is in the rest."
            )
        if self.dropped:
            notes.append(
                f"The capture lacks {self.dropped:,} packets or calls (dropped, or behind the cut "
                "of a packet with several calls: collectors.capture, buffer and snaplen): what "
                "those took is in the rest."
            )
        return notes


def read_sync_steps(
    run: Path, tables: SyscallTables, summary: Mapping[str, Any], capture: Mapping[str, Any]
) -> SyncSteps | None:
    """The syncs of a sealed run's folder; None where no record of calls is. ResultsError.

    `summary`: of the collector that watched: "targets" has the device ("major:minor") of each
    target that our client mounted -> its name, "exports" what lies behind each device on NFS.
    `capture`: the summary of the collector `capture`, empty without one. The client's own record
    comes first: a capture tells of the devices that it does not.
    """
    host = table_host(tables.syncs.schema.metadata)
    own = _recorded(run, host)
    targets = {} if own is None else dict(summary.get("targets", {}))
    others = {d: e for d, e in summary.get("exports", {}).items() if d not in targets}
    if not others or not has_evidence(run, sync_capture.CALLS):
        return None if own is None else take_apart(tables, own, targets)
    if problem := sync_capture.clock_problem(clock := capture.get("clock", {})):
        found = SyncSteps() if own is None else take_apart(tables, own, targets)
        found.problem = problem
        return found
    calls = read_evidence(
        run, sync_capture.CALLS, sync_capture.COLUMNS, optional=sync_capture.NUMBERS
    )
    if FILE not in calls.column_names:
        return None if own is None else take_apart(tables, own, targets)
    calls, error_ns = on_clock_of(host, calls)
    seen = sync_capture.calls_of_capture(calls, _zero_ns(tables), others)
    both = seen.calls
    if own is not None:
        both = pa.concat_tables([own.select(both.column_names).cast(both.schema), both])
    found = take_apart(tables, both, targets | seen.targets)
    found.captured, found.unanswered = sorted(set(seen.targets.values())), seen.unanswered
    found.shared = seen.shared
    found.clock_error_ns = clock["error_ns"] + abs(clock["moved_ns"]) + error_ns
    found.dropped = (
        (capture.get("kernel_dropped_packets") or 0)
        + capture.get("calls_left_out", 0)
        + capture.get("anomalies", {}).get("reply_without_call", 0)
    )
    return found


def _recorded(run: Path, host: HostRecord) -> pa.Table | None:
    """The client's own record on that host's clock; without a file's number it was written by an
    older nfslab."""
    if not has_evidence(run, CALLS):
        return None
    calls = read_evidence(run, CALLS, COLUMNS, optional=[FILE])
    if FILE not in calls.column_names:
        return None
    return on_clock_of(host, calls, ("enqueued_ns", "completed_ns"))[0]


def _zero_ns(tables: SyscallTables) -> int:
    """The timed start on the syncs' clock."""
    if not tables.syncs.num_rows:
        return 0
    first = tables.syncs.slice(0, 1).to_pylist()[0]
    return int(first["start_ns"]) - int(first["t_ns"])


def take_apart(tables: SyscallTables, calls: pa.Table, targets: Mapping[str, str]) -> SyncSteps:
    """The same of the tables."""
    found = SyncSteps()
    syncs, _ = timed(tables.syncs)
    by_file, found.unknown_file = _by_file(calls)
    places = _places(tables.files, targets)
    numbers = file_numbers(syncs)
    on_target = np.isin(numbers, np.array(sorted(places), dtype=np.int64))
    found.elsewhere = int((~on_target).sum())
    found.syncs = int(on_target.sum())
    if not found.syncs:
        return found
    starts = integers(syncs["start_ns"])
    ends = starts + integers(syncs["latency_ns"])
    parts = np.zeros((len(STEPS), starts.size), dtype=np.int64)
    extra = np.zeros((3, starts.size), dtype=np.int64)
    for number in np.unique(numbers[on_target]):
        rows = np.flatnonzero(numbers == number)
        mine = by_file.get(places[int(number)])
        _split(mine, starts[rows], ends[rows], rows, parts, extra)
    names = sorted({target for target, _ in places.values()})
    of_target = np.zeros(starts.size, dtype=np.int64)
    for number, (target, _) in places.items():
        of_target[numbers == number] = names.index(target)
    class_of, _ = names_of(tables.files)
    for one in grouped(parts, syncs, class_of, on_target, names, of_target):
        found.rows.append(
            StepsRow(
                target=one.target,
                file_class=one.file_class,
                what=one.what,
                summary=one.summary,
                writes=int(extra[0, one.own].sum()),
                write_bytes=int(extra[1, one.own].sum()),
                commits=int(extra[2, one.own].sum()),
                without_calls=int((parts[:3, one.own].sum(axis=0) == 0).sum()),
            )
        )
    return found


@dataclass(slots=True)
class _Calls:
    """WRITEs and COMMITs of one file, by the instant they were taken."""

    is_write: NDArray[np.bool_]
    taken_ns: Integers
    ended_ns: Integers
    bytes: Integers


def _by_file(calls: pa.Table) -> tuple[dict[tuple[str, int], _Calls], int]:
    """Of each (target, fileid), and how many calls name no file."""
    operations, of_operation = coded_texts(calls["operation"])
    codes = {name: operations.index(name) for name in ("WRITE", "COMMIT") if name in operations}
    is_write = of_operation == codes.get("WRITE", -1)
    wanted = is_write | (of_operation == codes.get("COMMIT", -1))
    known = np.asarray(calls["file_id"].is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    unknown = int((wanted & ~known).sum())
    rows = np.flatnonzero(wanted & known)
    targets, of_target = coded_texts(calls["target"])
    files = unsigned(calls["file_id"])[rows]
    taken = integers(calls["enqueued_ns"])[rows]
    ended = integers(calls["completed_ns"])[rows]
    ended = np.where(ended == 0, FOREVER, ended)
    amount = integers(calls["count"], missing=0)[rows]
    order = np.lexsort((taken, files, of_target[rows]))
    found: dict[tuple[str, int], _Calls] = {}
    if not order.size:
        return found, unknown
    place, number = of_target[rows][order], files[order]
    borders = np.flatnonzero((np.diff(place) != 0) | (np.diff(number) != 0)) + 1
    for piece in np.split(np.arange(order.size), borders):
        key = (targets[int(place[piece[0]])], int(number[piece[0]]))
        mine = order[piece]
        found[key] = _Calls(is_write[rows][mine], taken[mine], ended[mine], amount[mine])
    return found, unknown


def _places(files: pa.Table, targets: Mapping[str, str]) -> dict[int, tuple[str, int]]:
    """file_id -> (target, inode), of files on these devices."""
    columns: list[list[Any]] = [files[name].to_pylist() for name in ("file_id", "device", "inode")]
    return {
        number: (targets[device], inode)
        for number, device, inode in zip(*columns, strict=True)
        if device in targets and inode
    }


def _split(
    calls: _Calls | None, starts: Integers, ends: Integers, rows: Integers,
    parts: Integers, extra: Integers,
) -> None:  # fmt: skip
    """The steps of one file's syncs into `parts`, and what they sent into `extra`."""
    whole = ends - starts
    if calls is None:
        parts[3, rows] = whole
        return
    writes = calls.is_write
    taken, ended = calls.taken_ns[writes], calls.ended_ns[writes]
    # Only the WRITEs of before: up to the latest end of those that were taken before the start.
    latest = np.concatenate([[0], np.maximum.accumulate(ended)]) if ended.size else np.zeros(1)
    before = np.searchsorted(taken, starts, side="left")
    waiting = np.clip(latest[before].astype(np.int64), starts, ends) - starts
    written = cover(taken, ended, starts, ends)
    anything = cover(calls.taken_ns, calls.ended_ns, starts, ends)
    parts[:, rows] = np.stack([waiting, written - waiting, anything - written, whole - anything])
    first, last = began_within(taken, starts, ends)
    sums = np.concatenate([[0], np.cumsum(calls.bytes[writes])])
    commits = calls.taken_ns[~writes]
    from_commit, to_commit = began_within(commits, starts, ends)
    extra[:, rows] = np.stack([last - first, sums[last] - sums[first], to_commit - from_commit])
