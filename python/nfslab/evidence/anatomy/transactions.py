"""A database transaction's or query's mean time: what its backend did, or waited for, and the
client's turn.

Where every pause of the backends was timed (`postgres`, eBPF) all parts are exact: their times by
wait event, over the transactions. A wait that blocked nobody is then time on a processor.

Elsewhere Little's law gives a part's time: mean number of the load's backends that are in it, over
transactions a second. The number in each wait is sampled; how long the log's syncs took is exact
where system calls were watched, and takes the place of the samples, whose other parts move so that
all that the backends did keeps its sum.

What is left of the mean latency is the client's turn: its program, and the connection. In a closed
load backends are idle between transactions, too: that is in no part.

How a sampled backend counts: by the event that it waits for; ClientRead is the client's turn in
whatever state; no event is the database at work, also in the instants around a state's change. Of
that, what the scheduler saw neither on a processor nor waiting for one was blocked in a call that
PostgreSQL does not report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from nfslab.evidence.anatomy.backend_times import at_work, disagreements, exact_parts
from nfslab.evidence.anatomy.parts import (
    OF_DATABASE,
    TRANSACTION,
    AnatomyFacts,
    PartFacts,
    with_rest,
)
from nfslab.evidence.anatomy.wait_parts import part_of_wait
from nfslab.evidence.over_time import NS, read_rows
from nfslab.evidence.postgres.sql_waits import WAITS_TABLE
from nfslab.results.coded_texts import coded_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.syscalls.facts import SyscallFacts

    Floats = NDArray[np.float64]

CLIENT_BACKEND: Final = "client backend"
ORDER: Final = (
    "log_sync", "log_write", "log_turn", "data_read", "data_extend", "data_write", "other_files",
    "row_locks", "database_locks", "running", "unreported", "other_waits",
)  # fmt: skip
LEAST_SAMPLES: Final = 10
"""Looks at the backends (over SQL) below which nothing is said."""
LEAST_STRETCHES: Final = 4
"""The same of stretches of time, which have many looks in memory each."""
LEAST_SEEN: Final = 0.5
"""Of the backends of clients that are connected all the time: where fewer are seen, those that are
missing would be called the client's turn."""
Z95: Final = 1.96
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
    parts = {
        name: PartFacts(
            name=name,
            ns=mean / number * seconds * NS,
            error_ns=error / number * seconds * NS,
            doubt_ns=doubt * mean / number * seconds * NS,
            source="sampled",
        )
        for name, (mean, error) in (seen or {}).items()
    }
    timed = exact_parts(run, number)
    if timed is not None:
        notes = disagreements(parts, timed, mean_ns)
        parts = timed
    else:
        notes = list(_with_exact_syncs(parts, syscalls))
        if "running" in parts:
            parts |= _with_processors(run, parts["running"], number / seconds)
    notes += [*_not_granted(run), *([missed] if missed else [])]
    shown = [parts[name] for name in ORDER if name in parts]
    total = sum(part.ns for part in shown)
    told = timed is not None or seen is not None
    if not told and operation != TRANSACTION:
        return None  # too short to be seen: nothing of it, rather than none of a part
    if told and total < mean_ns:
        shown.append(PartFacts(name="client", ns=mean_ns - total, source="exact"))
    else:
        shown = with_rest(shown, mean_ns)
    wants = () if syscalls is not None else ("fsync",)
    return AnatomyFacts(
        operation=operation,
        operations=number,
        mean_ns=mean_ns,
        parts=tuple(shown),
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
    ticks, place = np.unique(rows["t_ns"].to_numpy(), return_inverse=True)
    if ticks.size < (LEAST_STRETCHES if in_memory else LEAST_SAMPLES):
        return None, ""
    kinds, of_kind = coded_texts(rows["backend_type"])
    types, of_type = coded_texts(rows["wait_event_type"])
    events, of_event = coded_texts(rows["wait_event"])
    backends = rows["backends"].to_numpy().astype(np.float64)
    counts: dict[str, Floats] = {}
    client = of_kind == (kinds.index(CLIENT_BACKEND) if CLIENT_BACKEND in kinds else -1)
    everyone = float(backends[client].sum()) / ticks.size
    if everyone < LEAST_SEEN * (connected := _connected(run)):
        return None, (
            f"Of {connected} clients' backends {everyone:.2g} were seen at a time: what they wait "
            "for is not told."
        )
    for key in np.unique(of_type[client] * len(events) + of_event[client]).tolist():
        which, event = divmod(key, len(events))
        name = part_of_wait(types[which], events[event])
        if name is not None:
            mine = client & (of_type == which) & (of_event == event)
            here = counts.setdefault(name, np.zeros(ticks.size))
            np.add.at(here, place[mine], backends[mine])
    spread = _between_neighbours if in_memory else _spread
    return {
        name: (float(each.mean()), Z95 * spread(each) / ticks.size**0.5)
        for name, each in counts.items()
    }, ""


def _connected(run: SealedRun) -> int:
    """Clients that have a backend all the time, in whatever state; 0: not known."""
    if run.record.load is None or run.record.parameters.get("workload", {}).get("connect_each"):
        return 0
    return run.record.load.clients or 0


def _spread(values: Floats) -> float:
    return float(values.std(ddof=1))


def _between_neighbours(values: Floats) -> float:
    """Standard deviation of what was drawn, of means of successive stretches of equal length: from
    the differences of neighbours (von Neumann's estimator), so that a load that changes slowly adds
    little. What it does add makes it larger, since looks of two stretches are independent."""
    return float(np.sqrt(np.mean(np.diff(values) ** 2) / 2))


def _with_exact_syncs(parts: dict[str, PartFacts], syscalls: SyscallFacts | None) -> Iterator[str]:
    """The log's syncs as they were timed, in place of the samples; where both disagree, a note."""
    share = next(iter(syscalls.shares), None) if syscalls is not None else None
    sampled = parts.get("log_sync")
    if share is None or not share.transactions or sampled is None:
        return
    exact_ns = share.backend_sync_ns / share.transactions
    others = sum(part.ns for name, part in parts.items() if name != "log_sync")
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
    parts["log_sync"] = PartFacts(name="log_sync", ns=exact_ns, source="exact")


AGREEMENT: Final = 0.03
"""Of the exact time: PostgreSQL's own work around the call is in the wait, and not in the call."""


def _with_processors(run: SealedRun, running: PartFacts, rate_per_s: float) -> dict[str, PartFacts]:
    """At work: on a processor, or waiting for one; the rest of it was blocked, without a name.

    Part of the scheduler's times lies within waits (who is woken waits for a processor under the
    name of what he slept in): where they are more than the whole, each has its share of it.
    """
    seen = run.summary("postgres").get("processors", {})
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
    return at_work(parts, running, max(running.ns - total_ns, 0.0))


PROCESSORS: Final = {"run_queue": "queued_ns", "on_cpu": "on_cpu_ns"}
