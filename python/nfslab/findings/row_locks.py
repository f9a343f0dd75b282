"""Row locks: transactions that wait for each other's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from nfslab.findings.base import PartsCause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.findings.interventions import At


class RowLocks(PartsCause):
    """More time is spent waiting for another transaction's lock."""

    cause: ClassVar[str] = "row_locks"
    parts: ClassVar[tuple[str, ...]] = ("row_lock_waits",)
    what: ClassVar[str] = "waiting for rows that another transaction has locked"
    confirm: ClassVar[str] = (
        "raise the scale (of tpcc: warehouses) well above the number of clients: the part goes"
    )
    depends: ClassVar[tuple[str, ...]] = ("workload.scale", "workload.warehouses")

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """So many branches that clients hardly meet at one: eight for each client."""
        scale, enough = at.value("workload.scale"), 8 * (at.value("workload.clients") or 1)
        return {"workload.scale": (scale, enough)} if scale and scale < enough else {}
