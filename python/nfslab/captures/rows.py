"""The rows of a running analysis as one table in memory, within a bound."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from nfslab.results.bounded_rows import RowBound

if TYPE_CHECKING:
    import pyarrow as pa

    from nfslab._core import CallRows, Trace

CALL_ROWS_MAX: Final = 2_000_000
"""Rows kept, about 370 MB; beyond, they are counted only."""


class CallTable:
    """The rows of the calls, taken by a thread, kept within a bound."""

    def __init__(self, running: Trace) -> None:
        stream = running.batches()
        assert stream is not None, "started without columns"
        self._batches: list[pa.RecordBatch] = []
        self._bound = RowBound(CALL_ROWS_MAX)
        self._thread = threading.Thread(target=self._take, args=(stream,), daemon=True)
        self._thread.start()

    @property
    def left_out(self) -> int:
        """Rows that are counted only."""
        return self._bound.left_out

    def _take(self, stream: CallRows) -> None:
        import pyarrow as pa

        for batch in pa.RecordBatchReader.from_stream(stream):
            kept = self._bound.within(batch)
            if kept.num_rows:
                self._batches.append(kept)

    def table(self, zero_ns: int) -> pa.Table | None:
        """All rows with their t_ns in front, in the order of time."""
        import pyarrow as pa
        import pyarrow.compute as pc

        self._thread.join()
        if not self._batches:
            return None
        table = pa.Table.from_batches(self._batches)
        times = pc.subtract(table["call_first_ns"], zero_ns)
        return table.add_column(0, "t_ns", times).sort_by("t_ns")
