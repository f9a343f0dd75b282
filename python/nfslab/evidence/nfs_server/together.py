"""What a run's NFS calls did together: when any was under way, pauses, resends, and their sizes.

Of the two tables that `breakdown` joins, in the timed part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.evidence.base import Facts
from nfslab.results.coded_texts import coded_texts, integers
from nfslab.statistics.change_points import change_points
from nfslab.statistics.pauses import covered, pauses
from nfslab.statistics.shared_time import SharedTime

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIZES: Final = ("call_bytes", "reply_bytes")
KEEPS: Final = ("WRITE", "COMMIT")
"""Calls that write, and may have to wait until it is stable."""
MOST_CALLS: Final = 100_000
"""Of a run, in whose service changes of level are looked for."""
LEAST_SPREAD: Final = 0.5
"""Of the calls' mean size: with less of a spread, size and distance cannot be told apart."""


class TogetherFacts(Facts):
    """A run's calls, of all targets; ns."""

    under_way_ns: int
    """How long at least one call was taken by the client and not answered."""
    resent_wait_ns: int
    """Of answered calls, from the first to the last sending; as the times below it, each instant
    is shared among the calls under way (`statistics.shared_time`)."""
    paused_waiting_ns: int
    """Of all calls' waiting for the server to begin, what lies in its pauses: where it ended
    nothing, with calls before it, far longer than usual."""
    paused_service_ns: int
    """Of their service."""
    writes_at_once: float | None = None
    """WRITEs under way, mean over the time in which one is; None: there was none."""
    stable_levels_ns: tuple[int, ...] = ()
    """Median service of successive WRITEs and COMMITs between changes of its level."""


def together(client: pa.Table, server: pa.Table) -> TogetherFacts:
    """Of the two tables as they are in the run."""
    client = client.filter(integers(client["t_ns"]) >= 0)
    names, outcomes = coded_texts(client["outcome"])
    answered = outcomes == (names.index("answered") if "answered" in names else -1)
    client = client.filter(answered)
    again = integers(client["sends"]) > 1
    clock = shared_time(client)
    waits = clock.between(*(integers(client[f"sent_{which}_ns"]) for which in ("first", "last")))
    begun = integers(client["enqueued_ns"])
    received, started, finished = (
        integers(server[name]) for name in ("received_ns", "started_ns", "finished_ns")
    )
    ended = integers(client["completed_ns"])
    # Of the same time: what was received between the first and the last of these calls.
    first, last = (int(begun.min()), int(ended.max())) if begun.size else (0, 0)
    timed = (received >= first) & (received <= last)
    received, started, finished = received[timed], started[timed], finished[timed]
    kinds, which = coded_texts(server["operation"])
    keeps = np.isin(which, [k for k, name in enumerate(kinds) if name in KEEPS])[timed]
    found = pauses(received, finished)
    return TogetherFacts(
        under_way_ns=covered(begun, ended),
        resent_wait_ns=round(waits[again].sum()),
        paused_waiting_ns=round(found.within(received, started, clock)),
        paused_service_ns=round(found.within(started, finished, clock)),
        writes_at_once=_at_once(client),
        stable_levels_ns=_levels(started[keeps], finished[keeps]),
    )


def shared_time(client: pa.Table) -> SharedTime:
    """Of these rows of the client's table."""
    return SharedTime.of(integers(client["enqueued_ns"]), integers(client["completed_ns"]))


def _at_once(client: pa.Table) -> float | None:
    """How many WRITEs are under way while one is."""
    names, which = coded_texts(client["operation"])
    mine = which == (names.index("WRITE") if "WRITE" in names else -1)
    begun, ended = (integers(client[name])[mine] for name in ("sent_first_ns", "completed_ns"))
    time_ns = covered(begun, ended)
    return float((ended - begun).sum()) / time_ns if time_ns else None


def _levels(started: NDArray[np.int64], finished: NDArray[np.int64]) -> tuple[int, ...]:
    """Medians of service, level by level, in the order in which calls began."""
    order = np.argsort(started, kind="stable")[:MOST_CALLS]
    found = change_points((finished - started)[order])
    return tuple(level.median_ns for level in found.levels)


def sizes(table: pa.Table) -> Floats:
    """Bytes of each call and its reply together; zero where the client does not tell."""
    call, reply = (integers(table[name], missing=0) for name in SIZES)
    return (call + reply).astype(np.float64)


def wire_ns_per_byte(wire_ns: Floats, size_bytes: Floats) -> float | None:
    """By how much the transit is longer for each byte of call and reply, by least
    squares over the calls; None: sizes hardly differ."""
    if size_bytes.size < 2 or not size_bytes.std() >= LEAST_SPREAD * size_bytes.mean() > 0:
        return None
    return float(np.polyfit(size_bytes, wire_ns, 1)[0])
