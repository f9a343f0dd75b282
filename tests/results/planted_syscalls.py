"""System calls that a test knows, in the columns that the core gives (syscall_tables.rs)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from nfslab.evidence.syscalls.tables import SyscallTables

SECOND = 10**9
MS = 10**6
U64, U32, TEXT = pa.uint64(), pa.uint32(), pa.string()
SYNCS = {
    "start_ns": U64, "latency_ns": U64, "pid": U32, "tid": U32, "call": TEXT,
    "synchronous": pa.bool_(), "file_id": U32, "offset": U64, "size": U64, "error": U32,
}  # fmt: skip
FILES = {"file_id": U32, "device": TEXT, "inode": U64, "path": TEXT, "seen_ns": U64, "class": TEXT}
COUNTS = {
    "file_id": U32, "call": TEXT, "calls": U64, "errors": U64, "bytes": U64,
    "latency_sum_ns": U64, "latency_max_ns": U64, "latencies": pa.list_(U64),
    "sizes": pa.list_(U64), "places": pa.list_(U64),
}  # fmt: skip
BLOCKS = {
    "issue_ns": U64, "latency_ns": U64, "device": TEXT, "kind": TEXT, "fua": pa.bool_(),
    "sector": U64, "size": U64, "pid": U32,
}  # fmt: skip
EVENTS = {
    "start_ns": U64, "latency_ns": U64, "pid": U32, "tid": U32, "call": TEXT, "file_id": U32,
    "offset": U64, "size": U64, "bytes": U64, "error": U32,
}  # fmt: skip
CALLS = {
    "operation": TEXT, "enqueued_ns": U64, "completed_ns": U64, "file_id": U64, "count": U32,
    "target": TEXT,
}  # fmt: skip


def table(columns: dict[str, pa.DataType], rows: Sequence[dict[str, Any]]) -> pa.Table:
    whole = [dict.fromkeys(columns) | row for row in rows]
    return pa.Table.from_pylist(whole, schema=pa.schema(columns))


def sync(start_ns: int, latency_ns: int, file_id: int | None = 1, **more: Any) -> dict[str, Any]:
    usual = {"pid": 7, "tid": 7, "call": "fdatasync", "synchronous": False, "error": 0}
    return {"start_ns": start_ns, "latency_ns": latency_ns, "file_id": file_id} | usual | more


def access(
    start_ns: int, call: str, offset: int | None, size: int, file_id: int | None = 1, **more: Any
) -> dict[str, Any]:
    usual = {"latency_ns": 5, "pid": 7, "tid": 7, "bytes": size, "error": 0}
    at = {"start_ns": start_ns, "call": call, "offset": offset, "size": size, "file_id": file_id}
    return usual | at | more


def file(number: int, path: str, file_class: str | None, **more: Any) -> dict[str, Any]:
    usual = {"device": "8:1", "inode": 1000 + number, "seen_ns": 0}
    return {"file_id": number, "path": path, "class": file_class} | usual | more


def count(number: int | None, call: str, calls: int, **more: Any) -> dict[str, Any]:
    usual = {
        "errors": 0, "bytes": 0, "latency_sum_ns": calls * 1000, "latency_max_ns": 2000,
        "latencies": [0] * 160, "sizes": [0] * 32, "places": [0] * 5,
    }  # fmt: skip
    return {"file_id": number, "call": call, "calls": calls} | usual | more


WAL = file(1, "/pg/pg_wal/000000010000000000000001", "PostgreSQL WAL")
HEAP = file(2, "/pg/base/5/16384", "PostgreSQL tables and indexes")


def tables(syncs: Sequence[dict[str, Any]], **more: Any) -> SyscallTables:
    files = more.pop("files", [WAL, HEAP])
    return SyscallTables(table(FILES, files), table(SYNCS, syncs), **more)


def write_run(run: Path, whole: SyscallTables, zero_ns: int) -> None:
    """As a collector leaves it: with t_ns in front."""
    (run / "evidence").mkdir(parents=True, exist_ok=True)
    for name in ("files", "syncs", "events", "counts", "blocks"):
        one = getattr(whole, name)
        if one is None:
            continue
        instant = {"syncs": "start_ns", "events": "start_ns", "blocks": "issue_ns"}.get(name)
        if instant:
            times = [value - zero_ns for value in one[instant].to_pylist()]
            one = one.add_column(0, "t_ns", pa.array(times, pa.int64()))
        pq.write_table(one, run / "evidence" / f"syscall_{name}.parquet")
