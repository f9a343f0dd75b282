"""Every call is served more slowly, also what memory answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import SERVICE, StageCause
from nfslab.findings.service import memory_too

if TYPE_CHECKING:
    from nfslab.findings.calls import Calls


class ServerCpu(StageCause):
    """Every call is served more slowly, also what memory answers."""

    cause: ClassVar[str] = "server_cpu"
    stages: ClassVar[tuple[str, ...]] = SERVICE
    what: ClassVar[str] = (
        "the server's serving of every call, also of those from memory, and what waits for it"
    )
    confirm: ClassVar[str] = "give the server a processor more, or take other work from it"
    depends: ClassVar[tuple[str, ...]] = ("targets.*.service_time",)

    def fits(self, calls: Calls) -> bool:
        """Also calls that memory answers."""
        return memory_too(calls)
