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
            return "row_lock_waits"
        case "LWLock" | "LWLockTranche" | "LWLockNamed":
            wal = event in ("WALWrite", "WALWriteLock")
            return "group_commit_wait" if wal else "lwlock_waits"
        case "BufferPin":
            return "lwlock_waits"
        case _:
            return "other"


def _of_file(event: str) -> str:
    if event.startswith(("WAL", "Wal")):
        return "wal_fsync" if event.endswith("Sync") else "wal_write"
    if event.startswith("DataFile"):
        kinds = {"DataFileRead": "buffer_read", "DataFilePrefetch": "buffer_read",
                 "DataFileExtend": "relation_extend"}  # fmt: skip
        return kinds.get(event, "buffer_write")
    if event.startswith("Aio"):  # PostgreSQL 18 reads pages so, and writes none
        return "buffer_read"
    return "other_files"
