"""What an fsync on a local disk waits for: the block requests and flushes while it lasts.

Needs the syncs of a run and its block requests (`blocks = true`), and which disks lie below the
device of a file (the run's summary says it). By device and time: a request counts for every sync
that lasts while it is with the disk, whoever caused it (the journal's thread writes and flushes for
all). An instant counts for the first of these that goes on; the parts sum to the sync's time:

    flush    the disk empties its cache, or writes something that is durable when done (FUA)
    write    other writes
    read     reads
    rest     no request is with the disk: the file system, its journal's hand-over, the scheduler

Limits: requests are seen between the driver's taking and the disk's answer; waiting in the
scheduler's queue is in the rest. Below md, dm and loop devices the requests of their disks count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.evidence.syscalls.sync_series import file_numbers, grouped
from nfslab.evidence.syscalls.tables import SyscallTables, names_of, timed
from nfslab.results.coded_texts import coded_texts, integers
from nfslab.statistics.interval_cover import began_within, cover
from nfslab.statistics.latency_parts import PartsSummary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

PARTS: Final = ("flush", "write", "read", "rest")


@dataclass(frozen=True, slots=True)
class BlocksRow:
    """Syncs of one kind on one class of files."""

    file_class: str
    what: str
    summary: PartsSummary
    """Parts in the order of `PARTS`."""
    flushes: int
    """Requests that were issued while these syncs lasted; FUA writes are flushes here."""
    writes: int
    write_bytes: int
    reads: int


@dataclass(slots=True)
class SyncBlocks:
    """A run's syncs on local disks, taken apart."""

    rows: list[BlocksRow] = field(default_factory=list)
    elsewhere: int = 0
    """Syncs of files on no disk that is known."""

    def notes(self) -> list[str]:
        """What a reader has to know, in sentences."""
        if not self.elsewhere or not self.rows:
            return []
        return [f"Syncs of files on no local disk: {self.elsewhere:,}."]


def split_by_blocks(tables: SyscallTables, disks: Mapping[str, Sequence[str]]) -> SyncBlocks | None:
    """None without block requests. `disks`: device of a file -> devices ("major:minor") below."""
    if tables.blocks is None:
        return None
    found = SyncBlocks()
    syncs, _ = timed(tables.syncs)
    below = _disks_of_files(tables.files, disks)
    numbers = file_numbers(syncs)
    known = np.isin(numbers, np.array(sorted(below), dtype=np.int64))
    found.elsewhere = int((~known).sum())
    starts = integers(syncs["start_ns"])
    ends = starts + integers(syncs["latency_ns"])
    parts = np.zeros((len(PARTS), starts.size), dtype=np.int64)
    extra = np.zeros((4, starts.size), dtype=np.int64)
    requests = _Requests.of(tables.blocks)
    for devices in set(below.values()):
        files = [number for number, there in below.items() if there == devices]
        rows = np.flatnonzero(np.isin(numbers, np.array(files, dtype=np.int64)))
        requests.on(devices).split(starts[rows], ends[rows], rows, parts, extra)
    for one in grouped(parts, syncs, names_of(tables.files)[0], known):
        sums = extra[:, one.own].sum(axis=1).tolist()
        found.rows.append(BlocksRow(one.file_class, one.what, one.summary, *sums))
    return found


@dataclass(slots=True)
class _Requests:
    """Block requests by the instant of their issue."""

    devices: list[str]
    device: Integers
    issued_ns: Integers
    done_ns: Integers
    flush: NDArray[np.bool_]
    write: NDArray[np.bool_]
    read: NDArray[np.bool_]
    bytes: Integers

    @classmethod
    def of(cls, blocks: pa.Table) -> _Requests:
        """The table's, sorted."""
        issued = integers(blocks["issue_ns"])
        order = np.argsort(issued, kind="stable")
        kinds, of_kind = coded_texts(blocks["kind"])

        def is_kind(name: str) -> NDArray[np.bool_]:
            return np.asarray(of_kind == (kinds.index(name) if name in kinds else -1))[order]

        devices, device = coded_texts(blocks["device"])
        fua = np.asarray(blocks["fua"].to_numpy(zero_copy_only=False), dtype=bool)[order]
        flush = is_kind("flush") | (is_kind("write") & fua)
        return cls(
            devices, device[order], issued[order],
            (issued + integers(blocks["latency_ns"]))[order],
            flush, is_kind("write") & ~flush, is_kind("read"), integers(blocks["size"])[order],
        )  # fmt: skip

    def on(self, devices: tuple[str, ...]) -> _Requests:
        """Those of these disks."""
        codes = [i for i, name in enumerate(self.devices) if name in devices]
        own = np.isin(self.device, np.array(codes, dtype=np.int64))
        return _Requests(
            self.devices, self.device[own], self.issued_ns[own], self.done_ns[own],
            self.flush[own], self.write[own], self.read[own], self.bytes[own],
        )  # fmt: skip

    def split(
        self, starts: Integers, ends: Integers, rows: Integers, parts: Integers, extra: Integers
    ) -> None:
        """The parts of these windows, and how many requests were issued in them."""
        covered, own = [np.zeros(starts.size, dtype=np.int64)], self.flush & False
        for kind in (self.flush, self.write, self.read):
            own = own | kind
            covered.append(cover(self.issued_ns[own], self.done_ns[own], starts, ends))
        covered.append(ends - starts)
        parts[:, rows] = np.diff(np.stack(covered), axis=0)
        counts = []
        for kind in (self.flush, self.write, self.read):
            first, last = began_within(self.issued_ns[kind], starts, ends)
            counts.append(last - first)
            if kind is self.write:
                sums = np.concatenate([[0], np.cumsum(self.bytes[kind])])
                counts.append(sums[last] - sums[first])
        extra[:, rows] = np.stack(counts)


def _disks_of_files(
    files: pa.Table, disks: Mapping[str, Sequence[str]]
) -> dict[int, tuple[str, ...]]:
    columns: list[list[Any]] = [files[name].to_pylist() for name in ("file_id", "device")]
    return {
        number: tuple(disks[device])
        for number, device in zip(*columns, strict=True)
        if disks.get(device)
    }
