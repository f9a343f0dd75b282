"""COMMIT is served more slowly, WRITE is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import SERVICE, StageCause
from nfslab.findings.service import commits_alone, memory_too

if TYPE_CHECKING:
    from nfslab.findings.calls import Calls


class CommitSlow(StageCause):
    """COMMIT is served more slowly, WRITE is not."""

    cause: ClassVar[str] = "commit_slow"
    stages: ClassVar[tuple[str, ...]] = SERVICE
    what: ClassVar[str] = "the server's COMMITs, and what waits for them"
    confirm: ClassVar[str] = (
        "give the server a disk that flushes faster, or memory that keeps what is written"
    )

    def fits(self, calls: Calls) -> bool:
        """COMMIT makes most of it, and no call that memory answers."""
        return commits_alone(calls) and not memory_too(calls)
