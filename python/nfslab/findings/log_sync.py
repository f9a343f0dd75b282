"""The log of a database or of POSTs: writing it, syncing it, group-commit waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.base import PartsCause
from nfslab.findings.beside import LOG_PARTS
from nfslab.findings.slopes import of_log_syncs

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.confirm import Slope
    from nfslab.report.model import Analysis


class LogSync(PartsCause):
    """Commits (a web server's POSTs) wait longer for the log."""

    cause: ClassVar[str] = "log_sync"
    parts: ClassVar[tuple[str, ...]] = LOG_PARTS
    what: ClassVar[str] = "syncing the log, in writing it, and in group-commit waits"
    confirm: ClassVar[str] = "put the log on the baseline's storage, or delay each of its syncs"
    depends: ClassVar[tuple[str, ...]] = ("workload.wal", "workload.log", "workload.sync_posts")

    def slope(self, pair: Compared, analysis: Analysis) -> Slope | None:
        """A delay of each sync of the log."""
        return of_log_syncs(self.cause, pair, analysis)
