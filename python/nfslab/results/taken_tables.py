"""Tables that another host wrote of a run, as tables of the run itself: moved, with host and clock.

`t_ns` counts from the start of the timed part. On the host that wrote it that was an instant of its
own clock; in a run it is one of its client's (`evidence.clocks`), so it is moved by the difference.
Other columns stay as they are; `host` names who saw the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.results.upgrade import stamp_table

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from nfslab.results.records import HostRecord

HOST = "host"
T = "t_ns"


def take_table(source: Path, destination: Path, host: HostRecord, moved_ns: int) -> None:
    """Write a table of `host` anew, its `t_ns` later by `moved_ns`, and remove the other.

    OSError, pa.ArrowException. In pieces: a table of calls may be larger than the memory.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(source) as file:
        schema = _taken(file.schema_arrow.empty_table(), host, moved_ns).schema
        with pq.ParquetWriter(destination, schema, compression="zstd") as writer:
            for group in range(file.num_row_groups):
                writer.write_table(_taken(file.read_row_group(group), host, moved_ns))
    source.unlink()


def later(table: pa.Table, moved_ns: int) -> pa.Table:
    """The table, its `t_ns` later by `moved_ns`; one without any is what it was."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not moved_ns or T not in table.column_names:
        return table
    moved = pc.add(table[T], pa.scalar(moved_ns, table[T].type))
    return table.set_column(table.column_names.index(T), table.field(T), moved)


def _taken(table: pa.Table, host: HostRecord, moved_ns: int) -> pa.Table:
    import pyarrow as pa

    table = later(table, moved_ns)
    if HOST not in table.column_names:
        names = pa.DictionaryArray.from_arrays(
            pa.array([0] * table.num_rows, pa.int8()), pa.array([host.name])
        )
        table = table.append_column(HOST, names)
    return stamp_table(table, host)
