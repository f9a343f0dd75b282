"""WRITEs go one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.findings.beside import ReasonCause
from nfslab.findings.calls import RPC_BACKLOG, WITH_REST, Calls, mostly, paths_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts

SEVERAL: Final = 1.5
ONE: Final = 1.1
"""WRITEs under way while one is."""


class SerialWrites(ReasonCause):
    """Each WRITE waits for the one before; at the baseline several were under way."""

    cause: ClassVar[str] = "serial_writes"
    what: ClassVar[str] = "WRITEs that go one at a time, each stable before the next"
    confirm: ClassVar[str] = "mount without sync, and write without O_SYNC; fsync at the end"
    depends: ClassVar[tuple[str, ...]] = (
        "targets.*.sync",
        "targets.*.mount_options",
        "workload.sync_kind",
        "workload.sync_every",
    )

    def paths(self, pair: Compared) -> tuple[str, ...]:
        """All of the calls."""
        return paths_of(pair, WITH_REST)

    def because(self, pair: Compared) -> str | None:
        """By how many were under way at once, where they are most of the calls' time."""
        calls = Calls.of(pair)
        if calls is None or calls.grew(RPC_BACKLOG):
            return None  # More are there to be sent: it is the client's window.
        taken = {name: one.per_operation * one.ns for name, one in calls.new.items()}
        if not mostly(taken, ("WRITE", "COMMIT")):
            return None
        base, new = (_at_once(side) for side in pair.sides)
        if not base or not new or min(base) < SEVERAL or max(new) > ONE:
            return None
        return (
            f"{sum(new) / len(new):.2g} WRITEs under way at once, {sum(base) / len(base):.2g} "
            "at the baseline"
        )


def _at_once(side: Sequence[RunFacts[AnatomyFacts]]) -> list[float]:
    known = [run.facts.writes_at_once for run in side]
    return [one for one in known if one is not None] if None not in known else []
