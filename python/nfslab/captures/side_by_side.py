"""Files of one capture read side by side, by processes, and put together as if read in a row.

    in order ──> one task a file ──> agents (`captures.part_worker`), here or on a cluster's hosts
             ──> parts ──> neighbours joined as they come (`stretches`)
             ──> the same object as of one pass

What a task reads, when parts may be joined, and why what comes out is what reading in a row
gives, is the core's (`crates/trace/src/analysis/parts`): nothing in a part knows of processes.
Two neighbours that the core refuses to join are read again as one task, in a row. Where that would
be most of the capture, `NotSideBySide` says why, and the caller reads all in a row. A process or a
host that is lost costs its task's work again. What is held here are some parts for each stretch
of files that are done: some hundred kilobytes each, whatever the number of calls.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.captures.analysis import CaptureAnalysis, Fault, in_words
from nfslab.captures.stretches import Again, DoNotFitError, Stretch, Stretches
from nfslab.cluster.here import MemberHere
from nfslab.errors import RunFailed
from nfslab.machine.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab._core import TraceProgress
    from nfslab.captures.analysis import Asked, Source
    from nfslab.cluster.base import Agent, Member

MODULE: Final = "nfslab.captures.part_worker"
PUT_TOGETHER: Final = frozenset({"operations", "clients"})
"""Lenses of which what was found in parts can be put together."""
TRIES: Final = 3
"""A task that ends its process so often is not given to another one."""
_OF_NEIGHBOURS: Final = "apart"
_APART: Final = (_OF_NEIGHBOURS, "in_a_row")
"""Kinds of the core's error where parts are not joined."""
LISTEN_S: Final = 0.2
"""How soon who listens to an agent notices that it is no longer needed."""


class NotSideBySide(Exception):
    """The files have to be read in a row; the text says why."""


@dataclass(slots=True, eq=False)
class Worker:
    """A process, and what it reads."""

    member: Member
    agent: Agent
    task: Stretch | None = None
    state: TraceProgress | None = None


def in_a_row_because(sources: Sequence[Source], asked: Asked) -> str | None:
    """Why these cannot be read side by side; None if they can."""
    if any(isinstance(source, tuple) for source in sources):
        return "a stream is read by one process"
    if len(sources) < 2:
        return "there is one file"
    if not all(Path(source).is_file() for source in sources if not isinstance(source, tuple)):
        return "not all are regular files"
    if asked.calls is not None or asked.columns:
        return "--calls needs them in a row"
    if asked.window_ns is not None:
        return "--from and --to need them in a row"
    if not set(asked.lenses) <= PUT_TOGETHER:
        return (
            "only the table per operation (--quick) and those --by client, server, connection and "
            "user are put together of parts"
        )
    return None


def read_side_by_side(
    files: Sequence[str | Path],
    asked: Asked,
    workers: int,
    progress: Callable[[TraceProgress], None] | None = None,
    members: Sequence[Member] = (),
    note: Callable[[str], None] | None = None,
) -> CaptureAnalysis:
    """What `in_a_row_because` allows of a capture. `NotSideBySide`; else as `read_captures`.

    `workers` processes here, or on all of these members together, which see the files at the same
    paths; those are opened here, too, for their order. `note` is told what was read again.
    """
    from nfslab._core import CoreError, capture_order, part_findings

    names = [str(file) for file in files]
    try:
        ordered, moved = capture_order(names)
    except CoreError as error:
        raise in_words(error) from error
    whole_paths = [os.path.abspath(file) for file in ordered]
    with Resources("trace by several processes") as resources:
        here = members or [MemberHere("here", resources)]
        pool = _Pool(whole_paths, asked.lenses, here, progress)
        try:
            whole = pool.run(min(workers, len(ordered)))
            text, blobs = part_findings(whole, moved, names)
        except CoreError as error:
            raise _in_a_row(error) from error
        finally:
            pool.end()
    if note is not None and pool.again:
        note(_read_again(pool.again, len(ordered)))
    return CaptureAnalysis(names, json.loads(text), blobs)


def _in_a_row(error: Any) -> Exception:
    return NotSideBySide(error.why) if error.kind in _APART else in_words(error)


def _read_again(again: Sequence[Again], files: int) -> str:
    numbers = {number for one in again for number in one.stretch.files}
    whys = Counter(one.why for one in again)
    return f"{len(numbers)} of {files} files were read again, in a row: {'; '.join(whys)}"


def _join(one: bytes, other: bytes) -> bytes:
    from nfslab._core import CoreError, join_parts

    try:
        return join_parts(one, other)
    except CoreError as error:
        if error.kind == _OF_NEIGHBOURS:
            raise DoNotFitError(error.why) from error
        raise


class _Pool:
    def __init__(
        self,
        files: Sequence[str],
        lenses: Sequence[str],
        members: Sequence[Member],
        progress: Callable[[TraceProgress], None] | None,
    ) -> None:
        self._files, self._progress = files, progress
        self._lenses = [lens for lens in lenses if lens != "operations"]
        """The other one is always there."""
        self._members = list(members)
        self._sizes = [os.stat(file).st_size for file in files]
        self._waiting = [Stretch(number, number + 1) for number in range(len(files))]
        self._tries: Counter[Stretch] = Counter()
        self._workers: list[Worker] = []
        self._said: queue.SimpleQueue[tuple[Worker, dict[str, Any]]] = queue.SimpleQueue()
        self._listeners: list[threading.Thread] = []
        self._over = False
        self._parts = Stretches(len(files), _join)
        self.again: list[Again] = []
        """What was read again, since parts did not fit."""
        self._total_bytes = sum(self._sizes)
        self._done_bytes = self._done_frames = self._done_calls = 0

    def run(self, workers: int) -> bytes:
        """The part of all files."""
        for _ in range(workers):
            self._begin()
        while (whole := self._parts.whole()) is None:
            self._hear(*self._said.get())
        return whole

    def end(self) -> None:
        """No process is left."""
        self._over = True
        for worker in self._workers:
            worker.agent.end()
        for listener in self._listeners:
            listener.join()

    def _begin(self) -> None:
        """One more process, on the member with the fewest; one that starts none is lost."""
        counts = Counter(worker.member.name for worker in self._workers)
        member = min(self._members, key=lambda one: counts[one.name])
        try:
            worker = Worker(member, member.begin(MODULE))
        except RunFailed as error:
            self._without(member, error.in_a_line(": "))
            self._begin()
            return
        self._workers.append(worker)
        listener = threading.Thread(target=self._listen, args=(worker,), daemon=True)
        self._listeners.append(listener)
        listener.start()
        self._give(worker)

    def _listen(self, worker: Worker) -> None:
        while not self._over:
            for event in worker.agent.events(LISTEN_S):
                self._said.put((worker, event))
                if event["event"] in ("ended", "lost"):
                    return

    def _give(self, worker: Worker) -> None:
        worker.task = task = self._waiting.pop(0) if self._waiting else None
        worker.state = None
        if task is not None:
            files = [self._files[number] for number in task.files]
            following = self._files[task.behind] if task.behind < len(self._files) else None
            worker.agent.tell("read", files=files, next=following, lenses=self._lenses)

    def _hear(self, worker: Worker, event: dict[str, Any]) -> None:
        match event["event"]:
            case "error":
                fault = Fault(*(str(event[name]) for name in ("kind", "what", "why", "fix")))
                raise in_words(fault)
            case "progress":
                worker.state = event["state"]
                self._show()
            case "part" if worker.task is not None:
                self._done_bytes += self._bytes(worker.task)
                if worker.state is not None:
                    self._done_frames += worker.state["frames"]
                    self._done_calls += worker.state["calls"]
                self._take(worker.task, event["part"].encode())
                worker.task = None
                for idle in (one for one in self._workers if one.task is None):
                    self._give(idle)
            case "ended" | "lost" as how:
                if how == "lost":
                    self._without(worker.member, str(event["why"]))
                self._lost(worker, str(event["why"]))

    def _without(self, member: Member, why: str) -> None:
        if member in self._members:
            self._members.remove(member)
        if not self._members:
            raise RunFailed(
                "the captures cannot be read: no host is left to read them", why=why,
                fix="nfslab cluster check tells of each; or read them here, without --workers",
            )  # fmt: skip

    def _lost(self, worker: Worker, fate: str) -> None:
        """Its task is done again, from the beginning, by a new one."""
        self._workers.remove(worker)
        worker.agent.end()
        task = worker.task
        if task is None:
            return
        self._tries[task] += 1
        if self._tries[task] >= TRIES:
            raise RunFailed(
                f"{self._files[task.first]} cannot be read",
                why=f"the process that reads it ended {TRIES} times, at last: {fate}",
                fix="leave --workers out; is there memory left?",
            )
        self._waiting.insert(0, task)
        self._begin()

    def _take(self, task: Stretch, part: bytes) -> None:
        again = self._parts.take(task, part)
        if again is None:
            return
        all_of_them = len(again.stretch.files) == len(self._files)
        long = 2 * self._bytes(again.stretch) > sum(self._sizes)
        if all_of_them or (long and len(again.stretch.files) > 2):
            raise NotSideBySide(again.why)
        self.again.append(again)
        self._total_bytes += self._bytes(again.stretch)
        self._waiting.insert(0, again.stretch)

    def _bytes(self, task: Stretch) -> int:
        return sum(self._sizes[number] for number in task.files)

    def _show(self) -> None:
        if self._progress is None:
            return
        total = self._total_bytes
        states = [worker.state for worker in self._workers if worker.state is not None]
        read = self._done_bytes + sum(state["read_bytes"] for state in states)
        self._progress(
            {
                "read_bytes": min(read, total),
                "total_bytes": total,
                "frames": self._done_frames + sum(state["frames"] for state in states),
                "calls": self._done_calls + sum(state["calls"] for state in states),
                "finished": False,
            }
        )
