"""The run began before the system was warm."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.display.numbers import quantity
from nfslab.findings.lost_time import LostTimeCause, check_values
from nfslab.statistics.checks.steady_state import NAME as STEADY_STATE

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts
    from nfslab.findings.lost_time import Runs

NS_PER_S: Final = 1e9


class ColdStart(LostTimeCause):
    """Operations of the beginning are slower than those of the rest.

    In a closed load a client begins an operation every `clients / rate` (Little's law): without
    the warm-up that the check of steady state cuts off, that is shorter by the bias of the rate,
    and what is lost is lost in the operation, not between two of them.
    """

    cause: ClassVar[str] = "cold_start"
    what: ClassVar[str] = "the run's beginning, which is slower than the rest of it"
    confirm: ClassVar[str] = "warm up before the timed part, or run for longer: the effect shrinks"

    def lost_ns(self, run: RunFacts[AnatomyFacts]) -> float | None:
        """By the bias of the mean rate."""
        values = check_values(run, STEADY_STATE)
        load = run.run.record.load
        if "bias" not in values or load is None or load.kind != "closed":
            return None
        apart_ns = run.facts.mean_ns
        if load.clients and values["mean_all"] > 0:
            apart_ns = NS_PER_S * load.clients / values["mean_all"]
        return apart_ns * max(-values["bias"], 0.0) if values["warm_up_ns"] else 0.0

    def because(self, runs: Runs) -> str:
        """How long, and how much slower the whole is for it."""
        seen = [check_values(run, STEADY_STATE) for run in runs]
        warm = [one for one in seen if one.get("warm_up_ns")]
        long_ns = sum(one["warm_up_ns"] for one in warm) / len(warm)
        bias = sum(one["bias"] for one in warm) / len(warm)
        return (
            f"the first {quantity(long_ns, 'ns')} were a warm-up in {len(warm)} of {len(runs)} "
            f"runs; with it the mean rate is {-bias:.0%} lower"
        )
