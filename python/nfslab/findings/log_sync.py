"""The log: writing it, syncing it, and waiting for another's flush."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.findings.base import PartsCause
from nfslab.findings.confirm import Lever

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.report.model import Analysis

LOG: Final = "workload.wal"


class LogSync(PartsCause):
    """Commits wait longer for the write-ahead log."""

    cause: ClassVar[str] = "log_sync"
    parts: ClassVar[tuple[str, ...]] = ("log_sync", "log_turn", "log_write")
    what: ClassVar[str] = "syncing the log, in writing it, and in waiting for another's flush"
    confirm: ClassVar[str] = "put the log on the base's storage, the data where they are"

    def lever(self, pair: Compared, analysis: Analysis) -> Lever | None:
        """The log on the base's target, where the base has another one."""
        base, new = (
            analysis.points[at].settings for at in (pair.result.base_point, pair.result.point)
        )
        if LOG not in base or base[LOG] == new.get(LOG):
            return None
        return Lever(f"log on {base[LOG]}", {LOG: base[LOG]})
