"""Every call is served more slowly, also what memory answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.display.numbers import quantity
from nfslab.findings.calls import MOSTLY, SERVICE, StageCause
from nfslab.findings.service import ALIKE, by_kind, memory_too

if TYPE_CHECKING:
    from nfslab.findings.alone import Alone
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

    def fits_alone(self, point: Alone) -> str | None:
        """Where calls that memory answers take at least half of what others do."""
        known = by_kind(point)
        if known is None or not known[0] or known[2] >= MOSTLY:
            return None
        memory_ns, other_ns, _ = known
        if memory_ns < ALIKE * other_ns:
            return None
        return f"calls that memory answers take {quantity(memory_ns, 'ns')}, as long as others"
