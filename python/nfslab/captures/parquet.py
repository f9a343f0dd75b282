"""The calls of a capture as a Parquet file: one row a call, in the order of the calls.

The core makes Arrow batches (their columns: docs/captures.md); each becomes a row group as it
comes, so memory stays flat whatever the capture's length. The caller gives the file its name
when all is well (`nfslab.captures.writing`).

How the columns are stored was chosen by measuring (3 million calls, 32 columns), for the least
CPU at a size of about 25 bytes a call, with nothing that a common reader lacks:

* Texts are dictionaries already: their keys go to the file as they are.
* Times, frame numbers, offsets and connections: differences of neighbours
  (`DELTA_BINARY_PACKED`), half the CPU of general compression and a fraction of its size.
* All other numbers repeat: plain, and Snappy.
* Statistics (lowest and highest value of a row group) for the times only, so that a query for
  a stretch of time skips the rest; for all columns they would cost as much as writing them.
"""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from nfslab import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Protocol

    class ArrowStream(Protocol):
        """Anything that hands over Arrow batches through the C stream interface."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            """The stream, once."""
            ...


SCHEMA_VERSION = 1
"""Version of the columns' meaning, as in the core's `columns::SCHEMA_VERSION`."""

TIMES = ("call_first_ns", "call_last_ns", "reply_first_ns", "reply_last_ns", "last_send_ns")
DELTAS = (*TIMES, "frame_call", "frame_reply", "offset", "connection", "client_port")
PAGE_BYTES = 4 << 20
"""A row group's column is one page: readers of this much take all of it anyway."""
ENCODED_ROWS = 16_384
"""Rows of a column that are encoded at once: the default of 1024 costs 8 % more CPU."""


def write_calls(batches: ArrowStream, path: Path, *, sources: Sequence[str] = ()) -> int:
    """Write all batches to `path` and give the number of rows; `sources` name the captures.

    The file is complete when this returns, but not yet on stable storage. Raises OSError and
    what pyarrow raises for a stream that breaks off.
    """
    reader = pa.RecordBatchReader.from_stream(batches)
    schema = reader.schema.with_metadata(_metadata(sources))
    rows = 0
    with pq.ParquetWriter(path, schema, **_options(schema)) as writer:
        for batch in reader:
            rows += batch.num_rows
            # The pages take their columns from the batch, the file its metadata from the schema.
            writer.write_batch(batch.replace_schema_metadata(schema.metadata))
    return rows


def write_parts(
    batches: ArrowStream,
    folder: Path,
    *,
    sources: Sequence[str],
    begun: Callable[[], Sequence[int]],
) -> None:
    """Write a part for each of the `sources`, which are in the order in which they are read.

    A part begins with the first call of whose frames the first lies in its source; `begun` gives
    the frames in front of each source that was begun so far. In the order of their names the parts
    are in the order of the calls. Complete, and what is raised, as of `write_calls`.
    """
    import numpy as np

    reader = pa.RecordBatchReader.from_stream(batches)

    def part(number: int) -> pq.ParquetWriter:
        schema = reader.schema.with_metadata(_metadata(sources[number:][:1]))
        return pq.ParquetWriter(folder / part_name(number), schema, **_options(schema))

    with contextlib.ExitStack() as last:
        number = 0
        writer = last.enter_context(part(number))
        for batch in reader:
            frames = batch.column("frame_call").to_numpy(zero_copy_only=False)
            # A call a little out of its turn stays behind those in front of it.
            of_each = np.maximum.accumulate(np.searchsorted(begun(), frames, side="left") - 1)
            for of_some, rows in _stretches(batch, np.maximum(of_each, number)):
                while number < of_some:
                    last.pop_all().close()
                    number += 1
                    writer = last.enter_context(part(number))
                writer.write_batch(rows.replace_schema_metadata(_metadata(sources[number:][:1])))
        for empty in range(number + 1, len(sources)):
            part(empty).close()


def part_name(number: int) -> str:
    """Of the part of a source by its place."""
    return f"part-{number:05d}.parquet"


def _stretches(batch: Any, of_each: Any) -> Iterator[tuple[int, Any]]:
    """Rows that belong to one part, whose number does not fall."""
    import numpy as np

    ends = [0, *(np.flatnonzero(np.diff(of_each)) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(ends):
        if end > begin:
            yield int(of_each[begin]), batch.slice(begin, end - begin)


def _metadata(sources: Sequence[str]) -> dict[str, str]:
    """What the file says of itself."""
    return {
        "nfslab.version": __version__,
        "nfslab.calls.schema_version": str(SCHEMA_VERSION),
        "nfslab.calls.sources": json.dumps(list(sources)),
    }


def _options(schema: Any) -> dict[str, Any]:
    """Options of the writer: see the top of this module."""
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    deltas = [name for name in DELTAS if name in schema.names]
    packed = {*texts, *deltas}
    return {
        "use_dictionary": texts,
        "column_encoding": dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        "compression": {name: "none" if name in packed else "snappy" for name in schema.names},
        "write_statistics": [name for name in TIMES if name in schema.names],
        "data_page_size": PAGE_BYTES,
        "write_batch_size": ENCODED_ROWS,
    }
