"""A web server needs more of the processors for a request."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from nfslab.display.numbers import quantity
from nfslab.evidence.anatomy.differences import together
from nfslab.evidence.anatomy.parts import ELSEWHERE
from nfslab.findings.beside import ReasonCause, beside
from nfslab.findings.calls import GROWN, MOSTLY

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun
    from nfslab.findings.base import Finding

NS_PER_US = 1e3


class WebServerCpu(ReasonCause):
    """More processor time of the server for each request, and time that goes with it.

    A closed load whose processors are busy has its requests take longer by the factor by which they
    need more of them, and at most by as much for each connection (all wait for one processor). What
    became longer by more than that became so for another reason.
    """

    cause: ClassVar[str] = "web_server_cpu"
    parts: ClassVar[tuple[str, ...]] = (ELSEWHERE,)
    what: ClassVar[str] = "the server's own work, and waiting for it"
    confirm: ClassVar[str] = "give the server a processor more: storage changes nothing"
    depends: ClassVar[tuple[str, ...]] = (
        "workload.server", "workload.access_log", "workload.close_share", "workload.keepalive",
        "workload.workers",
    )  # fmt: skip

    def judge(self, pair: Compared) -> Finding | None:
        """Never surer than that: how busy the processors were is not asked."""
        found = super().judge(pair)
        if found is None or found.confidence != "high":
            return found
        return dataclasses.replace(found, confidence="medium")

    def because(self, pair: Compared) -> str | None:
        """By the server's processor time, and the generator's beside it."""
        own, all_ = beside(pair, _of_server), beside(pair, _of_both)
        longer = together(pair, self.parts)
        loads = [run.run.record.load for run in pair.sides[1]]
        clients = max((load.clients or 0 for load in loads if load is not None), default=0)
        if own is None or all_ is None or longer is None:
            return None
        more_ns = all_.new - all_.base
        by_factor = all_.new / all_.base - 1, pair.new.mean_ns / pair.base.mean_ns - 1
        if not own.grew or own.new < (1 + GROWN) * own.base or by_factor[0] < MOSTLY * by_factor[1]:
            return None
        if clients * more_ns < MOSTLY * longer.difference_ns:
            return None
        return (
            f"it is on a processor for {quantity(own.new, 'ns')} of a request instead of "
            f"{quantity(own.base, 'ns')}"
        )


def _of_server(run: SealedRun) -> float | None:
    return _metric_ns(run, "server_cpu_us_per_request")


def _of_both(run: SealedRun) -> float | None:
    known = _of_server(run), _metric_ns(run, "client_cpu_us_per_request")
    return None if None in known else sum(one for one in known if one is not None)


def _metric_ns(run: SealedRun, name: str) -> float | None:
    metric = run.record.metrics.get(name)
    return None if metric is None else metric.value * NS_PER_US
