"""Calls whose parts a test knows, as the collectors `rpc` and `nfs_server` store them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.collectors.planted_nfs_server import calls_table

SECOND = 10**9


def client_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of the client's record as evidence: `at` is enqueued, sent, completed."""
    usual = {
        "program": 100003, "procedure": 6, "operation": "READ", "outcome": "answered",
        "sends": 1, "target": "share", "call_bytes": 100, "reply_bytes": 100,
    }  # fmt: skip
    whole = []
    for row in rows:
        enqueued, sent, completed = row["at"]
        instants = {
            "t_ns": sent - 10 * SECOND, "enqueued_ns": enqueued, "sent_first_ns": sent,
            "sent_last_ns": sent, "completed_ns": completed,
        }  # fmt: skip
        whole.append(instants | usual | {k: v for k, v in row.items() if k != "at"})
    kinds = {"t_ns": pa.int64()} | dict.fromkeys(
        ("enqueued_ns", "sent_first_ns", "sent_last_ns", "completed_ns"), pa.uint64()
    )
    numbers = ("xid", "program", "procedure", "sends", "call_bytes", "reply_bytes")
    kinds |= dict.fromkeys(numbers, pa.uint32())
    kinds |= {"operation": pa.string(), "outcome": pa.string()}
    kinds["target"] = pa.dictionary(pa.int32(), pa.string())
    return pa.Table.from_pylist(whole, schema=pa.schema(kinds))


def server_table(rows: list[dict[str, Any]]) -> pa.Table:
    targets = pa.array([row.get("target", "share") for row in rows]).dictionary_encode()
    plain = [{k: v for k, v in row.items() if k != "target"} for row in rows]
    return calls_table(plain).append_column("target", targets)


def at(base: int, *steps: int) -> list[int]:
    found = [base + 11 * SECOND]
    for step in steps:
        found.append(found[-1] + step)
    return found


def both(base: int, xid: int, *parts: int, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A call with these six parts."""
    instants = at(base, *parts)
    client = {"at": [instants[0], instants[1], instants[6]], "xid": xid}
    return client | more, {"at": instants[2:6], "xid": xid} | more


def write_calls(run: Path, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Both tables into a run's folder."""
    (run / "evidence").mkdir(exist_ok=True)
    tables = {
        "rpc_calls": client_table([client for client, _ in pairs]),
        "nfs_server_calls": server_table([server for _, server in pairs]),
    }
    for name, table in tables.items():
        pq.write_table(table, run / "evidence" / f"{name}.parquet")
