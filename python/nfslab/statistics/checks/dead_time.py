"""Dead time: stretches of a run in which no operation was completed.

A server that stops for 5 of 14 s halves a mean and hides in it. A stretch is dead where it is
longer than the longest pause that the run's own pauses make likely (1 run in 1,000), and `SHARE` of
the run, so that it matters. What is likely: the lognormal distribution through the median and the
90th percentile of the pauses, which a tenth of dead ones does not move, and whose tail is heavier
than that of independent completions. Completions closer together than a tenth of the mean pause
are one burst. Beginning and end of the run count as completions.

Error rates are in docs/decisions/statistics.md. Tails of latencies that are heavier than those
tried there do make a run stand still; then this is said, and true.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.statistics.checks.check import Check
from nfslab.statistics.distributions import normal_critical

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import ArrayLike

NAME: Final = "stall"
MIN_PAUSES: Final = 80
"""Fewer do not tell what is usual."""
BURST_SHARE: Final = 0.1
"""Of the mean pause: completions closer together are one burst."""
ALPHA: Final = 1e-3
"""Chance that the longest of a run's own pauses is called dead."""
MIN_BINS: Final = 10
MIN_MEAN: Final = 5
"""Operations a bin."""
SHARE: Final = 0.02
"""Of the run: what moves its mean by that."""
LEAST_NS: Final = 100_000_000
STRETCHES_TOLD: Final = 5
"""`values` has all of them."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch without a completed operation, on the run's clock."""

    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """How long it is."""
        return (self.end_ns - self.begin_ns) / 1e9


def dead_stretches(completed_ns: ArrayLike, span_ns: float) -> list[Stretch] | None:
    """Dead stretches of a run of `span_ns`, in order; None: too few pauses to tell.

    `completed_ns` may come in any order.
    """
    instants = np.sort(np.asarray(completed_ns, dtype=np.float64).ravel())
    instants = instants[(instants >= 0) & (instants <= span_ns)]
    edges = np.concatenate([[0.0], instants, [span_ns]])
    pauses = np.diff(edges)
    between = pauses[pauses >= BURST_SHARE * pauses.mean()]
    if between.size < MIN_PAUSES:
        return None
    middle, high = np.log(np.quantile(between, [0.5, 0.9]))
    spread = (high - middle) / normal_critical(2 * (1 - 0.9))
    longest = np.exp(middle + spread * normal_critical(2 * ALPHA / between.size))
    limit = max(float(longest), SHARE * span_ns, LEAST_NS)
    return [Stretch(round(edges[k]), round(edges[k + 1])) for k in np.flatnonzero(pauses > limit)]


def dead_bins(counts: ArrayLike, width_ns: float, begin_ns: float = 0.0) -> list[Stretch] | None:
    """The same of a run that keeps counts of completions in bins; None: too few to tell.

    Empty bins in a row are dead if completions at random, at the run's rate and as clustered as the
    counts of its other bins are (variance over mean), would leave so many in 1 run in 1,000. Bins
    that hold fewer than `MIN_MEAN` are joined: slow swings would leave some of them empty.
    """
    found = np.asarray(counts, dtype=np.float64).ravel()
    if found.sum() < MIN_PAUSES:
        return None
    joined = max(1, int(np.ceil(MIN_MEAN * found.size / found.sum())))
    found = found[: found.size // joined * joined].reshape(-1, joined).sum(axis=1)
    width_ns *= joined
    if found.size < MIN_BINS:
        return None
    busy = found[found > 0]
    clustered = max(1.0, float(busy.var()) / float(busy.mean()))
    least = np.log(found.size / ALPHA) * clustered / float(found.mean())
    limit = max(least * width_ns, SHARE * found.size * width_ns, LEAST_NS)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], found == 0, [0]]))).reshape(-1, 2)
    return [
        Stretch(round(begin_ns + first * width_ns), round(begin_ns + last * width_ns))
        for first, last in edges.tolist()
        if (last - first) * width_ns > limit
    ]


def check_dead_time(
    completed_ns: ArrayLike, span_ns: float, meanwhile: Callable[[Stretch], str] | None = None
) -> Check:
    """Is there a stretch without a completed operation? `meanwhile`: what evidence shows of one.

    `values` holds `dead_ns` (the sum), `span_ns`, and `stretches` (begin and end of each, ns).
    """
    found = dead_stretches(completed_ns, span_ns)
    if found is None:
        count = np.asarray(completed_ns).size
        message = f"{count} operations have too few pauses between them: {MIN_PAUSES} are needed"
        return Check(NAME, "unknown", message, {"operations": int(count)})
    return check_of(found, span_ns, meanwhile)


def check_of(
    found: list[Stretch], span_ns: float, meanwhile: Callable[[Stretch], str] | None = None
) -> Check:
    """What is said of these dead stretches."""
    dead_ns = sum(one.end_ns - one.begin_ns for one in found)
    values: dict[str, Any] = {
        "dead_ns": dead_ns,
        "span_ns": round(span_ns),
        "stretches": [[one.begin_ns, one.end_ns] for one in found],
    }
    if not found:
        return Check(NAME, "ok", "no stretch without a completed operation that matters", values)
    told = []
    for one in found[:STRETCHES_TOLD]:
        said = meanwhile(one) if meanwhile is not None else ""
        told.append(
            f"none from {one.begin_ns / 1e9:.3g} to {one.end_ns / 1e9:.3g} s"
            + (f" ({said})" if said else "")
        )
    message = (
        f"no operation was completed for {dead_ns / 1e9:.3g} of {span_ns / 1e9:.3g} s: "
        f"{'; '.join(told)}"
    )
    return Check(NAME, "warning", message, values)
