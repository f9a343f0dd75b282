"""The database's light locks (latches), without the log's."""

from __future__ import annotations

from typing import ClassVar

from nfslab.findings.base import PartsCause


class DatabaseLocks(PartsCause):
    """More time is spent waiting for light locks."""

    cause: ClassVar[str] = "database_locks"
    parts: ClassVar[tuple[str, ...]] = ("lwlock_waits",)
    what: ClassVar[str] = "waiting for the database's own light locks"
    confirm: ClassVar[str] = "lower the number of clients: the part goes"
    depends: ClassVar[tuple[str, ...]] = ("workload.clients", "workload.terminals")
