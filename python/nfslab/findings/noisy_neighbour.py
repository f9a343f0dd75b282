"""Other programs, or a hypervisor, had the processors.

Others that want processors at both points have more of them where the load waits for anything else:
their larger share follows then from the longer time. So they are a cause only where the baseline
had none of them. They make calls longer, not more: calls whose number is the difference are not
theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.findings.beside import ReasonCause, beside
from nfslab.findings.calls import MOSTLY, WITH_REST, Calls, paths_of
from nfslab.statistics.checks.competing_load import OTHERS_LIMIT

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun

WAITING: Final = (
    "run_queue", "running", "client", "program", "kernel", "rest", "outside", "request transit",
    "reply transit", "RPC backlog", "elsewhere",
)  # fmt: skip
"""Parts in which something waits for a processor of this machine."""
LEAST_MORE: Final = 0.1
"""Of all processors' time."""
SHARES: Final = ("others_during", "steal_during")
"""Of the check `busy_machine`."""


class NoisyNeighbour(ReasonCause):
    """Others used more of the processors."""

    cause: ClassVar[str] = "noisy_neighbour"
    what: ClassVar[str] = "waiting for processors that others had"
    confirm: ClassVar[str] = "run again on a machine that does nothing else"

    def paths(self, pair: Compared) -> tuple[str, ...]:
        """In which something waits for a processor."""
        calls = Calls.of(pair)
        more = calls.paths(WITH_REST) if calls and calls.more_calls() >= MOSTLY else ()
        return tuple(one for one in waiting_parts(pair) if one not in more)

    def because(self, pair: Compared) -> str | None:
        """By the check for a busy machine."""
        others = beside(pair, _others)
        if others is None or not others.grew or others.new - others.base < LEAST_MORE:
            return None
        if others.base > OTHERS_LIMIT:
            return None
        return f"others had {others.new:.0%} of the processors' time instead of {others.base:.0%}"


def waiting_parts(pair: Compared) -> tuple[str, ...]:
    """Outermost parts in which something of this machine waits that is not storage."""
    found = paths_of(pair, WAITING)
    return tuple(one for one in found if not any(one.startswith(f"{o}/") for o in found))


def _others(run: SealedRun) -> float | None:
    check = next((one for one in run.record.checks if one.name == "busy_machine"), None)
    known = [check.values[name] for name in SHARES if name in check.values] if check else []
    return sum(known) if known else None
