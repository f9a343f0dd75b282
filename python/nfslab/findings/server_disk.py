"""Calls that need the server's storage are served more slowly."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import SERVICE, StageCause
from nfslab.findings.service import commits_alone, memory_too

if TYPE_CHECKING:
    from nfslab.findings.calls import Calls


class ServerDisk(StageCause):
    """Calls that need the server's storage are served more slowly."""

    cause: ClassVar[str] = "server_disk"
    stages: ClassVar[tuple[str, ...]] = SERVICE
    what: ClassVar[str] = (
        "the server's serving of calls that need its storage, and what waits for that"
    )
    confirm: ClassVar[str] = "serve the same export from memory, or from a faster disk"
    depends: ClassVar[tuple[str, ...]] = (
        "targets.*.disk",
        "targets.*.nvram",
        "targets.*.directory",
    )

    def fits(self, calls: Calls) -> bool:
        """Not COMMIT alone, and no call that memory answers."""
        return not commits_alone(calls) and not memory_too(calls)
