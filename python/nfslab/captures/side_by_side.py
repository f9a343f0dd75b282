"""Files of one capture read side by side, by processes, and put together as if read in a row.

    in order ──> one task a file ──> agents (`captures.part_worker`), here or on a cluster's hosts
             ──> parts ──> neighbours joined as they come ──> the same object as of one pass

What a task reads, when parts may be joined, and why what comes out is what reading in a row
gives, is the core's (`crates/trace/src/analysis/parts`): nothing in a part knows of processes.
Where the core refuses to join, `NotSideBySide` says why, and the caller reads in a row. A process
or a host that is lost costs its file's work again. What is held here is one part for each stretch
of files that are done: some hundred kilobytes, whatever the number of calls.
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
from nfslab.cluster.here import MemberHere
from nfslab.errors import RunFailed
from nfslab.machine.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab._core import TraceProgress
    from nfslab.captures.analysis import Asked, Source
    from nfslab.cluster.base import Agent, Member

MODULE: Final = "nfslab.captures.part_worker"
TRIES: Final = 3
"""A file that ends its process so often is not given to another one."""
LISTEN_S: Final = 0.2
"""How soon who listens to an agent notices that it is no longer needed."""


class NotSideBySide(Exception):
    """The files have to be read in a row; the text says why."""


@dataclass(slots=True, eq=False)
class Worker:
    """A process, and the file that it reads."""

    member: Member
    agent: Agent
    file: int | None = None
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
    if list(asked.lenses) != ["operations"]:
        return "only the table per operation (--quick) is put together of parts"
    return None


def read_side_by_side(
    files: Sequence[str | Path],
    workers: int,
    progress: Callable[[TraceProgress], None] | None = None,
    members: Sequence[Member] = (),
) -> CaptureAnalysis:
    """The table per operation of a capture. `NotSideBySide`; else as `read_captures`.

    `workers` processes here, or on all of these members together, which see the files at the same
    paths; those are opened here, too, for their order.
    """
    from nfslab._core import CoreError, capture_order, part_findings

    names = [str(file) for file in files]
    try:
        ordered, moved = capture_order(names)
    except CoreError as error:
        raise in_words(error) from error
    whole_paths = [os.path.abspath(file) for file in ordered]
    with Resources("trace by several processes") as resources:
        pool = _Pool(whole_paths, members or [MemberHere("here", resources)], progress)
        try:
            whole = pool.run(min(workers, len(ordered)))
            text, blobs = part_findings(whole, moved, names)
        except CoreError as error:
            raise _apart(error) from error
        finally:
            pool.end()
    return CaptureAnalysis(names, json.loads(text), blobs)


def _apart(error: Any) -> Exception:
    return NotSideBySide(error.why) if error.kind == "apart" else in_words(error)


class _Pool:
    def __init__(
        self,
        files: Sequence[str],
        members: Sequence[Member],
        progress: Callable[[TraceProgress], None] | None,
    ) -> None:
        self._files, self._progress = files, progress
        self._members = list(members)
        self._sizes = [os.stat(file).st_size for file in files]
        self._waiting = list(range(len(files)))
        self._tries = [0] * len(files)
        self._workers: list[Worker] = []
        self._said: queue.SimpleQueue[tuple[Worker, dict[str, Any]]] = queue.SimpleQueue()
        self._listeners: list[threading.Thread] = []
        self._over = False
        self._parts: dict[int, tuple[int, bytes]] = {}
        """First file of a stretch -> the file behind its last, and its part."""
        self._done_bytes = self._done_frames = self._done_calls = 0

    def run(self, workers: int) -> bytes:
        """The part of all files."""
        for _ in range(workers):
            self._begin()
        while 0 not in self._parts or self._parts[0][0] < len(self._files):
            self._hear(*self._said.get())
        return self._parts[0][1]

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
        worker.file = self._waiting.pop(0) if self._waiting else None
        worker.state = None
        if worker.file is not None:
            behind = worker.file + 1
            following = self._files[behind] if behind < len(self._files) else None
            worker.agent.tell("read", file=self._files[worker.file], next=following)

    def _hear(self, worker: Worker, event: dict[str, Any]) -> None:
        match event["event"]:
            case "error":
                fault = Fault(*(str(event[name]) for name in ("kind", "what", "why", "fix")))
                raise in_words(fault)
            case "progress":
                worker.state = event["state"]
                self._show()
            case "part" if worker.file is not None:
                self._take(worker.file, event["part"].encode())
                self._done_bytes += self._sizes[worker.file]
                if worker.state is not None:
                    self._done_frames += worker.state["frames"]
                    self._done_calls += worker.state["calls"]
                self._give(worker)
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
        """Its file is read again, from the beginning, by a new one."""
        self._workers.remove(worker)
        worker.agent.end()
        file = worker.file
        if file is None:
            return
        self._tries[file] += 1
        if self._tries[file] >= TRIES:
            raise RunFailed(
                f"{self._files[file]} cannot be read",
                why=f"the process that reads it ended {TRIES} times, at last: {fate}",
                fix="leave --workers out; is there memory left?",
            )
        self._waiting.insert(0, file)
        self._begin()

    def _take(self, file: int, part: bytes) -> None:
        """A part, joined with its neighbours that are there."""
        from nfslab._core import join_parts

        first, behind = file, file + 1
        for begin, (end, before) in list(self._parts.items()):
            if end == first:
                part = join_parts(before, part)
                del self._parts[begin]
                first = begin
        if behind in self._parts:
            end, after = self._parts.pop(behind)
            part, behind = join_parts(part, after), end
        self._parts[first] = (behind, part)

    def _show(self) -> None:
        if self._progress is None:
            return
        total = sum(self._sizes)
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
