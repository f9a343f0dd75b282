"""Parts of a transaction from samples of who is in them: Little's law, and what is known exactly.

A part's time is the mean number of the load's backends (threads) in it, over transactions a second.
How long the log's syncs took is exact where system calls were watched, and takes the place of the
samples, whose other parts move so that all that was seen keeps its sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.evidence.anatomy.backend_times import server_cpu
from nfslab.evidence.anatomy.parts import PartFacts
from nfslab.evidence.over_time import NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.syscalls.facts import SyscallFacts

    Floats = NDArray[np.float64]

LEAST_STRETCHES: Final = 4
"""Stretches of time, which have many looks each, below which nothing is said."""
LEAST_SEEN: Final = 0.5
"""Of the backends of clients that are connected all the time: where fewer are seen, those that are
missing would be called the client's time."""
Z95: Final = 1.96


def mean_numbers(
    t_ns: NDArray[np.int64], names: Sequence[str | None], seen: Floats, *, in_stretches: bool
) -> dict[str, tuple[float, float]]:
    """Part -> (mean number in it, half of its 95 % interval), of rows with the part of each (None:
    none), and how many were seen in it at (`in_stretches`: up to) that time."""
    ticks, place = np.unique(t_ns, return_inverse=True)
    which = {name: k for k, name in enumerate(dict.fromkeys(n for n in names if n is not None))}
    counts = np.zeros((len(which), ticks.size))
    at = np.array([-1 if name is None else which[name] for name in names], dtype=np.int64)
    np.add.at(counts, (at[at >= 0], place[at >= 0]), seen[at >= 0])
    spread = _between_neighbours if in_stretches else _spread
    return {
        name: (float(counts[k].mean()), Z95 * spread(counts[k]) / ticks.size**0.5)
        for name, k in which.items()
    }


def by_littles_law(
    found: Mapping[str, tuple[float, float]], each_s: float, doubt: float
) -> dict[str, PartFacts]:
    """Mean numbers as times. `each_s`: between two transactions; `doubt`: how far a sampled part
    may be off one way, of it."""
    return {
        name: PartFacts(
            name=name,
            ns=mean * each_s * NS,
            error_ns=error * each_s * NS,
            doubt_ns=doubt * mean * each_s * NS,
            source="sampled",
        )
        for name, (mean, error) in found.items()
    }


def _spread(values: Floats) -> float:
    return float(values.std(ddof=1))


def _between_neighbours(values: Floats) -> float:
    """Standard deviation of what was drawn, of means of successive stretches of equal length: from
    the differences of neighbours (von Neumann's estimator), so that a load that changes slowly adds
    little. What it does add makes it larger, since looks of two stretches are independent."""
    return float(np.sqrt(np.mean(np.diff(values) ** 2) / 2))


def with_exact_syncs(parts: dict[str, PartFacts], syscalls: SyscallFacts | None) -> Iterator[str]:
    """The log's syncs as they were timed, in place of the samples; where both disagree, a note."""
    share = next(iter(syscalls.shares), None) if syscalls is not None else None
    sampled = parts.get("wal_fsync")
    if share is None or not share.transactions or sampled is None:
        return
    exact_ns = share.backend_sync_ns / share.transactions
    others = sum(part.ns for name, part in parts.items() if name != "wal_fsync")
    error_ns = sampled.error_ns or 0.0
    if abs(exact_ns - sampled.ns) > 2 * error_ns + AGREEMENT * exact_ns:
        yield (
            f"Syncs of the log take {exact_ns / 1e6:.3g} ms of a transaction by their own times, "
            f"{sampled.ns / 1e6:.3g} ms (within {error_ns / 1e6:.2g}) by samples of wait events: "
            "the first is shown."
        )
    left = sampled.ns + others - exact_ns
    scale = max(left, 0.0) / others if others else 1.0
    for name, part in parts.items():
        update = {"ns": part.ns * scale, "error_ns": (part.error_ns or 0.0) * scale}
        parts[name] = part.model_copy(update=update | {"doubt_ns": part.doubt_ns * scale})
    parts["wal_fsync"] = PartFacts(name="wal_fsync", ns=exact_ns, source="exact")


AGREEMENT: Final = 0.03
"""Of the exact time: PostgreSQL's own work around the call is in the wait, and not in the call."""


def with_processors(
    run: SealedRun, seen: Mapping[str, Any], running: PartFacts, rate_per_s: float
) -> dict[str, PartFacts]:
    """At work: on a processor, or waiting for one; the rest of it was blocked, without a name.

    Part of the scheduler's times lies within waits (who is woken waits for a processor under the
    name of what he slept in): where they are more than the whole, each has its share of it.
    """
    watched_ns = seen.get("watched_ns", 0)
    clients = run.record.load.clients if run.record.load is not None else None
    if not watched_ns or not clients:
        return {}
    # Mean number of backends on a processor, and waiting for one.
    in_all = {name: clients * seen[key] / watched_ns for name, key in PROCESSORS.items()}
    known_ns = {name: number / rate_per_s * NS for name, number in in_all.items()}
    total_ns = sum(known_ns.values())
    share = min(1.0, running.ns / total_ns) if total_ns else 1.0
    parts = [PartFacts(name=name, ns=ns * share, source="exact") for name, ns in known_ns.items()]
    return server_cpu(parts, running, max(running.ns - total_ns, 0.0))


PROCESSORS: Final = {"run_queue": "queued_ns", "on_cpu": "on_cpu_ns"}
