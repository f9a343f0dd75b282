"""What the kernel's server does: every request by sunrpc's tracepoints, in a Parquet file.

It is used as a process of our own server is (`EmbeddedServer.record`, `end_recording`), so that the
collector `nfs_server` and the join with the client's calls need not know whose server it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab import clock
from nfslab.errors import ResultsError, RunFailed
from nfslab.machine.drain_thread import DrainThread
from nfslab.servers.embedded_records import Recording, records_file

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab._core import Columns, KernelCalls


class _Source:
    """nfsd as something that `Recording` empties."""

    def __init__(self, model: dict[str, Any]) -> None:
        self._model = model
        self._watch: KernelCalls | None = None
        self._last: Columns | None = None

    def model(self) -> dict[str, Any]:
        """For the file's metadata."""
        return self._model

    def begin_records(self, room: int) -> None:
        """`room` is the rings' of the kernel."""
        from nfslab._core import KernelCalls

        self._watch = KernelCalls(server=True)

    def records(self) -> Columns:
        """Requests that were answered since the last time."""
        assert self._watch is not None
        last, self._last = self._last, None
        return self._watch.take()[2] if last is None else last

    def end_records(self) -> None:
        """What is left is the next that `records` gives."""
        assert self._watch is not None
        self._last = self._watch.stop()[2]

    def lost(self) -> int:
        """Records of the kernel that found no room."""
        return 0 if self._watch is None else self._watch.lost()


class KernelServerRecords:
    """Of all requests of this kernel's nfsd."""

    def __init__(self, model: dict[str, Any]) -> None:
        self._source = _Source(model)
        self._recording: Recording | None = None
        self._thread: DrainThread | None = None

    def record(self, file: Path, rows_max: int | None = None) -> int:
        """Record every request from now on; the instant, CLOCK_MONOTONIC. RunFailed."""
        from nfslab._core import CoreError

        self._recording = recording = Recording(self._source, records_file(file), rows_max)
        try:
            recording.begin()
        except (CoreError, ResultsError) as error:
            raise RunFailed(
                "the kernel's NFS server cannot be watched",
                why=str(error),
                fix=error.fix,
            ) from error
        self._thread = DrainThread(recording.take, "nfsd's requests")
        self._thread.begin()
        return clock.monotonic_ns()

    def end_recording(self) -> dict[str, Any]:
        """The file gets its name: rows, lost, left_out, cpu_s, at_ns, file. RunFailed."""
        recording, thread = self._recording, self._thread
        assert recording is not None
        assert thread is not None
        thread.end()
        try:
            recording.end()
        except ResultsError as error:
            raise RunFailed(error.what, why=error.why, fix=error.fix) from error
        return {
            "file": str(recording.file.path), "rows": recording.file.rows,
            "lost": self._source.lost(), "left_out": recording.left_out,
            "cpu_s": recording.cpu_s, "at_ns": recording.ended_ns,
        }  # fmt: skip
