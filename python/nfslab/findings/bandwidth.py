"""The way between client and server is longer, the more bytes a call has."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.calls import WIRE, StageCause
from nfslab.findings.wire import ALIKE, of_size, ways

if TYPE_CHECKING:
    from nfslab.findings.alone import Alone
    from nfslab.findings.calls import Calls


class Bandwidth(StageCause):
    """The way between client and server is longer, the more bytes a call has."""

    cause: ClassVar[str] = "bandwidth"
    stages: ClassVar[tuple[str, ...]] = WIRE
    what: ClassVar[str] = (
        "the transit between client and server, the more bytes a call has the longer"
    )
    confirm: ClassVar[str] = "give the wire more bandwidth, or move fewer bytes"
    depends: ClassVar[tuple[str, ...]] = ("targets.*.bandwidth",)

    def fits(self, calls: Calls) -> bool:
        """Size explains it."""
        return of_size(calls)

    def told_apart(self, calls: Calls) -> bool:
        """From a busy server: calls are rarely there."""
        return not calls.served_mostly()

    def fits_alone(self, point: Alone) -> str | None:
        """Where small calls are far quicker on their ways than large ones."""
        known = ways(point)
        if known is None or known[0] >= ALIKE * known[1]:
            return None
        return "calls without data are in transit for far shorter than those with data"
