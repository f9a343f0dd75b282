"""Columns of the core, and rows of ours, as tables of Arrow.

`pyarrow.table(columns)` would ask first whether they are a data frame, and import pandas for it:
half a second beside a program that is watched. So the stream is read as such.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from nfslab._core import Columns


def core_table(columns: Columns | pa.Table) -> pa.Table:
    """A table with texts instead of dictionaries, which differ from batch to batch."""
    import pyarrow as pa

    return plain_texts(pa.RecordBatchReader.from_stream(columns).read_all())


def plain_texts(table: pa.Table) -> pa.Table:
    """The same table with texts instead of dictionaries."""
    import pyarrow as pa

    def kind(one: pa.DataType) -> pa.DataType:
        return one.value_type if pa.types.is_dictionary(one) else one

    if not any(map(pa.types.is_dictionary, table.schema.types)):
        return table
    return table.cast(pa.schema([(f.name, kind(f.type)) for f in table.schema]))


def typed_table(rows: Sequence[Sequence[Any]], types: Mapping[str, Any]) -> pa.Table:
    """Rows as columns of these types, also where there are none."""
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    return pa.table(
        {name: pa.array(c, t) for (name, t), c in zip(types.items(), columns, strict=True)}
    )
