"""Calls that need the server's storage are served more slowly."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.display.numbers import quantity
from nfslab.findings.calls import MOSTLY, SERVICE, StageCause
from nfslab.findings.service import ALIKE, by_kind, can_tell, commits_alone, memory_too

if TYPE_CHECKING:
    from nfslab.findings.alone import Alone
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
        "targets.*.service_time",
    )

    def fits(self, calls: Calls) -> bool:
        """Not COMMIT alone, and no call that memory answers."""
        return not commits_alone(calls) and not memory_too(calls)

    def told_apart(self, calls: Calls) -> bool:
        """From the server's processor: by calls that memory answers."""
        return can_tell(calls)

    def fits_alone(self, point: Alone) -> str | None:
        """Where calls that memory answers take less than half of what others do."""
        known = by_kind(point)
        if known is None or not known[0] or not known[1] or known[2] >= MOSTLY:
            return None
        memory_ns, other_ns, _ = known
        if memory_ns >= ALIKE * other_ns:
            return None
        return (
            f"a call that memory answers is served in {quantity(memory_ns, 'ns')}, another in "
            f"{quantity(other_ns, 'ns')}"
        )
