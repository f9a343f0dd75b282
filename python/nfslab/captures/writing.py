"""The calls of a running analysis on their way into a Parquet file, or a folder of them.

A thread takes the rows, since the core waits for somebody to take them, while the main
thread looks after progress and signals. The file gets its name when all went well, and never
exists half written under it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from typing import TYPE_CHECKING

from nfslab.errors import RunFailed
from nfslab.results.durable import TEMPORARY_PREFIX, fsync_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab._core import CallRows, Trace

END_LIMIT_S = 30.0
"""How long the last rows may take to reach the disk once the analysis was told to stop."""


class CallsWriter:
    """Takes the rows of an analysis and writes them.

    `begin`, and once the analysis has ended `keep` or `give_up`. A signal may end anything of
    it at any instruction; `give_up` is right wherever that was.
    """

    def __init__(self, running: Trace, path: Path, sources: Sequence[str]) -> None:
        self._running, self._path, self._sources = running, path, list(sources)
        self._temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
        self._thread: threading.Thread | None = None
        self._error: Exception | None = None

    def begin(self) -> None:
        """Make the file (`RunFailed` when it cannot) and start taking rows."""
        rows = self._running.batches()
        if rows is None:
            raise ValueError("the analysis was started without columns")
        try:
            # Now, not when an hour of decoding is over.
            self._make()
        except OSError as error:
            raise _refused(self._path, error) from error
        thread = threading.Thread(
            target=self._write, args=(rows,), name="nfslab-calls", daemon=True
        )
        self._thread = thread
        thread.start()

    def _write(self, rows: CallRows) -> None:
        try:
            self._write_all(rows)
        except Exception as error:
            self._error = error
            # Nobody takes the rows any more: the analysis would wait for ever.
            self._running.stop()

    def _make(self) -> None:
        if self._path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        self._temporary.touch()

    def _sync(self) -> None:
        fsync_path(self._temporary)

    def _write_all(self, rows: CallRows) -> None:
        from nfslab.captures.parquet import write_calls

        write_calls(rows, self._temporary, sources=self._sources)

    @property
    def failed(self) -> RunFailed | None:
        """Why writing ended early, if it did."""
        return None if self._error is None else _refused(self._path, self._error)

    def keep(self) -> None:
        """The analysis ended well: the file gets its name. `RunFailed` when it cannot."""
        self._ended(None)
        if (failed := self.failed) is not None:
            self._remove()
            raise failed
        try:
            self._sync()
            self._temporary.rename(self._path)
            fsync_path(self._path.parent)
        except OSError as error:
            self._remove()
            raise _refused(self._path, error) from error

    def give_up(self) -> None:
        """The analysis was stopped, or failed: nothing is left behind."""
        self._ended(END_LIMIT_S)
        self._remove()

    def _ended(self, limit_s: float | None) -> None:
        """Wait for the thread, if it was started."""
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join(limit_s)

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._temporary.unlink(missing_ok=True)


class PartsWriter(CallsWriter):
    """The same into a folder that is new or empty: a file for each of the `sources`, which are in
    the order in which they are read.
    """

    def _make(self) -> None:
        self._temporary.mkdir()

    def _write_all(self, rows: CallRows) -> None:
        from nfslab.captures.parquet import write_parts

        write_parts(rows, self._temporary, sources=self._sources, begun=self._running.begun)

    def _sync(self) -> None:
        for part in self._temporary.iterdir():
            fsync_path(part)
        fsync_path(self._temporary)

    def _remove(self) -> None:
        shutil.rmtree(self._temporary, ignore_errors=True)


def _refused(path: Path, error: Exception) -> RunFailed:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return RunFailed(
        f"cannot write the calls to {path}", why=why, fix="give another file with --calls FILE"
    )
