"""What a run's NFS calls did together: when any was under way, pauses, resends, and their sizes.

Of the two tables that `breakdown` joins, in the timed part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.evidence.base import Facts
from nfslab.results.coded_texts import coded_texts, integers
from nfslab.statistics.pauses import covered, pauses

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SIZES: Final = ("call_bytes", "reply_bytes")
LEAST_SPREAD: Final = 0.5
"""Of the calls' mean size: with less of a spread, size and distance cannot be told apart."""


class TogetherFacts(Facts):
    """A run's calls, of all targets; ns."""

    under_way_ns: int
    """How long at least one call was taken by the client and not answered."""
    resent: int
    """Answered calls that were sent more than once."""
    resent_wait_ns: int
    """Of those, from the first to the last sending."""
    pauses: int
    """How often the server ended nothing, with calls before it, far longer than usual."""
    paused_ns: int
    paused_waiting_ns: int
    """Of all calls' waiting for the server to begin, what lies in its pauses."""
    paused_service_ns: int
    """Of their service."""


def together(client: pa.Table, server: pa.Table) -> TogetherFacts:
    """Of the two tables as they are in the run."""
    client = client.filter(integers(client["t_ns"]) >= 0)
    names, outcomes = coded_texts(client["outcome"])
    answered = outcomes == (names.index("answered") if "answered" in names else -1)
    client = client.filter(answered)
    again = integers(client["sends"]) > 1
    waits = integers(client["sent_last_ns"]) - integers(client["sent_first_ns"])
    begun = integers(client["enqueued_ns"])
    received, started, finished = (
        integers(server[name]) for name in ("received_ns", "started_ns", "finished_ns")
    )
    # Of the timed part: what was received from the first call of it on.
    timed = received >= (int(begun.min()) if begun.size else 0)
    received, started, finished = received[timed], started[timed], finished[timed]
    found = pauses(received, finished)
    return TogetherFacts(
        under_way_ns=covered(begun, integers(client["completed_ns"])),
        resent=int(again.sum()),
        resent_wait_ns=int(waits[again].sum()),
        pauses=int(found.begins.size),
        paused_ns=found.total_ns,
        paused_waiting_ns=found.within(received, started),
        paused_service_ns=found.within(started, finished),
    )


def sizes(table: pa.Table) -> Floats:
    """Bytes of each call and its reply together."""
    call, reply = (integers(table[name]) for name in SIZES)
    return (call + reply).astype(np.float64)


def wire_ns_per_byte(wire_ns: Floats, size_bytes: Floats) -> float | None:
    """By how much the way there and back is longer for each byte of call and reply, by least
    squares over the calls; None: sizes hardly differ."""
    if size_bytes.size < 2 or not size_bytes.std() >= LEAST_SPREAD * size_bytes.mean() > 0:
        return None
    return float(np.polyfit(size_bytes, wire_ns, 1)[0])
