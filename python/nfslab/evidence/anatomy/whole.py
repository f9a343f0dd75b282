"""A transaction of parts that are known: their order, and what is left is the client's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.evidence.anatomy.parts import PartFacts, with_rest

if TYPE_CHECKING:
    from collections.abc import Mapping

ORDER: Final = (
    "wal_fsync", "wal_write", "group_commit_wait", "buffer_read", "relation_extend",
    "buffer_write", "other_files", "row_lock_waits", "lwlock_waits", "running", "unreported",
    "other",
)  # fmt: skip


def whole_of(parts: Mapping[str, PartFacts] | None, mean_ns: float) -> list[PartFacts]:
    """Parts that sum to the mean. None: it is not told what was waited for; nothing is the
    client's then."""
    shown = [parts[name] for name in ORDER if name in parts] if parts is not None else []
    total = sum(part.ns for part in shown)
    if parts is not None and total < mean_ns:
        return [*shown, PartFacts(name="client", ns=mean_ns - total, source="exact")]
    return with_rest(shown, mean_ns)
