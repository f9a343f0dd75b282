"""COMMIT is served more slowly, WRITE is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import MOSTLY, SERVICE, Calls, StageCause
from nfslab.findings.service import by_kind, commits_alone, memory_too

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.alone import Alone
    from nfslab.findings.confirm import Slope
    from nfslab.report.model import Analysis


class CommitSlow(StageCause):
    """COMMIT is served more slowly, WRITE is not."""

    cause: ClassVar[str] = "commit_slow"
    stages: ClassVar[tuple[str, ...]] = SERVICE
    what: ClassVar[str] = "the server's COMMITs, and what waits for them"
    confirm: ClassVar[str] = (
        "give the server a disk that flushes faster, or memory that keeps what is written"
    )
    depends: ClassVar[tuple[str, ...]] = (
        "targets.*.disk",
        "targets.*.nvram",
        "targets.*.service_time",
    )

    def fits(self, calls: Calls) -> bool:
        """COMMIT makes most of it, and no call that memory answers."""
        return commits_alone(calls) and not memory_too(calls)

    def slope(self, pair: Compared, analysis: Analysis) -> Slope | None:
        """A delay of each COMMIT."""
        calls = Calls.of(pair)
        return None if calls is None else calls.slope(self.cause, "COMMIT", analysis)

    def fits_alone(self, point: Alone) -> str | None:
        """Where most of all service is COMMIT's."""
        known = by_kind(point)
        if known is None or known[2] < MOSTLY:
            return None
        return f"COMMITs have {known[2]:.0%} of all server processing"
