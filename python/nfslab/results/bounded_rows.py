"""Batches of a table that grows while something runs, kept within a bound of rows.

Those beyond are counted, never dropped silently: `left_out` is for a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

    Batch = TypeVar("Batch", pa.Table, pa.RecordBatch)


class RowBound:
    """Room for so many rows; None: no bound."""

    def __init__(self, rows_max: int | None) -> None:
        self._most = rows_max
        self.rows = 0
        """Within the bound."""
        self.left_out = 0
        """Beyond it."""

    def within(self, batch: Batch) -> Batch:
        """As many of its rows as there is room for, the first ones."""
        room = batch.num_rows if self._most is None else self._most - self.rows
        # A slice of a table without columns has as many rows as were asked for (pyarrow 26).
        kept = batch if batch.num_rows <= room else batch.slice(0, room)
        self.rows += kept.num_rows
        self.left_out += batch.num_rows - kept.num_rows
        return kept


class BoundedRows(RowBound):
    """The rows themselves, too."""

    def __init__(self, rows_max: int | None) -> None:
        super().__init__(rows_max)
        self._batches: list[pa.Table] = []

    def keep(self, batch: pa.Table) -> pa.Table:
        """What was kept of it."""
        kept = self.within(batch)
        if kept.num_rows:
            self._batches.append(kept)
        return kept

    def table(self) -> pa.Table | None:
        """All rows; None without any."""
        import pyarrow as pa

        return pa.concat_tables(self._batches) if self._batches else None
