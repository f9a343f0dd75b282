"""Row locks: transactions that wait for each other's rows."""

from __future__ import annotations

from typing import ClassVar

from nfslab.findings.base import PartsCause


class RowLocks(PartsCause):
    """More time is spent waiting for another transaction's lock."""

    cause: ClassVar[str] = "row_locks"
    parts: ClassVar[tuple[str, ...]] = ("row_locks",)
    what: ClassVar[str] = "waiting for rows that another transaction has locked"
    confirm: ClassVar[str] = "raise the scale well above the number of clients: the part goes"
