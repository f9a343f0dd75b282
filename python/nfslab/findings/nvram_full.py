"""The server's stable memory filled up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.display.numbers import quantity
from nfslab.findings.beside import ReasonCause
from nfslab.findings.calls import SERVER_QUEUE, SERVICE, paths_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.interventions import At

FULL: Final = 3.0
"""Times as slow as at the beginning: it filled up."""
MOST_RUNS: Final = 0.8
"""Of a point's runs have it."""
AS_QUICK: Final = 2.0
"""Times what they take at the baseline."""


class NvramFull(ReasonCause):
    """Stable writes are quick at first, and slow from some call on."""

    cause: ClassVar[str] = "nvram_full"
    what: ClassVar[str] = "the server's WRITEs and COMMITs once the memory for them was full"
    confirm: ClassVar[str] = "give the server more stable memory, or write less than it holds"
    depends: ClassVar[tuple[str, ...]] = ("targets.*.nvram",)

    def paths(self, pair: Compared) -> tuple[str, ...]:
        """Service, and what waits for it."""
        return paths_of(pair, (*SERVICE, *SERVER_QUEUE))

    def because(self, pair: Compared) -> str | None:
        """By the changes of level in the server's own record, in nearly all runs: at first as quick
        as at the baseline."""
        base, new = ([run.facts.stable_levels_ns for run in side] for side in pair.sides)
        full = [one for one in new if _filled(one)]
        if len(full) < MOST_RUNS * len(new) or any(len(one) != 1 for one in base):
            return None
        usual_ns = max(one[0] for one in base)
        first, last = full[0][0], full[0][-1]
        if first > AS_QUICK * usual_ns:
            return None
        return (
            f"at first they take {quantity(first, 'ns')}, from some call on {quantity(last, 'ns')}"
        )

    def remedy(self, at: At) -> Mapping[str, tuple[Any, Any]]:
        """So much that a run does not fill it."""
        return {path: (now, 64 * now) for path, now in at.of_nfs("nvram").items() if now}


def _filled(levels: tuple[int, ...]) -> bool:
    return len(levels) > 1 and levels[-1] >= FULL * levels[0]
