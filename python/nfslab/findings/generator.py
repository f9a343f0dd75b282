"""The load generator itself is the limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.findings.beside import ReasonCause, beside

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.base import SealedRun
    from nfslab.findings.alone import Alone
    from nfslab.findings.base import Finding

FULL: Final = 0.9
"""Of its threads' time: a generator that computes for so long offers no more."""
CLIENT: Final = "client"


class Generator(ReasonCause):
    """pgbench's threads compute for nearly all of the time: storage is not asked for more.

    Of an offered load (`sfs`) the guard makes such a point invalid.
    """

    cause: ClassVar[str] = "generator"
    parts: ClassVar[tuple[str, ...]] = (CLIENT,)
    what: ClassVar[str] = "the client, while the generator's own threads were the limit"
    confirm: ClassVar[str] = "give pgbench more threads (workload.threads), or another machine"
    depends: ClassVar[tuple[str, ...]] = ("workload.threads",)

    def because(self, pair: Compared) -> str | None:
        """By pgbench's processor time."""
        busy = beside(pair, busy_share)
        if busy is None or not busy.grew or busy.new < FULL:
            return None
        return _said(busy.new)

    def alone(self, point: Alone) -> Finding | None:
        """Where the generator's threads were on a processor nearly all the time."""
        known = [busy_share(run.run) for run in point.runs]
        shares = [one for one in known if one is not None]
        if len(shares) != len(known) or min(shares) < FULL:
            return None
        return point.share(self, (CLIENT,), _said(sum(shares) / len(shares)))


def busy_share(run: SealedRun) -> float | None:
    """Of all time of pgbench's threads, how much they were on a processor; None: not known."""
    metrics, workload = run.record.metrics, run.record.parameters.get("workload", {})
    names = ("client_cpu_s_per_transaction", "transactions", "measured_s")
    clients = workload.get("clients")
    if not clients or any(name not in metrics for name in names):
        return None
    each_s, number, measured_s = (metrics[name].value for name in names)
    threads = min(workload.get("threads", 1), clients)
    return each_s * number / (measured_s * threads) if measured_s else None


def _said(share: float) -> str:
    return f"pgbench's threads were on a processor for {share:.0%} of the time"
