"""The way between client and server is longer, for small calls as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import WIRE, StageCause
from nfslab.findings.wire import ALIKE, by_size, of_size, ways

if TYPE_CHECKING:
    from nfslab.findings.alone import Alone
    from nfslab.findings.calls import Calls


class WireLatency(StageCause):
    """The way between client and server is longer, for small calls as well."""

    cause: ClassVar[str] = "wire_latency"
    stages: ClassVar[tuple[str, ...]] = WIRE
    what: ClassVar[str] = "the transit between client and server, for calls of every size"
    confirm: ClassVar[str] = "put client and server nearer; other transfer sizes change nothing"
    depends: ClassVar[tuple[str, ...]] = (
        "targets.*.delay",
        "targets.*.jitter",
    )

    def fits(self, calls: Calls) -> bool:
        """Size does not explain it."""
        return not of_size(calls)

    def told_apart(self, calls: Calls) -> bool:
        """From bandwidth: by calls of both sizes; from a busy server by calls that are rarely
        there."""
        return all(by_size(calls)) and not calls.served_mostly()

    def fits_alone(self, point: Alone) -> str | None:
        """Where small calls are nearly as long on their ways as large ones."""
        known = ways(point)
        if known is None or known[0] < ALIKE * known[1]:
            return None
        return "calls without data are in transit nearly as long as those with data"
