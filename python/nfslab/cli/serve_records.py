"""The file that `nfslab serve --records` writes: a row for each call, as Parquet, while it serves.

It is written under a temporary name beside its own and renamed when it is whole and synced, so
that a file of that name is always a whole one; after kill -9 the temporary one stays behind.
What was served, and how, is in the file's own metadata (`nfslab.server`, JSON), so that it can
be understood without the command that made it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import ResultsError
from nfslab.results.durable import TEMPORARY_PREFIX, fsync_path

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from nfslab._core import Columns

METADATA_KEY: Final = b"nfslab.server"
CLOCK_KEY: Final = b"nfslab.clock"
ROW_GROUP_ROWS: Final = 1 << 18


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

    def take(self, columns: Columns) -> None:
        """Keep rows; whole row groups go to the file."""
        self._keep(columns)
        if self._waiting_rows >= ROW_GROUP_ROWS:
            try:
                self._write()
            except OSError as error:
                raise self._failed(error) from error

    def finish(self, last: Columns) -> None:
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

    def _keep(self, columns: Columns) -> None:
        import pyarrow as pa

        # Dictionaries differ from batch to batch: in the file they are texts.
        table = pa.table(columns)
        plain = pa.schema([(f.name, _plain(f.type)) for f in table.schema])
        if table.num_rows or not self._waiting:
            self._waiting.append(table.cast(plain))
            self._waiting_rows += table.num_rows

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_rows = [], 0
        if self._writer is None:
            metadata = {METADATA_KEY: json.dumps(self._model), CLOCK_KEY: b"CLOCK_MONOTONIC"}
            schema = table.schema.with_metadata(metadata)
            self._writer = pq.ParquetWriter(self._temporary, schema, compression="zstd")
        self._writer.write_table(table.replace_schema_metadata(self._writer.schema.metadata))
        self.rows += table.num_rows

    def _failed(self, error: OSError) -> ResultsError:
        self._broken = True
        self._temporary.unlink(missing_ok=True)
        why = str(error.strerror or error)
        return ResultsError(
            f"cannot write {self.path}", why=why, fix="give another file with --records"
        )


def _plain(kind: pa.DataType) -> pa.DataType:
    import pyarrow as pa

    return kind.value_type if pa.types.is_dictionary(kind) else kind
