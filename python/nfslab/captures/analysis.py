"""One pass over captures: started in the core, waited for here, handed over as one object.

The core reads and decodes on threads of its own. This thread only asks how far they are, so
that a signal takes effect at once: Python's handler raises here, the analysis is told to stop,
what was half written is removed, and the exception goes on.

A person's mistakes (no such file, a folder) are `UsageError`, exit code 2; captures that
cannot be read are `RunFailed`, exit code 1. What can be read in part is no error: it is
counted in the result's `anomalies`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab import clock
from nfslab.errors import Interrupted, NfslabError, RunFailed, Terminated, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nfslab._core import CoreError, OperationRow, Trace, TraceContent, TraceProgress

    Source = str | Path | tuple[str, int]
    """A capture's path, or a stream: (name for messages, descriptor)."""

LENSES_OF_REPORT = ("operations", "clients", "files", "rpcstat", "stalls", "access", "network")
"""What the text report and JSON are made of; pictures need `points`, comparisons `blocks`."""

POLL_FIRST_S = 0.002
POLL_MOST_S = 0.05
"""How often the core is asked how far it is: a small capture must not wait for a slow clock,
and an interruption must be felt within a fifth of a second."""
SILENT_PIPE_S = 2.0
"""After Ctrl-C: what filled the pipe has ended by then, or will not."""

_USAGE = frozenset({"missing", "directory", "config"})
_EMPTY = "empty"


class NothingToRead(RunFailed):
    """A capture without a byte in it, not even the header of its format."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted of captures."""

    lenses: Sequence[str] = LENSES_OF_REPORT
    file_classes: Sequence[tuple[str, str]] = ()
    """(name, glob of the path): first match wins."""
    window_ns: tuple[int, int] | None = None
    """Only calls sent in this time from the first frame on."""
    calls: Path | None = None
    """Write the calls there, as Parquet."""
    calls_by_file: bool = False
    """`calls` is a folder: a file for each capture."""
    columns: bool = False
    """The caller takes the rows of the calls itself."""

    def options(self) -> str:
        """The core's options."""
        return json.dumps(
            {
                "lenses": list(self.lenses),
                "file_classes": [list(entry) for entry in self.file_classes],
                "window_ns": self.window_ns,
                "columns": self.columns or self.calls is not None,
            }
        )


@dataclass(frozen=True, slots=True)
class CaptureAnalysis:
    """What was found in captures that were read as one."""

    names: list[str]
    """The captures, as given."""
    content: TraceContent
    """As the core found it."""
    blobs: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)
    """Long columns: "lens/name" -> (numpy's element type, bytes)."""
    from_files: bool = True
    """`names` are files that can be read again (not streams)."""

    @property
    def label(self) -> str:
        """The captures in a few words."""
        if len(self.names) == 1:
            return self.names[0]
        return f"{self.names[0]} and {len(self.names) - 1} more"

    @property
    def calls(self) -> int:
        """RPC calls of all programs; operations inside a COMPOUND are not counted again."""
        return sum(row["calls"] for row in self.outer)

    @property
    def outer(self) -> list[OperationRow]:
        """The operations without those inside COMPOUNDs, which have a row of their own."""
        return [row for row in self.content["operations"] if not is_inner(row)]

    @property
    def looked_at_ns(self) -> int:
        """How long the part lasts whose calls are in the figures: all of it, or --from to --to."""
        window = self.content.get("window_ns")
        if not window or not self.duration_ns:
            return self.duration_ns
        last_ns = self.first_ns + self.duration_ns
        return max(min(window[1], last_ns) - max(window[0], self.first_ns), 0)

    @property
    def first_ns(self) -> int:
        """The time of the first frame, since 1970; 0 where there is none."""
        return self.content["first_ns"] or 0

    @property
    def duration_ns(self) -> int:
        """From the first frame to the last."""
        return (self.content["last_ns"] or 0) - self.first_ns

    def column(self, name: str) -> NDArray[Any]:
        """A long column ("rpcstat/queue_mean") as an array; KeyError when there is none."""
        import numpy as np

        dtype, data = self.blobs[name]
        found: NDArray[Any] = np.frombuffer(data, np.dtype(dtype))
        return found


def is_inner(row: OperationRow) -> bool:
    """Is this row an operation inside COMPOUNDs, which have a row of their own?"""
    name = row["program_name"]
    compounds = (name == "NFS" and row["version"] == 4) or name == "NFS4_CALLBACK"
    return compounds and row["operation"] not in ("NULL", "COMPOUND", "CB_NULL", "CB_COMPOUND")


def read_captures(
    sources: Sequence[Source],
    asked: Asked,
    progress: Callable[[TraceProgress], None] | None = None,
) -> CaptureAnalysis:
    """Read captures as one, whole. Raises `UsageError`, `RunFailed`, and what a signal raises."""
    running = start(sources, asked)

    def read() -> CaptureAnalysis:
        wait_for(running, progress, piped=is_piped(sources))
        return finish(running, sources)

    try:
        if asked.calls is None:
            return read()
        return with_calls(running, _as_read(sources), asked, read)
    finally:
        running.stop()


def with_calls(
    running: Trace,
    names: Sequence[str],
    asked: Asked,
    read: Callable[[], CaptureAnalysis],
) -> CaptureAnalysis:
    """What `read` gives, whose rows are written to `asked.calls` meanwhile; nothing if it raises.

    `names`: of the captures, in the order in which they are read.
    """
    from nfslab.captures.writing import CallsWriter, PartsWriter

    assert asked.calls is not None
    kind = PartsWriter if asked.calls_by_file else CallsWriter
    writer = kind(running, asked.calls, names)
    try:
        writer.begin()
        found = read()
        writer.keep()
    except BaseException as error:
        running.stop()
        writer.give_up()
        if isinstance(error, NfslabError) and writer.failed is not None:
            # It stopped the analysis: "interrupted" would only be the effect.
            raise writer.failed from error
        raise
    return found


def _as_read(sources: Sequence[Source]) -> list[str]:
    """Their names, in the order in which the core reads them."""
    from nfslab._core import CoreError, capture_order

    files = [source for source in sources if not isinstance(source, tuple)]
    if len(files) < len(sources):
        return [name_of(source) for source in sources]
    try:
        return [str(file) for file in capture_order([str(file) for file in files])[0]]
    except CoreError as error:
        raise in_words(error) from error


def start(sources: Sequence[Source], asked: Asked) -> Trace:
    """Start reading; `UsageError` or `RunFailed` when a file cannot be read."""
    from nfslab._core import CoreError, Trace

    try:
        return Trace(list(sources), asked.options())
    except CoreError as error:
        raise in_words(error) from error


def wait_for(
    running: Trace,
    progress: Callable[[TraceProgress], None] | None = None,
    *,
    piped: bool = False,
) -> None:
    """Wait until the threads have ended, telling `progress` now and then.

    Ctrl-C ends the program that fills the pipe, too: what it still had is read. A second one, or
    a pipe that stays open and gives nothing for `SILENT_PIPE_S`, ends the wait. Raises what a
    signal raises.
    """
    pause_s = POLL_FIRST_S
    interrupt: KeyboardInterrupt | None = None
    frames = last_s = 0.0
    while not (state := running.progress())["finished"]:
        if interrupt is not None:
            if state["frames"] > frames:
                frames, last_s = state["frames"], clock.monotonic()
            elif clock.monotonic() - last_s > SILENT_PIPE_S:
                raise interrupt
        try:
            if progress is not None:
                progress(state)
            clock.sleep(pause_s)
        except KeyboardInterrupt as error:
            if not piped or interrupt is not None or isinstance(error, Terminated):
                raise
            interrupt, frames, last_s = error, state["frames"], clock.monotonic()
        pause_s = min(pause_s * 1.5, POLL_MOST_S)


def finish(running: Trace, sources: Sequence[Source]) -> CaptureAnalysis:
    """What was found."""
    from nfslab._core import CoreError

    try:
        text, blobs = running.finish()
    except CoreError as error:
        raise in_words(error) from error
    names = [name_of(source) for source in sources]
    return CaptureAnalysis(names, json.loads(text), blobs, not is_piped(sources))


def nothing(names: Sequence[str]) -> CaptureAnalysis:
    """The analysis of a capture in which nothing is."""
    content: TraceContent = {
        "packets": 0, "bytes": 0, "first_ns": None, "last_ns": None, "calls": 0,
        "lost": {"bytes": 0, "gaps": 0}, "anomalies": [], "operations": [],
    }  # fmt: skip
    return CaptureAnalysis(list(names), content, from_files=False)


def is_piped(sources: Sequence[Source]) -> bool:
    """Does any of it come from a pipe?"""
    return any(isinstance(source, tuple) for source in sources)


def name_of(source: Source) -> str:
    """A capture's name for people."""
    return source[0] if isinstance(source, tuple) else str(source)


@dataclass(frozen=True, slots=True)
class Fault:
    """What a `CoreError` of another process says."""

    kind: str
    what: str
    why: str
    fix: str


def in_words(error: CoreError | Fault) -> NfslabError:
    """An error of the core as one of ours."""
    if error.kind == "interrupted":
        return Interrupted("the capture was not read to its end")
    kind: type[NfslabError] = NothingToRead if error.kind == _EMPTY else RunFailed
    if error.kind in _USAGE:
        kind = UsageError
    return kind(error.what, why=error.why, fix=error.fix)
