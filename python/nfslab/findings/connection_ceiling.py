"""One TCP connection carries no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.beside import ReasonCause, beside
from nfslab.findings.calls import DATA, WIRE, Calls, mostly

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun


class ConnectionCeiling(ReasonCause):
    """With fewer connections the ways of READs and WRITEs are longer, and the server is not.

    What one connection carries is bound by its window over the round trip (RFC 7323, section 1.1),
    and by the one processor that receives it; both show as longer ways of calls with data.
    """

    cause: ClassVar[str] = "connection_ceiling"
    what: ClassVar[str] = "the transit of calls with data over fewer connections"
    confirm: ClassVar[str] = "raise nconnect to what the baseline has: the part goes"
    depends: ClassVar[tuple[str, ...]] = ("targets.*.nconnect",)

    def paths(self, pair: Compared) -> tuple[str, ...]:
        """The ways, where READs and WRITEs have got slower there; what waits for them with them."""
        calls = Calls.of(pair)
        if calls is None or WIRE not in calls.slower_stages():
            return ()
        slower = calls.weighed(calls.slower_by(WIRE))
        return calls.with_queues(WIRE) if mostly(slower, DATA) else ()

    def because(self, pair: Compared) -> str | None:
        """By the connections in effect."""
        fewer = beside(pair, _connections)
        if fewer is None or not fewer.grew:
            return None
        return f"{-fewer.new:.0f} connection{'s' * (fewer.new != -1)} instead of {-fewer.base:.0f}"


def _connections(run: SealedRun) -> float | None:
    """Below zero: fewer are more of this cause."""
    known = [
        number
        for place in run.record.places.values()
        if (number := place.facts.get("nfs", {}).get("transports"))
    ]
    return -float(min(known)) if known else None
