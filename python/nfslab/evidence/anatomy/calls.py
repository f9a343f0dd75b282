"""NFS calls within an operation: how many of each kind, and what waiting for storage was made of.

What waits for storage and has calls under way waits for them: they divide it by where their time
went, each instant shared among those under way. The rest is the kernel's, and the mount's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.evidence.anatomy.inner import call_shares
from nfslab.evidence.anatomy.parts import (
    AnatomyFacts,
    CallFacts,
    PartFacts,
    divided,
    with_rest,
)
from nfslab.evidence.nfs_server.breakdown import ALL, WAYS_JOINED
from nfslab.evidence.nfs_server.served import served
from nfslab.evidence.over_time import NS
from nfslab.evidence.slowest import SlowestFacts, SlowPart
from nfslab.results.evidence_tables import sample_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.evidence.base import SealedRun
    from nfslab.evidence.nfs_server.breakdown import BreakdownFacts
    from nfslab.evidence.nfs_server.served import Served

RETRANSMITTED: Final = "retransmitted"
PAUSED: Final = "server pause"
WAITING: Final = ("storage", "final_sync")
"""Parts of an operation on files that wait for storage."""


def calls_of(calls: BreakdownFacts | None, operations: float) -> tuple[CallFacts, ...]:
    """Each kind of call, of all targets, for one operation of the workload."""
    found: dict[str, CallFacts] = {}
    for row in calls.rows if calls is not None else ():
        if row.operation == ALL:
            continue
        one = CallFacts(
            operation=row.operation,
            per_operation=row.summary.calls / operations,
            bytes_mean=row.bytes_mean,
            parts_ns=dict(call_shares(row.summary.mean_ns)),
        )
        other = found.get(row.operation)
        found[row.operation] = one if other is None else _both(one, other)
    return tuple(found.values())


def _both(one: CallFacts, other: CallFacts) -> CallFacts:
    """One kind of call to two targets."""
    number = one.per_operation + other.per_operation
    weights = one.per_operation / number, other.per_operation / number
    size = None
    if one.bytes_mean is not None and other.bytes_mean is not None:
        size = one.bytes_mean * weights[0] + other.bytes_mean * weights[1]
    return CallFacts(
        operation=one.operation,
        per_operation=number,
        bytes_mean=size,
        parts_ns={
            name: ns * weights[0] + other.parts_ns.get(name, 0.0) * weights[1]
            for name, ns in one.parts_ns.items()
        },
    )


def with_calls(made: AnatomyFacts, calls: BreakdownFacts | None) -> AnatomyFacts:
    """The anatomy with its calls counted."""
    if calls is None:
        return made
    return made.model_copy(
        update={
            "calls": calls_of(calls, made.operations),
            "calls_recorded": True,
            "notes": (*made.notes, *[WAYS_JOINED] * calls.ways_joined),
            "wire_ns_per_byte": calls.wire_ns_per_byte,
            "writes_at_once": calls.together and calls.together.writes_at_once,
            "stable_levels_ns": calls.together.stable_levels_ns if calls.together else (),
            "slowest": (*made.slowest, *map(_named, calls.slowest_calls)),
        }
    )


def _named(calls: SlowestFacts) -> SlowestFacts:
    """With the parts' names of an anatomy."""
    if not calls.parts:
        return calls
    ns, slow_ns = (
        dict(call_shares([getattr(part, kind) for part in calls.parts]))
        for kind in ("ns", "slow_ns")
    )
    parts = [SlowPart(name=name, ns=ns[name], slow_ns=slow_ns[name]) for name in ns]
    return calls.model_copy(update={"parts": tuple(parts)})


def within_storage(
    parts: Sequence[PartFacts], calls: BreakdownFacts, operations: float, threads: int
) -> list[PartFacts]:
    """Parts of which those that wait for storage are divided by where the calls' time went."""
    together = calls.together
    waiting_ns = sum(part.ns for part in parts if part.name in WAITING)
    if together is None or not together.under_way_ns or not waiting_ns:
        return list(parts)
    sums = dict(call_shares(calls.shared_ns)) if calls.shared_ns else {}
    sums[RETRANSMITTED] = float(together.resent_wait_ns)
    shares = _shares(sums, together.paused_waiting_ns, together.paused_service_ns)
    # Each thread waits at most while some call is under way.
    under_way = min(together.under_way_ns * threads / operations / waiting_ns, 1.0)
    scaled = [(name, under_way * share) for name, share in shares]
    scaled.append(("rest", 1.0 - under_way))
    return [divided(part, scaled) if part.name in WAITING else part for part in parts]


def divided_by_calls(
    part: PartFacts, calls: BreakdownFacts, operations: float, kind: Callable[[str], bool]
) -> PartFacts:
    """The part divided by where calls of these kinds spent their time, as far as it fits in.

    Each such call is waited for within the part, by one operation. What was retransmitted and what
    lay in a pause of the server is known of all calls together: these have their share of it.
    """
    rows = [row for row in calls.rows if row.operation != ALL and kind(row.operation)]
    sums: dict[str, float] = {}
    for row in rows:
        for name, ns in call_shares(row.summary.mean_ns):
            sums[name] = sums.get(name, 0.0) + ns * row.summary.calls
    together, all_ns = calls.together, sum(calls.shared_ns)
    waiting_ns = service_ns = 0.0
    if together is not None and all_ns:
        # Times of all calls are shared among those under way; these are each call's own.
        own = sum(sums.values()) / all_ns
        sums[RETRANSMITTED] = together.resent_wait_ns * own
        waiting_ns, service_ns = (
            ns * own for ns in (together.paused_waiting_ns, together.paused_service_ns)
        )
    total_ns = sum(sums.values())
    if not total_ns or not part.ns:
        return part
    known = min(total_ns / operations / part.ns, 1.0)
    shares = [(name, known * share) for name, share in _shares(sums, waiting_ns, service_ns)]
    return divided(part, [*shares, ("rest", 1.0 - known)])


def _shares(
    sums: dict[str, float], paused_waiting_ns: float, paused_service_ns: float
) -> list[tuple[str, float]]:
    """Of the calls' time, with the server's pauses taken out of what they interrupted."""
    whole = dict(sums)
    for name, ns in (("server queue", paused_waiting_ns), ("server processing", paused_service_ns)):
        whole[name] = whole.get(name, 0.0) - ns
    whole[PAUSED] = float(paused_waiting_ns + paused_service_ns)
    kept = {name: max(ns, 0.0) for name, ns in whole.items()}
    total = sum(kept.values())
    return [(name, ns / total) for name, ns in kept.items()] if total else []


def of_offered_calls(run: SealedRun) -> AnatomyFacts | None:
    """An offered operation's mean response time: at the server, by its own record, and outside."""
    rows = [row for row in sample_rows(run.folder, "operations") if row["mean_ns"] is not None]
    answered = sum(row["answered"] for row in rows)
    if not answered:
        return None
    mean_ns = sum(row["mean_ns"] * row["answered"] for row in rows) / answered
    seen = _served_in_window(run)
    if seen is None:
        return AnatomyFacts(
            operation="operation", operations=answered, mean_ns=mean_ns,
            parts=tuple(with_rest([], mean_ns)), wants=("nfs_server",),
        )  # fmt: skip
    sums: dict[str, float] = {}
    for one in seen.calls:
        for name, ns in one.parts_ns.items():
            sums[name] = sums.get(name, 0.0) + ns * one.calls
    total = sum(sums.values())
    parts = [
        PartFacts(name=name, ns=share * total / answered, source="exact")
        for name, share in _shares(sums, seen.paused_waiting_ns, seen.paused_service_ns)
        if share > 0
    ]
    left_ns = mean_ns - sum(part.ns for part in parts)
    if left_ns > 0:
        parts.append(PartFacts(name="outside", ns=left_ns, source="exact"))
    return AnatomyFacts(
        operation="operation",
        operations=answered,
        mean_ns=mean_ns,
        parts=tuple(with_rest(parts, mean_ns)),
        slowest=() if seen.slowest is None else (seen.slowest,),
        calls_recorded=True,
        calls=tuple(
            CallFacts(
                operation=one.operation, per_operation=one.calls / answered,
                bytes_mean=one.bytes_mean, parts_ns=one.parts_ns,
            )
            for one in seen.calls
        ),
    )  # fmt: skip


def _served_in_window(run: SealedRun) -> Served | None:
    """Of the time that was measured: the timed part holds warming up and cooling down, too."""
    workload = run.record.parameters["workload"]
    window_s = workload.get("warm_up"), workload.get("duration")
    if None in window_s:
        return None
    begin_ns, long_ns = (round(seconds * NS) for seconds in window_s)
    return served(run, begin_ns, begin_ns + long_ns)
