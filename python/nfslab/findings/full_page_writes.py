"""More whole pages in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.display.numbers import quantity
from nfslab.findings.beside import LOG_PARTS, ReasonCause, a_counter, a_transaction, beside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.interventions import At

LEAST_MORE: Final = 0.1
"""Whole pages of a transaction."""
LONGER: Final = 1.25
"""Times the bytes of log that a transaction had."""


class FullPageWrites(ReasonCause):
    """The log has more whole pages (full_page_writes, or more checkpoints)."""

    cause: ClassVar[str] = "full_page_writes"
    parts: ClassVar[tuple[str, ...]] = LOG_PARTS
    what: ClassVar[str] = "a log with more whole pages in it"
    confirm: ClassVar[str] = (
        "let checkpoints be rarer (max_wal_size, checkpoint_timeout), or compress whole pages "
        "(wal_compression)"
    )
    depends: ClassVar[tuple[str, ...]] = (
        "workload.settings.full_page_writes",
        "workload.settings.max_wal_size",
        "workload.settings.checkpoint_timeout",
        "workload.settings.wal_compression",
    )

    def because(self, pair: Compared) -> str | None:
        """By PostgreSQL's own counts (pg_stat_wal). Slower transactions alone have more whole pages
        each, since a page is written whole once after each checkpoint: so all of a run's, too."""
        pages = beside(pair, a_transaction("pg_stat_wal", "wal_fpi"))
        size = beside(pair, a_transaction("pg_stat_wal", "wal_bytes"))
        whole = beside(pair, a_counter("pg_stat_wal", "wal_fpi"))
        if pages is None or size is None or whole is None:
            return None
        if not (pages.grew and size.grew and whole.grew):
            return None
        if pages.new - pages.base < LEAST_MORE or size.new < LONGER * size.base:
            return None
        return (
            f"{pages.new:.2g} whole pages a transaction instead of {pages.base:.2g}, "
            f"{quantity(size.new, 'B')} of log instead of {quantity(size.base, 'B')}"
        )

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """On data of our own: a page torn by a crash could not be repaired (said as volatile)."""
        return at.setting("full_page_writes", True, False)
