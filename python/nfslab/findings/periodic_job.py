"""Something stops all operations at equal intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.display.numbers import quantity
from nfslab.evidence.anatomy.calls import PAUSED
from nfslab.findings.lost_time import LostTimeCause, check_values, is_closed
from nfslab.statistics.checks.dead_time import NAME as DEAD_TIME
from nfslab.statistics.periods import period_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts
    from nfslab.findings.lost_time import Runs

OF_SERVER: Final = 0.5
"""Of the time lost: where the server's own pauses have so much, it is `server_stall`."""


class PeriodicJob(LostTimeCause):
    """Stretches without a completed operation, at equal intervals."""

    cause: ClassVar[str] = "periodic_job"
    what: ClassVar[str] = "stretches without a completed operation, at equal intervals"
    confirm: ClassVar[str] = (
        "look for what runs with that period (a timer, a flush, a backup), stop it, and run again"
    )

    def lost_ns(self, run: RunFacts[AnatomyFacts]) -> float | None:
        """Each client waits for as long as nothing ends: the share of the time is that of the mean
        operation. What the server itself says that it paused is another cause's."""
        values = check_values(run, DEAD_TIME)
        if "span_ns" not in values or not is_closed(run):
            return None
        if _period_ns(values) is None:
            return 0.0
        lost_ns = run.facts.mean_ns * values["dead_ns"] / values["span_ns"]
        paths = run.facts.by_path()
        paused = sum(part.ns for path, part in paths.items() if path.endswith(PAUSED))
        return 0.0 if paused >= OF_SERVER * lost_ns else lost_ns

    def because(self, runs: Runs) -> str:
        """The period, and how long the stretches are."""
        seen = [check_values(run, DEAD_TIME) for run in runs]
        found = [(values, _period_ns(values)) for values in seen]
        known = [(values, period) for values, period in found if period is not None]
        stretches = sum(len(values["stretches"]) for values, _ in known)
        each_ns = sum(values["dead_ns"] for values, _ in known) / stretches
        period_ns = sum(period for _, period in known) / len(known)
        return f"every {quantity(period_ns, 'ns')} nothing ends for {quantity(each_ns, 'ns')}"


def _period_ns(values: Mapping[str, Any]) -> float | None:
    return period_of([begin for begin, _ in values.get("stretches", ())])
