"""A database transaction's or query's mean time: what its backend did, or waited for, and the
client's time.

Where every pause of the backends was timed (`postgres`, eBPF) all parts are exact: their times by
wait event, over the transactions. A wait that blocked nobody is then time on a processor.

Elsewhere Little's law gives a part's time: mean number of the load's backends that are in it, over
transactions a second. The number in each wait is sampled; how long the log's syncs took is exact
where system calls were watched, and takes the place of the samples, whose other parts move so that
all that the backends did keeps its sum.

What is left of the mean latency is the client's time: its program, and the connection. In a closed
load backends are idle between transactions, too: that is in no part.

How a sampled backend counts: by the event that it waits for; ClientRead is the client's time in
whatever state; no event is the server's CPU, also in the instants around a state's change. Of
that, what the scheduler saw neither on a processor nor waiting for one was blocked in a call that
PostgreSQL does not report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from nfslab.evidence.anatomy.backend_times import disagreements, exact_parts
from nfslab.evidence.anatomy.parts import OF_DATABASE, TRANSACTION, AnatomyFacts
from nfslab.evidence.anatomy.sampled import (
    LEAST_SEEN,
    LEAST_STRETCHES,
    by_littles_law,
    mean_numbers,
    with_exact_syncs,
    with_processors,
)
from nfslab.evidence.anatomy.wait_parts import part_of_wait
from nfslab.evidence.anatomy.whole import whole_of
from nfslab.evidence.over_time import NS, read_rows
from nfslab.evidence.postgres.sql_waits import WAITS_TABLE
from nfslab.results.coded_texts import coded_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.syscalls.facts import SyscallFacts

CLIENT_BACKEND: Final = "client backend"
LEAST_SAMPLES: Final = 10
"""Looks at the backends (over SQL) below which nothing is said."""
MEMORY_DOUBT: Final = 0.1
"""Of a part that was sampled in memory: how far samples were off exact times, at most."""
SQL_DOUBT: Final = 0.4
"""The same over SQL, of several clients: 0.60 to 1.12 of exact times."""
SQL_DOUBT_ALONE: Final = 4.0
"""The same of one client, whose waits are short: 0.18 to 0.80 of exact times."""


def anatomy(run: SealedRun, syscalls: SyscallFacts | None) -> AnatomyFacts | None:
    """None: the latency, the rate, or the samples are not there."""
    metrics = {name: metric.value for name, metric in run.record.metrics.items()}
    number, seconds = metrics.get(run.record.operations), metrics.get("measured_s")
    mean_ms = metrics.get("latency_mean_ms")
    operation = OF_DATABASE.get(run.record.operations)
    if operation is None or not number or not seconds or not mean_ms:
        return None
    mean_ns = mean_ms * 1e6
    tracked = run.summary("postgres").get("settings", {}).get("track_activities", "on")
    seen, missed = _sampled(run, seconds) if tracked != "off" else (None, "")
    doubt = _doubt(run)
    parts = by_littles_law(seen or {}, seconds / number, doubt)
    timed = exact_parts(run, number)
    if timed is not None:
        notes = disagreements(parts, timed, mean_ns)
        parts = timed
    else:
        notes = list(with_exact_syncs(parts, syscalls))
        if "running" in parts:
            processors = run.summary("postgres").get("processors", {})
            parts |= with_processors(run, processors, parts["running"], number / seconds)
    notes += [*_not_granted(run), *([missed] if missed else [])]
    told = timed is not None or seen is not None
    if not told and operation != TRANSACTION:
        return None  # too short to be seen: nothing of it, rather than none of a part
    wants = () if syscalls is not None else ("fsync",)
    return AnatomyFacts(
        operation=operation,
        operations=number,
        mean_ns=mean_ns,
        parts=tuple(whole_of(parts if told else None, mean_ns)),
        notes=tuple(notes),
        wants=wants if told else ("postgres",),
    )


def _not_granted(run: SealedRun) -> Iterator[str]:
    """What was asked for and could not be watched, and why."""
    summary = run.summary("postgres")
    if "not_memory" in summary:
        yield f"Waits are sampled over SQL: {summary['not_memory']}."
    if "not_exact" in summary:
        yield f"Pauses are not timed: {summary['not_exact']}."


def _doubt(run: SealedRun) -> float:
    """Of a sampled part: how far it may be off one way."""
    if "memory" in run.summary("postgres"):
        return MEMORY_DOUBT
    load = run.record.load
    return SQL_DOUBT_ALONE if load is not None and load.clients == 1 else SQL_DOUBT


def _sampled(run: SealedRun, seconds: float) -> tuple[dict[str, tuple[float, float]] | None, str]:
    """Part -> (mean number of backends, half of its 95 % interval), over the timed part; None where
    too little was seen, and a note where it was too few of the backends."""
    columns = ["t_ns", "backend_type", "wait_event_type", "wait_event", "backends"]
    rows = read_rows(run, WAITS_TABLE, columns, ["over_ns"])
    if rows is None:
        return None, ""
    t_ns = rows["t_ns"].to_numpy()
    over_ns = rows["over_ns"].to_numpy() if "over_ns" in rows.column_names else np.zeros(t_ns.size)
    in_memory = bool(over_ns.any())
    rows = rows.filter(pa.array((t_ns - over_ns >= 0) & (t_ns <= seconds * NS)))
    ticks = np.unique(rows["t_ns"].to_numpy())
    if ticks.size < (LEAST_STRETCHES if in_memory else LEAST_SAMPLES):
        return None, ""
    kinds, of_kind = coded_texts(rows["backend_type"])
    types, of_type = coded_texts(rows["wait_event_type"])
    events, of_event = coded_texts(rows["wait_event"])
    backends = rows["backends"].to_numpy().astype(np.float64)
    client = of_kind == (kinds.index(CLIENT_BACKEND) if CLIENT_BACKEND in kinds else -1)
    everyone = float(backends[client].sum()) / ticks.size
    if everyone < LEAST_SEEN * (connected := _connected(run)):
        return None, (
            f"Of {connected} clients' backends {everyone:.2g} were seen at a time: what they wait "
            "for is not told."
        )
    names = [
        part_of_wait(types[kind], events[event]) if mine else None
        for kind, event, mine in zip(of_type, of_event, client, strict=True)
    ]
    return mean_numbers(rows["t_ns"].to_numpy(), names, backends, in_stretches=in_memory), ""


def _connected(run: SealedRun) -> int:
    """Clients that have a backend all the time, in whatever state; 0: not known."""
    if run.record.load is None or run.record.parameters.get("workload", {}).get("connect_each"):
        return 0
    return run.record.load.clients or 0
