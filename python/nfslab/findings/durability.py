"""What the baseline is spared: it does not keep what it says it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nfslab.findings.beside import LOG_PARTS, ReasonCause

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun


class Durability(ReasonCause):
    """The base's storage is volatile, the new point's is not."""

    cause: ClassVar[str] = "durability"
    parts: ClassVar[tuple[str, ...]] = (*LOG_PARTS, "final_sync", "storage")
    what: ClassVar[str] = "making data survive a loss of power, which the baseline does not do"
    confirm: ClassVar[str] = "compare both with equal durability"

    def because(self, pair: Compared) -> str | None:
        """By the recorded durability of all runs."""
        base, new = ({_level(run.run) for run in side} for side in pair.sides)
        if base != {"volatile"} or new != {"stable"}:
            return None
        return "at the baseline an fsync that returned does not mean that the data are safe"


def _level(run: SealedRun) -> str:
    return run.record.durability.level if run.record.durability is not None else "unknown"
