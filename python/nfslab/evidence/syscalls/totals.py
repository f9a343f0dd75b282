"""Totals of calls: syncs added up by file and call (rows that are there, and those that found no
room), and what was added to totals of all calls between two readings.

A table of totals has a row for each file, call and kind: `file_id`, `call`, `synchronous` (a write
that returns when its bytes are durable), `calls`, `errors`, `bytes` (of calls that did not fail),
`latency_sum_ns`, `latency_max_ns`. Its size is that of the files, not of the calls.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEYS: Final = ("file_id", "call", "synchronous")
LISTS: Final = ("latencies", "sizes", "places")
"""Of totals of all calls."""
SUMS: Final = ("calls", "errors", "bytes", "latency_sum_ns")
MOST: Final = "latency_max_ns"
PARTS_MOST: Final = 64
"""Tables that wait before they are made one."""


def totals_of(syncs: pa.Table) -> pa.Table:
    """Of rows as a watch gives them."""
    failed = pc.not_equal(syncs["error"], pa.scalar(0))
    nothing = pa.scalar(0, pa.uint64())
    sizes = pc.coalesce(syncs["size"].cast(pa.uint64()), nothing)
    rows = syncs.select(list(KEYS))
    columns = {
        "calls": pa.repeat(pa.scalar(1, pa.uint64()), syncs.num_rows),
        "errors": failed.cast(pa.uint64()),
        "bytes": pc.if_else(failed, nothing, sizes),
        "latency_sum_ns": syncs["latency_ns"].cast(pa.uint64()),
        MOST: syncs["latency_ns"].cast(pa.uint64()),
    }
    for name, column in columns.items():
        rows = rows.append_column(name, column)
    return _merged(rows)


def _merged(rows: pa.Table) -> pa.Table:
    """One row for each file, call and kind, in the order in which they came first."""
    groups = rows.group_by(list(KEYS), use_threads=False)
    made = groups.aggregate([*((name, "sum") for name in SUMS), (MOST, "max")])
    found = made.select([*KEYS, *(f"{name}_sum" for name in SUMS), f"{MOST}_max"])
    return found.rename_columns([*KEYS, *SUMS, MOST])


class SyncsBeyond:
    """Rows that are not kept, added up."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def add(self, syncs: pa.Table) -> None:
        """Rows as a watch gives them."""
        if not syncs.num_rows:
            return
        self._parts.append(totals_of(syncs))
        if len(self._parts) >= PARTS_MOST:
            self._parts = [self._whole()]

    def table(self) -> pa.Table | None:
        """Their totals; None without any."""
        return self._whole() if self._parts else None

    def _whole(self) -> pa.Table:
        return _merged(pa.concat_tables(self._parts))


def since(after: pa.Table, before: pa.Table | None) -> pa.Table:
    """What was added to each file's calls; rows without a call in between are left out.

    The longest cannot be told of a difference: it is since watching began.
    """
    if before is None or not before.num_rows:
        return after
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
    lists: Any = table[name].combine_chunks()
    flat = lists.flatten().to_numpy().astype(np.int64)
    return flat.reshape(table.num_rows, -1)
