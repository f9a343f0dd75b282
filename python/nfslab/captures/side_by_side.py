"""Files of one capture read side by side, by processes, and put together as if read in a row.

    in order ──> one task a file ──> processes (`captures.pool`)
             ──> parts ──> neighbours joined as they come (`stretches`)
             ──> the same object as of one pass

Only tables of which parts add up (`PUT_TOGETHER`) are made so; one process makes all others.

What a task reads, when parts may be joined, and why what comes out is what reading in a row
gives, is the core's (`crates/trace/src/analysis/parts`): nothing in a part knows of processes.
Two neighbours that the core refuses to join are read again as one task, in a row. Where that would
be most of the capture, `NotSideBySide` says why, and the caller reads all in a row. What is held
here are some parts for each stretch of files that are done: some hundred kilobytes each, whatever
the number of calls.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from nfslab.captures.analysis import CaptureAnalysis, in_words
from nfslab.captures.pool import NotAnAnswerError, Pool, Work
from nfslab.captures.stretches import Again, DoNotFitError, Stretch, Stretches
from nfslab.cluster.here import MemberHere
from nfslab.machine.resources import Resources, recover

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from nfslab._core import TraceProgress
    from nfslab.cluster.base import Member

PUT_TOGETHER: Final = frozenset({"operations", "clients"})
"""Lenses of which what was found in parts can be put together."""
_OF_NEIGHBOURS: Final = "apart"
_APART: Final = (_OF_NEIGHBOURS, "in_a_row")
"""Kinds of the core's error where parts are not joined."""


class NotSideBySide(Exception):
    """The files have to be read in a row; the text says why."""


def read_side_by_side(
    files: Sequence[str | Path],
    lenses: Sequence[str],
    workers: int,
    progress: Callable[[TraceProgress], None] | None = None,
    members: Sequence[Member] = (),
    note: Callable[[str], None] | None = None,
) -> CaptureAnalysis:
    """The tables of these lenses (of `PUT_TOGETHER`). `NotSideBySide`; else as `read_captures`.

    `workers` processes here, or on all of these members together, which see the files at the same
    paths; files are opened here, too, for their order. `note` is told what was read again.
    """
    from nfslab._core import CoreError, capture_order, part_findings

    names = [str(file) for file in files]
    try:
        ordered, moved = capture_order(names)
    except CoreError as error:
        raise in_words(error) from error
    recover()
    workers = min(workers, len(ordered))
    work = _Files([str(file) for file in ordered], lenses)
    with Resources("trace by several processes") as resources:
        pool = Pool(work, members or [MemberHere("here", resources)], progress)
        try:
            pool.begin(workers)
            pool.finish()
            text, blobs = part_findings(work.whole(), moved, names)
        except CoreError as error:
            raise _in_a_row(error) from error
        finally:
            pool.end()
    if note is not None and work.again:
        note(_read_again(work.again, len(ordered)))
    return CaptureAnalysis(names, json.loads(text), blobs)


def folder_here() -> str:
    """From where files are named; empty where that folder is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


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


class _Files(Work):
    """A file each, and what has to be read again."""

    def __init__(self, files: Sequence[str], lenses: Sequence[str]) -> None:
        super().__init__(Stretch(number, number + 1) for number in range(len(files)))
        self.files = files
        self._lenses = [lens for lens in lenses if lens != "operations"]
        """The other one is always there."""
        self._sizes = [os.stat(file).st_size for file in files]
        self._parts = Stretches(len(files), _join)
        self.again: list[Again] = []
        """What was read again, since parts did not fit."""
        self._total_bytes = sum(self._sizes)
        self._done_bytes = self._done_frames = self._done_calls = 0

    def whole(self) -> bytes:
        """The part of all files, once all is done."""
        whole = self._parts.whole()
        assert whole is not None
        return whole

    def is_done(self) -> bool:
        """See `Work.is_done`."""
        return self._parts.whole() is not None

    def order(self, task: Stretch) -> tuple[str, dict[str, Any]]:
        """See `Work.order`."""
        files = [self.files[number] for number in task.files]
        following = self.files[task.behind] if task.behind < len(self.files) else None
        of_files = {"files": files, "next": following, "folder": folder_here()}
        return "read", of_files | {"lenses": self._lenses}

    def subject(self, task: Stretch) -> str:
        """See `Work.subject`."""
        return self.files[task.first]

    def take(self, task: Stretch, said: dict[str, Any], state: TraceProgress | None) -> None:
        """See `Work.take`."""
        if not isinstance(part := said.get("part"), str):
            raise NotAnAnswerError("it told no part of the capture")
        self._done_bytes += self._bytes(task)
        if state is not None:
            self._done_frames += state["frames"]
            self._done_calls += state["calls"]
        again = self._parts.take(task, part.encode(errors="replace"))
        if again is None:
            return
        all_of_them = len(again.stretch.files) == len(self.files)
        long = 2 * self._bytes(again.stretch) > sum(self._sizes)
        if all_of_them or (long and len(again.stretch.files) > 2):
            raise NotSideBySide(again.why)
        self.again.append(again)
        self._total_bytes += self._bytes(again.stretch)
        self.waiting.insert(0, again.stretch)

    def _bytes(self, task: Stretch) -> int:
        return sum(self._sizes[number] for number in task.files)

    def progress(self, states: Mapping[Stretch, TraceProgress]) -> TraceProgress:
        """See `Work.progress`."""
        read = self._done_bytes + sum(state["read_bytes"] for state in states.values())
        return {
            "read_bytes": min(read, self._total_bytes),
            "total_bytes": self._total_bytes,
            "frames": self._done_frames + sum(state["frames"] for state in states.values()),
            "calls": self._done_calls + sum(state["calls"] for state in states.values()),
            "finished": False,
        }
