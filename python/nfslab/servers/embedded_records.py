"""The files that `nfslab serve` writes of its calls: a row for each, as Parquet, while it serves.

A `Recording` takes the records out of the server again and again and puts them into a
`RecordsFile`: `--records` has one from start to end, `--control` as many as are asked for.

It is written under a temporary name beside its own and renamed when it is whole and synced, so
that a file of that name is always a whole one; after kill -9 the temporary one stays behind.
What was served, and how, is in the file's own metadata (`nfslab.server`, JSON), so that it can
be understood without the command that made it.

Bounds: what waits in the server (RECORD_ROOM; more are lost, and counted), what waits to be
written (a row group), and the rows of a file where `rows_max` says so (more are counted).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from nfslab import clock
from nfslab.errors import ResultsError, UsageError
from nfslab.results.bounded_rows import RowBound
from nfslab.results.core_tables import core_table
from nfslab.results.durable import TEMPORARY_PREFIX, fsync_path

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from nfslab._core import Columns

METADATA_KEY: Final = b"nfslab.server"
CLOCK_KEY: Final = b"nfslab.clock"
ROW_GROUP_ROWS: Final = 1 << 18
RECORD_ROOM: Final = 1 << 18
"""Calls that wait to be written: half a second at 500,000 calls a second."""


def records_file(path: Path) -> RecordsFile:
    """The file at a path where one can be; UsageError."""
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", fix="make it, or name another file")
    if path.is_dir():
        raise UsageError(f"{path} is a folder", fix="name a file: FILE.parquet")
    return RecordsFile(path)


class Recorder(Protocol):
    """What is emptied: a server of the core, or what is seen of another one."""

    def model(self) -> dict[str, Any]:
        """What is served, for the file's metadata."""

    def begin_records(self, room: int) -> None:
        """Record each call from now on; so many may wait. CoreError."""

    def records(self) -> Columns:
        """Those that wait, and wait no longer."""

    def end_records(self) -> None:
        """No more; what waits is still there to be taken."""


class Recording:
    """Calls of a server on their way to a file, from `begin` to `end`."""

    def __init__(self, server: Recorder, file: RecordsFile, rows_max: int | None = None) -> None:
        self.file = file
        self.failed: ResultsError | None = None
        """Why nothing more is written; the server goes on."""
        self.cpu_s = 0.0
        """Of this thread for all of it; what a record costs the server's own is not in it."""
        self.ended_ns = 0
        self._server = server
        self._bound = RowBound(rows_max)

    @property
    def left_out(self) -> int:
        """Calls beyond `rows_max`: counted, not written."""
        return self._bound.left_out

    def begin(self, *, on: bool = False) -> None:
        """`on`: the server records already. ResultsError when the file cannot be written."""
        began = clock.thread_cpu()
        self.file.begin(self._server.model())
        if not on:
            self._server.begin_records(RECORD_ROOM)
        self.cpu_s += clock.thread_cpu() - began

    def take(self) -> None:
        """Move what is there; never raises (see `failed`)."""
        began = clock.thread_cpu()
        try:
            columns = self._bound.within(core_table(self._server.records()))
            if self.failed is None:
                self.file.take(columns)
        except ResultsError as error:
            self.failed = error
        self.cpu_s += clock.thread_cpu() - began

    def end(self) -> None:
        """The last calls; then the file gets its name. ResultsError if it cannot be written."""
        began = clock.thread_cpu()
        self._server.end_records()
        self.ended_ns = clock.monotonic_ns()
        last = self._bound.within(core_table(self._server.records()))
        if self.failed is not None:
            raise self.failed
        self.file.finish(last)
        self.cpu_s += clock.thread_cpu() - began


class RecordsFile:
    """Rows that become the file `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        self._temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}")
        self._writer: Any = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._model: dict[str, Any] = {}
        self._broken = False

    def begin(self, model: dict[str, Any]) -> None:
        """What is served, for the file's metadata; the file can be written at all."""
        self._model = model
        try:
            self._temporary.touch(exist_ok=False)
        except OSError as error:
            raise self._failed(error) from error

    def take(self, columns: Columns | pa.Table) -> None:
        """Keep rows; whole row groups go to the file."""
        self._keep(columns)
        if self._waiting_rows >= ROW_GROUP_ROWS:
            try:
                self._write()
            except OSError as error:
                raise self._failed(error) from error

    def finish(self, last: Columns | pa.Table) -> None:
        """The last rows; then the file gets its name. Nothing when it failed before."""
        if self._broken:
            return
        self._keep(last)
        try:
            self._write()
            self._writer.close()
            fsync_path(self._temporary)
            self._temporary.rename(self.path)
            fsync_path(self.path.absolute().parent)
        except OSError as error:
            raise self._failed(error) from error

    def _keep(self, columns: Columns | pa.Table) -> None:
        table = core_table(columns)
        if table.num_rows or not self._waiting:
            self._waiting.append(table)
            self._waiting_rows += table.num_rows

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        if self._writer is None:
            metadata = {METADATA_KEY: json.dumps(self._model), CLOCK_KEY: b"CLOCK_MONOTONIC"}
            schema = table.schema.with_metadata(metadata)
            self._writer = pq.ParquetWriter(
                self._temporary, schema, compression="zstd", **_encodings(schema)
            )
        self._writer.write_table(table.replace_schema_metadata(self._writer.schema.metadata))
        self.rows += table.num_rows

    def _failed(self, error: OSError) -> ResultsError:
        self._broken = True
        self._temporary.unlink(missing_ok=True)
        why = str(error.strerror or error)
        return ResultsError(
            f"cannot write {self.path}", why=why, fix="name another file, where there is room"
        )


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Numbers that grow and hardly repeat: a third of the usual way's time, and of its size."""
    import pyarrow as pa

    numbers = [f.name for f in schema if pa.types.is_integer(f.type)]
    return {
        "use_dictionary": [f.name for f in schema if pa.types.is_string(f.type)],
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
    }
