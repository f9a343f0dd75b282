"""The way between client and server is longer, for small calls as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import WIRE, StageCause
from nfslab.findings.wire import of_size

if TYPE_CHECKING:
    from nfslab.findings.calls import Calls


class WireLatency(StageCause):
    """The way between client and server is longer, for small calls as well."""

    cause: ClassVar[str] = "wire_latency"
    stages: ClassVar[tuple[str, ...]] = WIRE
    what: ClassVar[str] = "the way between client and server, for calls of every size"
    confirm: ClassVar[str] = "put client and server nearer; other transfer sizes change nothing"
    depends: ClassVar[tuple[str, ...]] = (
        "targets.*.delay",
        "targets.*.jitter",
    )

    def fits(self, calls: Calls) -> bool:
        """Size does not explain it."""
        return not of_size(calls)
