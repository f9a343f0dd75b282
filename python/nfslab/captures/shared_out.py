"""One capture read in a row by each of several processes, which make some of its tables each.

    lenses, by what they take (`sharing`)
         ──> all files in a row, each process by itself (`captures.pool`), or this one with the rows
         ──> the tables of all in one object, that of one pass

Most lenses follow files and connections through the whole capture, so that parts of it cannot be
put together (`side_by_side`). But no lens knows of another: what one finds does not depend on which
others run, and what the capture was (packets, times, anomalies) is found by every process alike.
That is compared; where it differs, the files changed meanwhile, and nothing is shown.

All read everything, so the least time is that of reading and the slowest table; of a compressed
capture it is that of decompressing, which one process does beside all tables. The rows of the calls
are written here (`read_captures`), beside the tables of the least work.
"""

from __future__ import annotations

import base64
import json
import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from nfslab.captures.analysis import CaptureAnalysis, in_words, read_captures
from nfslab.captures.pool import NotAnAnswerError, Pool, Work, folder_here
from nfslab.captures.sharing import TABLE, Share, shares
from nfslab.cluster.here import MemberHere
from nfslab.errors import RunFailed
from nfslab.machine.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from nfslab._core import TraceContent, TraceProgress
    from nfslab.captures.analysis import Asked
    from nfslab.cluster.base import Member


ELEMENTS: Final = {"|u1": 1, "<u2": 2, "<i8": 8, "<f8": 8}
"""Types of long columns, and bytes of an element."""
COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How files of gzip and zstd begin."""
NUMBER_MOST: Final = 1 << 64
_NOT_COMMON: Final = ("analysis_cpu_ns", "inputs", "files_named", "anomalies")
_OF_NAMES: Final = ("files_beyond_limit", "names_beyond_limit", "entries_beyond_limit")
"""Anomalies that only a process finds that learns names of files for its tables."""


def tables(asked: Asked) -> int:
    """Among how many processes it can be shared out."""
    return len({*asked.lenses} - {TABLE}) + (asked.calls is not None)


def is_compressed(path: str | Path) -> bool:
    """Whether it has to be decompressed, by its first bytes; OSError."""
    with open(path, "rb") as file:
        return file.read(max(map(len, COMPRESSED))).startswith(COMPRESSED)


def read_shared_out(
    files: Sequence[str | Path],
    asked: Asked,
    workers: int,
    progress: Callable[[TraceProgress], None] | None = None,
    members: Sequence[Member] = (),
) -> CaptureAnalysis:
    """What `read_captures` gives of files, made by processes.

    `workers` processes here, or on all of these members together, which see the files at the same
    paths. With `asked.calls` this process is one of them; beside members it is one more.
    """
    from nfslab._core import CoreError, capture_order

    names = [str(file) for file in files]
    try:
        capture_order(names)
    except CoreError as error:
        raise in_words(error) from error
    rows = asked.calls is not None
    asked = replace(asked, one_thread=True)
    all_shares = shares(asked.lenses, workers + (rows and bool(members)), rows=rows)
    own, others = (all_shares[0], all_shares[1:]) if rows else ((), all_shares)
    work = _Tables(names, asked, others, checked=bool(members))
    with Resources("trace by several processes") as resources:
        here = members or [MemberHere("here", resources)]
        pool = Pool(work, here, None if rows else progress)

        def look(state: TraceProgress) -> None:
            pool.look()
            if progress is not None:
                progress(state)

        def rest(found: CaptureAnalysis) -> CaptureAnalysis:
            pool.progress = progress
            pool.finish()
            return put_together(names, [found, *work.found])

        try:
            pool.begin(len(others))
            if rows:
                return read_captures(list(files), replace(asked, lenses=own), look, rest)
            pool.finish()
        finally:
            pool.end()
    return put_together(names, work.found)


def put_together(names: Sequence[str], found: Sequence[CaptureAnalysis]) -> CaptureAnalysis:
    """The tables of some analyses of the same capture; RunFailed: it is not the same."""
    from nfslab._core import trace_lenses

    lenses = [name for name, *_ in trace_lenses()]
    # Names of files are learned only where a table needs them.
    fullest = max(found, key=lambda one: _named(one.content))
    common = _common(fullest.content, lenses)
    if any(_common(one.content, lenses) != common for one in found):
        raise RunFailed(
            f"{fullest.label} changed while it was read",
            why="processes that read it at the same time found different packets in it",
            fix="read it when nothing writes to it, or leave --workers out",
        )
    content: dict[str, Any] = dict(fullest.content)
    blobs: dict[str, tuple[str, bytes]] = {}
    for one in found:
        content |= {name: one.content[name] for name in lenses if name in one.content}  # type: ignore[literal-required]
        blobs |= one.blobs
    content["inputs"] = list(names)
    content["analysis_cpu_ns"] = sum(one.content.get("analysis_cpu_ns", 0) for one in found)
    # The order of one pass: the core's objects are sorted by their keys.
    ordered: Any = dict(sorted(content.items()))
    return CaptureAnalysis(list(names), ordered, blobs)


def _named(content: TraceContent) -> tuple[int, int]:
    counts = Counter({row["kind"]: row["count"] for row in content["anomalies"]})
    return content.get("files_named", 0), sum(counts[kind] for kind in _OF_NAMES)


def _common(content: TraceContent, lenses: Sequence[str]) -> dict[str, Any]:
    """What every process finds alike."""
    of_some = {*lenses, *_NOT_COMMON} - {TABLE}
    common = {name: value for name, value in content.items() if name not in of_some}
    counts = {row["kind"]: row["count"] for row in content["anomalies"]}
    return common | {"counts": {it: n for it, n in counts.items() if it not in _OF_NAMES}}


class _Tables(Work[Share]):
    """Some lenses each, of all files."""

    def __init__(
        self, names: Sequence[str], asked: Asked, some: Sequence[Share], *, checked: bool
    ) -> None:
        super().__init__(some)
        self._names, self._asked, self._checked = list(names), replace(asked, calls=None), checked
        self._found: dict[Share, CaptureAnalysis] = {}
        self._left = len(some)
        self._total_bytes = sum(os.stat(name).st_size for name in names)

    @property
    def found(self) -> list[CaptureAnalysis]:
        """By each that is done."""
        return list(self._found.values())

    def is_done(self) -> bool:
        """See `Work.is_done`."""
        return self._left == 0

    def order(self, task: Share) -> tuple[str, dict[str, Any]]:
        """See `Work.order`."""
        options = replace(self._asked, lenses=task).options()
        return "tables", {"folder": folder_here(), "files": self._names, "options": options}

    def subject(self, task: Share) -> str:
        """See `Work.subject`."""
        return CaptureAnalysis(self._names, {}).label  # type: ignore[typeddict-item]

    def take(self, task: Share, said: dict[str, Any], state: TraceProgress | None) -> None:
        """See `Work.take`."""
        self._found[task] = decoded(said, task, self._names, checked=self._checked)
        self._left -= 1

    def progress(self, states: Mapping[Share, TraceProgress]) -> TraceProgress:
        """See `Work.progress`: all is as far as the last one."""
        last = min(states.values(), key=lambda state: state["read_bytes"], default=None)
        return {
            "read_bytes": min(last["read_bytes"], self._total_bytes) if last else 0,
            "total_bytes": self._total_bytes,
            "frames": last["frames"] if last else 0,
            "calls": last["calls"] if last else 0,
            "finished": False,
        }


def decoded(
    said: Mapping[str, Any], share: Share, names: Sequence[str], *, checked: bool
) -> CaptureAnalysis:
    """The tables that a process made; `NotAnAnswerError`: what it said is not those.

    `checked`: field by field, as somebody else's machine may say anything.
    """
    text, packed = said.get("text"), said.get("blobs")
    if not isinstance(text, str) or not isinstance(packed, dict):
        raise NotAnAnswerError("it told no tables")
    if checked:
        _check(text, share)
    content = json.loads(text)
    return CaptureAnalysis(
        list(names), content, {name: _column(name, it, share) for name, it in packed.items()}
    )


def _check(text: str, share: Share) -> None:
    """Whether it is JSON of a capture's analysis with these lenses and no other."""
    from pydantic import ValidationError

    from nfslab._core import trace_lenses
    from nfslab.captures.declared import trace_content

    try:
        trace_content().validate_json(text)
        content = json.loads(text, parse_int=_number, parse_constant=_number)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:100]
        raise NotAnAnswerError(f"{where}: {first['msg'][:100]}") from error
    except (ValueError, RecursionError) as error:
        raise NotAnAnswerError(f"it told no JSON that is read: {str(error)[:100]}") from error
    if {name for name, *_ in trace_lenses()} & set(content) != set(share):
        raise NotAnAnswerError("it told other tables than it was asked for")


def _number(text: str) -> int:
    number = int(text)
    if not -NUMBER_MOST < number < NUMBER_MOST:
        raise ValueError("a number has more than 64 bits")
    return number


def _column(name: str, packed: Any, share: Share) -> tuple[str, bytes]:
    """A long column."""
    match packed:
        case [str(kind), str(text)] if kind in ELEMENTS and name.partition("/")[0] in share:
            try:
                content = base64.b64decode(text, validate=True)
            except ValueError as error:
                raise NotAnAnswerError(f"a long column is no base64: {error}") from error
            if len(content) % ELEMENTS[kind] == 0:
                return kind, content
    raise NotAnAnswerError("a long column is not one of these tables")
