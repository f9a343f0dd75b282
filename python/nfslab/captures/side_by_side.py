"""Files of one capture read side by side, by processes, and put together as if read in a row.

    in order ──> one task a file ──> `workers` processes (`nfslab.captures.part_worker`)
             ──> parts ──> neighbours joined as they come ──> the same object as of one pass

What a task reads, when parts may be joined, and why what comes out is what reading in a row
gives, is the core's (`crates/trace/src/analysis/parts`): nothing in a part knows of processes.
Where the core refuses to join, `NotSideBySide` says why, and the caller reads in a row. A process
that is lost costs its file's work again. What is held here is one part for each stretch of files
that are done: some hundred kilobytes, whatever the number of calls.
"""

from __future__ import annotations

import json
import os
import selectors
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.captures.analysis import CaptureAnalysis, Fault, in_words
from nfslab.errors import RunFailed
from nfslab.machine import children
from nfslab.machine.agent import Lines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab._core import TraceProgress
    from nfslab.captures.analysis import Asked, Source
    from nfslab.machine.children import Child

READ_BYTES: Final = 1 << 20
PART_MAX: Final = 600 << 20
"""Bytes of an event: the core's bound of a part, as JSON within JSON."""
TRIES: Final = 3
"""A file that ends its process so often is not given to another one."""


class NotSideBySide(Exception):
    """The files have to be read in a row; the text says why."""


@dataclass(slots=True)
class Worker:
    """A process, and the file that it reads."""

    child: Child
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
) -> CaptureAnalysis:
    """The table per operation of a capture. `NotSideBySide`; else as `read_captures`."""
    from nfslab._core import CoreError, capture_order, part_findings

    names = [str(file) for file in files]
    try:
        ordered, moved = capture_order(names)
    except CoreError as error:
        raise in_words(error) from error
    pool = _Pool([str(file) for file in ordered], progress)
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
        self, files: Sequence[str], progress: Callable[[TraceProgress], None] | None
    ) -> None:
        self._files, self._progress = files, progress
        self._sizes = [os.stat(file).st_size for file in files]
        self._waiting = list(range(len(files)))
        self._tries = [0] * len(files)
        self._workers: list[Worker] = []
        self._parts: dict[int, tuple[int, bytes]] = {}
        """First file of a stretch -> the file behind its last, and its part."""
        self._done_bytes = self._done_frames = self._done_calls = 0

    def run(self, workers: int) -> bytes:
        """The part of all files."""
        with selectors.DefaultSelector() as selector:
            for _ in range(workers):
                self._begin(selector)
            while 0 not in self._parts or self._parts[0][0] < len(self._files):
                for key, _ in selector.select():
                    self._hear(selector, key.data)
        return self._parts[0][1]

    def end(self) -> None:
        """No process is left."""
        for worker in self._workers:
            worker.child.end()

    def _begin(self, selector: selectors.BaseSelector) -> None:
        worker = Worker(_started())
        self._workers.append(worker)
        assert worker.child.process.stdout is not None
        selector.register(worker.child.process.stdout, selectors.EVENT_READ, worker)
        self._give(worker)

    def _give(self, worker: Worker) -> None:
        worker.file = self._waiting.pop(0) if self._waiting else None
        worker.state = None
        if worker.file is not None:
            behind = worker.file + 1
            following = self._files[behind] if behind < len(self._files) else None
            worker.child.tell("read", file=self._files[worker.file], next=following)

    def _hear(self, selector: selectors.BaseSelector, worker: Worker) -> None:
        assert worker.child.process.stdout is not None
        found = os.read(worker.child.process.stdout.fileno(), READ_BYTES)
        if not found:
            selector.unregister(worker.child.process.stdout)
            self._lost(selector, worker)
            return
        for event in worker.child.said(found):
            if event["event"] == "error":
                raise in_words(Fault(*(event[name] for name in ("kind", "what", "why", "fix"))))
            if event["event"] == "progress":
                worker.state = event["state"]
                self._show()
            elif event["event"] == "part" and worker.file is not None:
                self._take(worker.file, event["part"].encode())
                self._done_bytes += self._sizes[worker.file]
                if worker.state is not None:
                    self._done_frames += worker.state["frames"]
                    self._done_calls += worker.state["calls"]
                self._give(worker)

    def _lost(self, selector: selectors.BaseSelector, worker: Worker) -> None:
        """Its file is read again, from the beginning, by a new one."""
        self._workers.remove(worker)
        fate, file = worker.child.fate(), worker.file
        worker.child.end()
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
        self._begin(selector)

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


def _started() -> Child:
    try:
        child = children.begin("nfslab.captures.part_worker")
    except OSError as error:
        raise RunFailed(
            "a process that reads captures cannot be started",
            why=str(error.strerror or error),
            fix="ask for fewer --workers, or free what the machine lacks",
        ) from error
    child.lines = Lines(PART_MAX)
    return child
