"""Totals of system calls between two readings of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

SUMS: Final = ("calls", "errors", "bytes", "latency_sum_ns")
LISTS: Final = ("latencies", "sizes", "places")
MOST: Final = "latency_max_ns"
"""The longest cannot be told of a difference: it is since watching began."""


def since(after: pa.Table, before: pa.Table | None) -> pa.Table:
    """What was added to each file's calls; rows without a call in between are left out."""
    if before is None or not before.num_rows:
        return after
    import numpy as np
    import pyarrow as pa

    earlier = {key: row for row, key in enumerate(_keys(before))}
    place = np.array([earlier.get(key, -1) for key in _keys(after)], dtype=np.int64)
    known = place >= 0
    columns: dict[str, Any] = {name: after[name] for name in ("file_id", "call")}
    for name in SUMS:
        values = after[name].to_numpy().astype(np.int64)
        values[known] -= before[name].to_numpy().astype(np.int64)[place[known]]
        columns[name] = pa.array(values, pa.uint64())
    columns[MOST] = after[MOST]
    for name in LISTS:
        values = _lists(after, name)
        values[known] -= _lists(before, name)[place[known]]
        offsets = np.arange(len(values) + 1, dtype=np.int32) * values.shape[1]
        columns[name] = pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()), pa.array(values.reshape(-1), pa.uint64())
        )
    whole = pa.table({name: columns[name] for name in after.column_names})
    return whole.filter(pa.array(np.asarray(whole["calls"].to_numpy()) > 0))


def _keys(table: pa.Table) -> list[tuple[Any, Any]]:
    return list(zip(table["file_id"].to_pylist(), table["call"].to_pylist(), strict=True))


def _lists(table: pa.Table, name: str) -> Any:
    import numpy as np

    lists: Any = table[name].combine_chunks()
    flat = lists.flatten().to_numpy().astype(np.int64)
    return flat.reshape(table.num_rows, -1)
