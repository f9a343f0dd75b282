"""SQLite's settings: pragmas of each connection, and what they promise.

Sources: "PRAGMA Statements" (sqlite.org/pragma.html: journal_mode, synchronous), "Atomic Commit In
SQLite" (atomiccommit.html), "Write-Ahead Logging" (wal.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

if TYPE_CHECKING:
    from collections.abc import Mapping

JournalMode = Literal["delete", "truncate", "persist", "wal"]
Synchronous = Literal["off", "normal", "full", "extra"]
LEVELS: Final[Mapping[str, int]] = {"off": 0, "normal": 1, "full": 2, "extra": 3}
"""As the pragma tells them."""


class SqliteSettings(BaseModel):
    """What `[workload.sqlite]` may hold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    journal_mode: JournalMode = "delete"
    synchronous: Synchronous = "full"
    page_size: int = 4096
    """Bytes; a database is made with it."""
    cache_size: int = Field(default=-2000, ge=-(2**31), lt=2**31)
    """Of a connection: pages, or KiB where it is below zero."""
    wal_autocheckpoint: int = Field(default=1000, ge=0, lt=2**31)
    """Pages of a log after which a commit copies them into the database; 0: never."""
    busy_timeout_ms: int = Field(default=10_000, ge=0, lt=2**31)
    """How long a connection waits for another's lock before its transaction is tried again."""

    @field_validator("page_size")
    @classmethod
    def _page_size(cls, value: int) -> int:
        if value not in [1 << power for power in range(9, 17)]:
            raise ValueError("page_size is a power of two from 512 to 65536")
        return value

    def pragmas(self) -> dict[str, str]:
        """Name -> value, as the pragma tells it when it is in effect; in an order that works."""
        return {
            "page_size": str(self.page_size),
            "journal_mode": self.journal_mode,
            "synchronous": str(LEVELS[self.synchronous]),
            "cache_size": str(self.cache_size),
            "wal_autocheckpoint": str(self.wal_autocheckpoint),
        }

    def durability_reasons(self) -> list[str]:
        """Why a committed transaction may be lost with the power."""
        mode, level = self.journal_mode, LEVELS[self.synchronous]
        if level == LEVELS["off"]:
            return ["synchronous = off: SQLite does not wait for the storage at all"]
        if mode == "delete" and level < LEVELS["extra"]:
            return [
                f"journal_mode = delete, synchronous = {self.synchronous}: the journal's removal, "
                "which is the commit, is not synced (synchronous = extra does it)"
            ]
        if mode in ("truncate", "wal") and level < LEVELS["full"]:
            return [
                f"journal_mode = {mode}, synchronous = {self.synchronous}: a commit is not synced"
            ]
        return []


def log_problem(data: str, wal: str | None) -> str:
    """Why the log cannot have a target of its own; "" where it has none."""
    if wal in (None, data):
        return ""
    return (
        f"wal = {wal!r}: SQLite has its journal or log beside the database, in one "
        "folder; leave wal out, or set it to the target of data"
    )
