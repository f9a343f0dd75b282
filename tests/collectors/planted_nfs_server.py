"""NFS servers that record what a test knows, as `EmbeddedServer` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from nfslab import clock
from nfslab.errors import RunFailed


def calls_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of the server's record: (received, started, finished, sent), xid, operation, ..."""
    usual = {
        "client": "127.0.0.1:700", "program": 100003, "procedure": 6, "call_bytes": 100,
        "reply_bytes": 200, "operation": "READ", "outcome": "answered", "status": 0,
    }  # fmt: skip
    instants = ("received_ns", "started_ns", "finished_ns", "sent_ns")
    whole = [
        dict(zip(instants, row["at"], strict=True))
        | usual
        | {name: value for name, value in row.items() if name != "at"}
        for row in rows
    ]
    numbers = {"xid": pa.uint32(), "program": pa.uint32(), "procedure": pa.uint32()}
    numbers |= {"call_bytes": pa.uint32(), "reply_bytes": pa.uint32(), "status": pa.uint32()}
    texts = dict.fromkeys(("client", "operation", "outcome"), pa.string())
    schema = pa.schema(dict.fromkeys(instants, pa.uint64()) | numbers | texts)
    return pa.Table.from_pylist(whole, schema=schema)


class Recording:
    """A server with these rows, or one that fails."""

    def __init__(self, rows: list[dict[str, Any]], fails: str = "", **ended: Any) -> None:
        self._rows, self._fails, self._ended = rows, fails, ended
        self.asked: list[tuple[Path, int | None]] = []
        self.ends = 0

    def record(self, file: Path, rows_max: int | None = None) -> int:
        if self._fails == "record":
            raise RunFailed("it does not record", why="planted")
        self.asked.append((file, rows_max))
        return clock.monotonic_ns()

    def rows(self) -> list[dict[str, Any]]:
        return self._rows

    def end_recording(self) -> dict[str, Any]:
        self.ends += 1
        if self._fails == "end":
            raise RunFailed("it did not obey", why="it was ended by signal 9")
        file, _ = self.asked[-1]
        rows = self.rows()
        pq.write_table(calls_table(rows), file)
        usual = {"rows": len(rows), "lost": 0, "left_out": 0, "cpu_s": 0.001}
        return usual | self._ended


class Answering(Recording):
    """Three calls, the last of them now."""

    def __init__(self) -> None:
        super().__init__([])

    def rows(self) -> list[dict[str, Any]]:
        now_ns = clock.monotonic_ns()
        return [
            {"at": [now_ns + k, now_ns + k + 10, now_ns + k + 30, now_ns + k + 60], "xid": k}
            for k in range(3)
        ]
