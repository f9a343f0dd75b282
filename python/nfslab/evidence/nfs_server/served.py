"""What an NFS server did with the calls of a stretch of time, by its own record alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.evidence.nfs_server.breakdown import SERVER_TABLE
from nfslab.evidence.nfs_server.together import SIZES, sizes
from nfslab.evidence.over_time import read_rows
from nfslab.evidence.slowest import slowest
from nfslab.results.coded_texts import coded_texts, integers
from nfslab.statistics.latency_parts import parts_of
from nfslab.statistics.pauses import pauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.slowest import SlowestFacts

AT_SERVER: Final = "call at the server"
STEPS: Final = ("server queue", "server processing", "reply transit")
INSTANTS: Final = ("received_ns", "started_ns", "finished_ns", "sent_ns")


@dataclass(frozen=True, slots=True)
class ServedCalls:
    """One kind of call."""

    operation: str
    calls: int
    bytes_mean: float
    """Of call and reply together."""
    parts_ns: dict[str, float]
    """Mean of a call: waiting for a worker, served, and until its reply was given away."""


@dataclass(frozen=True, slots=True)
class Served:
    """All calls that were received in that time, and what of theirs lies in pauses."""

    calls: Sequence[ServedCalls]
    paused_waiting_ns: float
    paused_service_ns: float
    slowest: SlowestFacts | None
    """By their time at the server."""


def served(run: SealedRun, begin_ns: int, end_ns: int) -> Served | None:
    """From `begin_ns` to `end_ns` after the start of the timed part; None: no record, no call."""
    table = read_rows(run, SERVER_TABLE, ["t_ns", "operation", *INSTANTS, *SIZES])
    if table is None:
        return None
    t_ns = integers(table["t_ns"])
    table = table.filter((t_ns >= begin_ns) & (t_ns < end_ns))
    if not table.num_rows:
        return None
    received, started, finished, sent = (integers(table[name]) for name in INSTANTS)
    names, which = coded_texts(table["operation"])
    counts = np.bincount(which, minlength=len(names))
    means = {
        name: np.bincount(which, ns.astype(np.float64), len(names)) / np.maximum(counts, 1)
        for name, ns in (
            ("bytes", sizes(table)), ("server queue", started - received),
            ("server processing", finished - started), ("reply transit", sent - finished),
        )
    }  # fmt: skip
    bytes_mean = means.pop("bytes")
    steps = parts_of((received, started, finished, sent))
    found = pauses(received, finished)
    return Served(
        calls=[
            ServedCalls(
                operation=name, calls=int(counts[k]), bytes_mean=float(bytes_mean[k]),
                parts_ns={part: float(each[k]) for part, each in means.items()},
            )
            for k, name in enumerate(names)
            if counts[k]
        ],
        paused_waiting_ns=found.within(received, started),
        paused_service_ns=found.within(started, finished),
        slowest=slowest(AT_SERVER, STEPS, steps, sent - received),
    )  # fmt: skip
