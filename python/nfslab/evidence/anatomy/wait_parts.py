"""Which part of a transaction a backend's wait event is."""

from __future__ import annotations


def part_of_wait(event_type: str, event: str) -> str | None:
    """Which part a backend with this wait event is in; None: it is the client's time."""
    match event_type:
        case "":
            return "running"
        case "Client":
            return None
        case "IO":
            return _of_file(event)
        case "Lock":
            return "row_locks"
        case "LWLock" | "LWLockTranche" | "LWLockNamed":
            return "log_turn" if event in ("WALWrite", "WALWriteLock") else "database_locks"
        case "BufferPin":
            return "database_locks"
        case _:
            return "other_waits"


def _of_file(event: str) -> str:
    if event.startswith(("WAL", "Wal")):
        return "wal_fsync" if event.endswith("Sync") else "wal_write"
    if event.startswith("DataFile"):
        kinds = {"DataFileRead": "data_read", "DataFilePrefetch": "data_read",
                 "DataFileExtend": "data_extend"}  # fmt: skip
        return kinds.get(event, "data_write")
    if event.startswith("Aio"):  # PostgreSQL 18 reads pages so, and writes none
        return "data_read"
    return "other_files"
