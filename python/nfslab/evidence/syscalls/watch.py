"""One watch of system calls, by whatever way: attached, emptied by a thread, ended.

    running processes   attach() ──────────────────────────────┐
    a launch of ours    wrap(argv) ──> start it ──> launched() ─┴─> mark() ──> ... ──> end()

A launch that eBPF watches is suspended before its first instruction until the probes are there. The
thread empties the source again and again; what it holds is bounded (`ROWS_MOST`), beyond it is
counted and noted. `mark` is where the timed part begins: totals count from there.

Instants are CLOCK_MONOTONIC.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.evidence.syscalls.suspended_launch import SuspendedLaunch
from nfslab.evidence.syscalls.totals import SyncsBeyond, since
from nfslab.evidence.syscalls.unseen_io import UnseenIo, Whose
from nfslab.machine.drain_thread import DrainThread
from nfslab.results.bounded_rows import BoundedRows
from nfslab.results.core_tables import core_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nfslab._core import CoreError
    from nfslab.evidence.syscalls.ways import Asked, Choice, Subject

ROWS_MOST: Final[Mapping[str, int]] = {
    "files": 1_000_000, "syncs": 2_000_000, "events": 4_000_000, "names": 500_000,
    "blocks": 2_000_000,
}  # fmt: skip
"""Rows of each table that are kept in memory."""
PROCESSES_MOST: Final = 10_000
TITLE_BYTES_MOST: Final = 300
LOSSES: Final = {
    "lost_syncs": "syncs were lost: they came faster than they were taken",
    "lost_events": "reads and writes were lost: they came faster than they were taken",
    "lost_names": "names of files and changes of names were lost",
    "lost_blocks": "block requests were lost",
    "uncounted": "calls are in no total: too many files at once",
    "lost_calls": "calls are in no total: they came faster than they were taken",
    "torn": "records were half written when their process was killed",
    "not_understood": "records were not understood",
}
SHARED_MEMORY: Final = "/dev/shm"
NS_PER_S: Final = 1e9


@dataclass(slots=True)
class Seen:
    """Everything that a watch saw."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    """By `nfslab.evidence.syscalls.tables.TABLES`, instants as the source has them."""
    processes: dict[int, str] = field(default_factory=dict)
    """Those that synced: pid -> command line (a server's title)."""
    figures: dict[str, int] = field(default_factory=dict)
    nothing: str = ""
    """Why nothing was seen."""
    notes: list[str] = field(default_factory=list)
    cpu_s: float = 0.0
    wall_s: float = 0.0


class KeptRows:
    """Rows of a source within `ROWS_MOST`; syncs beyond are added up."""

    def __init__(self) -> None:
        self._kept = {name: BoundedRows(most) for name, most in ROWS_MOST.items()}
        self._beyond = SyncsBeyond()

    @property
    def syncs(self) -> int:
        """How many are kept."""
        return self._kept["syncs"].rows

    def forget_beyond(self) -> None:
        """Totals begin anew."""
        self._beyond = SyncsBeyond()

    def take(self, source: Any) -> pa.Table | None:
        """What the source has now; the syncs of it that are kept."""
        syncs: pa.Table | None = None
        for name, columns in source.take().items():
            taken = core_table(columns)
            kept = self._kept[name].keep(taken)
            if name == "syncs":
                syncs = kept
                self._beyond.add(taken.slice(kept.num_rows))
        return syncs

    def hand_over(self, seen: Seen) -> None:
        """The tables, and a note for each that was too long."""
        for name, kept in self._kept.items():
            if (table := kept.table()) is not None:
                seen.tables[name] = table
            if kept.left_out:
                # Syncs are in the totals all the same.
                what = "in the totals, but in no series" if name == "syncs" else "counted, not kept"
                seen.notes.append(
                    f"{kept.left_out:,} rows of {name} are {what}: there is room for "
                    f"{ROWS_MOST[name]:,}"
                )
        if (beyond := self._beyond.table()) is not None:
            seen.tables["beyond"] = beyond


class SyscallWatch:
    """One watch. `end` may be called whatever came before."""

    def __init__(self, choice: Choice, asked: Asked, subject: Subject, conninfo: str = "") -> None:
        self.choice, self._asked, self._subject = choice, asked, subject
        self._conninfo = conninfo
        self._source: Any = None
        self._suspended: SuspendedLaunch | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._unseen = UnseenIo()
        self._whose = Whose(subject.pids)
        self._lock = threading.Lock()
        self._thread = DrainThread(self._take, "system calls")
        self._rows = KeptRows()
        self._base: pa.Table | None = None
        self._seen = Seen(notes=list(choice.notes))
        self._began_ns = clock.monotonic_ns()
        self._latest: tuple[int, int] = (0, 0)

    def attach(self) -> None:
        """Watch processes that run; CoreError or RunFailed as it comes."""
        if self.choice.way == "views":
            from nfslab.evidence.syscalls.views import SyscallViews

            self._source = SyscallViews(self._subject.pids, self._conninfo)
        else:
            self._attach_ebpf(self._subject.pids)
        self._begin()

    def wrap(
        self, argv: Sequence[str], user: int | None = None
    ) -> tuple[list[str], dict[str, str]]:
        """What to start instead of a program, as this user, and what to add to its environment."""
        if self.choice.way == "ebpf":
            self._suspended = SuspendedLaunch()
            return self._suspended.argv(argv), {}
        from nfslab._core import ShimRecords

        memory = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="nfslab-shim-", dir=memory)
        os.chmod(self._folder.name, 0o711)
        if user is not None:  # who owns the folder may record
            os.chown(self._folder.name, user, -1)
        self._whose = Whose(mark=self._folder.name)
        self._source = ShimRecords(self._folder.name, self._asked.level, lseek=self._asked.lseek)
        return list(argv), dict(self._source.environment())

    def launched(self, gone: Callable[[], bool] = lambda: False) -> None:
        """The wrapped program was started: watch it, and let it run."""
        if self._suspended is not None:
            try:
                self._whose = Whose([self._suspended.await_pid(gone)])
                self._attach_ebpf(self._whose.pids)
            finally:
                # Whatever went wrong: a program is not left waiting.
                self._suspended.resume()
        self._begin()

    def _attach_ebpf(self, pids: Sequence[int]) -> None:
        from nfslab import _core

        self._source = _core.SyscallWatch(
            list(pids), self._asked.level, lseek=self._asked.lseek, blocks=self._asked.blocks
        )

    def _begin(self) -> None:
        self._began_ns = clock.monotonic_ns()
        self._unseen.begin(self._whose)
        self._thread.begin()

    @property
    def resumed_ns(self) -> int:
        """When a suspended program began to run; 0 for one that was not."""
        return 0 if self._suspended is None else self._suspended.resumed_ns

    def mark(self) -> None:
        """Totals count from now on."""
        if self._source is None:
            return
        with self._lock:
            self._rows.forget_beyond()
            if hasattr(self._source, "restart"):
                self._source.restart()
            else:
                self._base = self._counts()

    def figures(self) -> dict[str, int]:
        """Those of the source so far, and `syncs`: how many were kept."""
        if self._source is None:
            return {}
        with self._lock:
            return dict(self._source.figures()) | {"syncs": self._rows.syncs}

    @property
    def latest(self) -> tuple[int, int]:
        """Syncs in the last take, and their mean, ns."""
        return self._latest

    def _take(self) -> None:
        with self._lock:
            syncs = self._rows.take(self._source)
            if syncs is not None and syncs.num_rows:
                self._look_at(syncs)
        self._unseen.turn()

    def _look_at(self, syncs: pa.Table) -> None:
        """Who syncs, while it lives; what a person is shown."""
        self._latest = (syncs.num_rows, round(pc.mean(syncs["latency_ns"]).as_py() or 0))
        known = self._seen.processes
        pids: list[Any] = syncs["pid"].unique().to_pylist()
        for pid in pids:
            if pid not in known and len(known) < PROCESSES_MOST and (title := _title(pid)):
                known[pid] = title

    def _counts(self) -> pa.Table | None:
        columns = self._source.counts()
        return None if columns is None else core_table(columns)

    def end(self, *, wait: bool = True) -> Seen:
        """Everything that was seen. The program, if it still runs, runs on.

        `wait`: until eBPF is detached, a second or more; else that goes on by itself.
        """
        self._thread.end()
        seen = self._seen
        seen.cpu_s = self._thread.cpu_s
        if self._thread.problem:
            seen.notes.append(f"watching ended early: {self._thread.problem}")
        seen.wall_s = (clock.monotonic_ns() - self._began_ns) / NS_PER_S
        if self._suspended is not None:
            self._suspended.close()
        if self._source is not None:
            self._unseen.look()
            self._hand_over(seen, wait)
            seen.notes += self._unseen.notes
        if self._folder is not None:
            self._folder.cleanup()
        return seen

    def _hand_over(self, seen: Seen, wait: bool) -> None:
        from nfslab._core import CoreError

        began = clock.thread_cpu()
        try:
            if self.choice.way == "ebpf":
                self._source.stop(wait=wait)
            elif hasattr(self._source, "stop"):
                self._source.stop()
            self._take()
            if self._asked.level != "sync" and (counts := self._counts()) is not None:
                seen.tables["counts"] = since(counts, self._base)
            seen.figures = {name: int(value) for name, value in self._source.figures().items()}
        except CoreError as error:
            seen.notes.append(f"the last records are missing: {error}")
        seen.notes += list(getattr(self._source, "notes", ()))
        if self.choice.way == "shim" and not seen.figures.get("processes"):
            seen.nothing = "no process loaded the library"
        if self.choice.way == "views" and not seen.figures:
            seen.nothing = "neither PostgreSQL's views nor /proc counted anything"
        for key, words in LOSSES.items():
            if count := seen.figures.get(key, 0):
                seen.notes.append(f"{count:,} {words}")
        self._rows.hand_over(seen)
        seen.cpu_s += clock.thread_cpu() - began + seen.figures.get("thread_cpu_ns", 0) / NS_PER_S


def attach_error(choice: Choice, error: CoreError) -> RunFailed:
    """An error of the core when watching began, in three parts."""
    why = f"{error.what}: {error.why}" if error.why else error.what
    return RunFailed(f"system calls cannot be watched by {choice.name}", why=why, fix=error.fix)


def _title(pid: int) -> str:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_bytes()[:TITLE_BYTES_MOST]
    except OSError:
        return ""
    return text.replace(b"\0", b" ").decode(errors="replace").strip()
