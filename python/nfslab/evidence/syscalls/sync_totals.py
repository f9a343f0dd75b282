"""Syncs added up by file and call: of rows that are there, and of those that found no room.

A table of totals has a row for each file, call and kind: `file_id`, `call`, `synchronous` (a write
that returns when its bytes are durable), `calls`, `errors`, `bytes` (of calls that did not fail),
`latency_sum_ns`, `latency_max_ns`. Its size is that of the files, not of the calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import pyarrow as pa

KEYS: Final = ("file_id", "call", "synchronous")
SUMS: Final = ("calls", "errors", "bytes", "latency_sum_ns")
MOST: Final = "latency_max_ns"
PARTS_MOST: Final = 64
"""Tables that wait before they are made one."""


def totals_of(syncs: pa.Table) -> pa.Table:
    """Of rows as a watch gives them."""
    import pyarrow as pa
    import pyarrow.compute as pc

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
        import pyarrow as pa

        return _merged(pa.concat_tables(self._parts))
