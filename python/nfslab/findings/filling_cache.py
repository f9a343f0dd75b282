"""Syncs are quick until something is full."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.display.numbers import quantity
from nfslab.evidence.cache import facts_of
from nfslab.evidence.syscalls.kind import SyscallsEvidence
from nfslab.evidence.syscalls.sync_share import LOGS
from nfslab.findings.beside import LOG_PARTS, ReasonCause

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.syscalls.facts import LevelFacts

FULL: Final = 2.0
"""Times as slow as at first."""
MOST_RUNS: Final = 0.8


class FillingCache(ReasonCause):
    """The log's first syncs are quick, all others slow."""

    cause: ClassVar[str] = "filling_cache"
    parts: ClassVar[tuple[str, ...]] = LOG_PARTS
    what: ClassVar[str] = "syncs of the log after a cache below was full"
    confirm: ClassVar[str] = "measure longer: the share of the quick syncs falls"

    def because(self, pair: Compared) -> str | None:
        """By changes of level of the log's syncs, in nearly all runs, and not at the baseline."""
        levels = [[_levels(run.run) for run in side] for side in pair.sides]
        full = [[one for one in side if _filled(one)] for side in levels]
        few, many = (len(some) / len(all_) for some, all_ in zip(full, levels, strict=True))
        if few > 1 - MOST_RUNS or many < MOST_RUNS:
            return None
        first, last = full[1][0][0], full[1][0][-1]
        return (
            f"the first {first.calls} take {quantity(first.median_ns, 'ns')}, the last "
            f"{last.calls} {quantity(last.median_ns, 'ns')}"
        )


def _levels(run: SealedRun) -> tuple[LevelFacts, ...]:
    facts = facts_of(SyscallsEvidence(), run)
    series = facts.series if facts is not None else ()
    return next((one.levels for one in series if one.file_class in LOGS), ())


def _filled(levels: tuple[LevelFacts, ...]) -> bool:
    return len(levels) > 1 and levels[-1].median_ns >= FULL * levels[0].median_ns
