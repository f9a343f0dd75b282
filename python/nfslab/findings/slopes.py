"""Delays of several sizes: how many calls of one kind lie one after the other in an operation.

A known time is added to each such call. The mean operation gets longer by that time for each call
that it waits for in a row: the slope. Slope times what one call takes is the part's share, found
without any model. The anatomy predicts the slope: its part's time over what one call takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.evidence.cache import facts_of
from nfslab.evidence.syscalls.kind import SyscallsEvidence
from nfslab.findings.confirm import Slope
from nfslab.findings.interventions import At
from nfslab.quantities import read_duration_s
from nfslab.statistics.intervals import t_interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import RunFacts
    from nfslab.report.model import Analysis

CONFIDENCE: Final = 0.95
LONGER: Final = 0.5
"""By so much of itself the largest delay is to make the operation longer, as predicted."""
SIZES: Final = (0.0, 0.5, 1.0)
"""Of the largest delay."""
SIZE_BOUNDS_NS: Final = (50_000, 100_000_000)
SYNCS: Final = ("wal_fsync", "group_commit_wait", "log_fsync")
"""Parts that wait for syncs of the log."""
SYNC_DELAY: Final = "workload.planted_delay.log_sync"


def of_log_syncs(cause: str, pair: Compared, analysis: Analysis) -> Slope | None:
    """A delay of each sync of the log; None where syncs were not timed, or are not of a server that
    we start."""
    if not At.of(pair, analysis).takes("planted_delay"):
        return None
    runs = pair.sides[1]
    slopes, ones = [], []
    for run in runs:
        facts = facts_of(SyscallsEvidence(), run.run)
        share = next(iter(facts.shares), None) if facts is not None else None
        if share is None or not share.by_backends:
            return None
        one_ns = share.backend_sync_ns / share.by_backends
        parts = run.facts.by_path()
        slopes.append(sum(parts[name].ns for name in SYNCS if name in parts) / one_ns)
        ones.append(one_ns)
    doubt = sum(pair.new.bias_ns.get(name, 0.0) for name in SYNCS) / float(np.mean(ones))
    return planned(cause, "syncs of the log", SYNC_DELAY, slopes, doubt, ones, pair, "{us}us")


def planned(
    cause: str, what: str, parameter: str, slopes: Sequence[float], doubt: float,
    ones: Sequence[float], pair: Compared, text: str,
) -> Slope | None:  # fmt: skip
    """The sizes of a delay, from the slope predicted of each run; None: there is none.

    `doubt`: how far all of them may be off. `text`: a value of the parameter, of `us`.
    """
    if len(slopes) < 2 or min(slopes) <= 0:
        return None
    mean, (low, high) = float(np.mean(slopes)), _interval(slopes)
    largest_ns = float(np.clip(LONGER * pair.new.mean_ns / mean, *SIZE_BOUNDS_NS))
    sizes = [round(largest_ns * share / 1000) for share in SIZES]
    return Slope(
        cause=cause,
        what=what,
        calls=mean,
        interval=(max(low - doubt, 0.0), high + doubt),
        one_ns=float(np.mean(ones)),
        parameter=parameter,
        values=tuple(text.format(us=us) for us in sizes),
    )


def _interval(values: Sequence[float]) -> tuple[float, float]:
    low, high = t_interval(np.array([values], dtype=np.float64), CONFIDENCE)
    return float(low[0]), float(high[0])


def delay_ns(value: Any) -> float:
    """Of a parameter's value at a point: seconds, or "OPERATION:TIME"; None: none."""
    if value is None:
        return 0.0
    seconds = value if isinstance(value, int | float) else _read(str(value))
    return float(seconds) * 1e9


def _read(text: str) -> float:
    return read_duration_s(text.rpartition(":")[2])


def measured_slope(
    runs: Sequence[RunFacts[AnatomyFacts]], delays_ns: Mapping[int, float]
) -> tuple[float, tuple[float, float]] | None:
    """Slope of the mean operation over the delay, by least squares within each block, with
    Student's interval over the blocks. `delays_ns`: by point. None: fewer than two whole blocks."""
    blocks: dict[int, dict[float, float]] = {}
    for run in runs:
        if run.point in delays_ns:
            blocks.setdefault(run.block, {})[delays_ns[run.point]] = run.facts.mean_ns
    sizes = len(set(delays_ns.values()))
    whole = [block for block in blocks.values() if len(block) == sizes]
    if sizes < 2 or len(whole) < 2:
        return None
    slopes = [float(np.polyfit(list(block), list(block.values()), 1)[0]) for block in whole]
    return float(np.mean(slopes)), _interval(slopes)
