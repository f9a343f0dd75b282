"""Which calls a server serves more slowly: what tells its processor, disk and flushes apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.findings.calls import IN_MEMORY, LEAST_CALLS, SERVICE, mostly

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.findings.alone import Alone
    from nfslab.findings.calls import Call, Calls

ALIKE: Final = 0.5
"""Of what the mean call is slower by: a call of memory that is so much slower is slower, too."""


def memory_too(calls: Calls) -> bool:
    """Are calls that memory answers slower by about as much as all are?"""
    slower = calls.slower_by(SERVICE)
    known = {name: ns for name, ns in slower.items() if name in IN_MEMORY}
    number = sum(calls.new[name].per_operation for name in slower)
    in_memory = sum(calls.new[name].per_operation for name in known)
    if not in_memory or not number:
        return False
    mean_ns = sum(calls.weighed(slower).values()) / number
    return sum(calls.weighed(known).values()) / in_memory >= ALIKE * mean_ns > 0


def commits_alone(calls: Calls) -> bool:
    """Is most of it COMMIT's?"""
    return mostly(calls.weighed(calls.slower_by(SERVICE)), ("COMMIT",))


def by_kind(point: Alone) -> tuple[float, float, float] | None:
    """Mean service of a call that memory answers, of any other but COMMIT, and COMMIT's share of
    all service; a mean of too few calls is 0. None: no calls are known."""
    calls = point.calls
    whole = _service(calls)
    if not whole:
        return None
    memory = {name: one for name, one in calls.items() if name in IN_MEMORY}
    others = {n: one for n, one in calls.items() if n not in IN_MEMORY and n != "COMMIT"}
    commits = {name: one for name, one in calls.items() if name == "COMMIT"}
    return _mean(memory), _mean(others), _service(commits) / whole


def _service(calls: Mapping[str, Call]) -> float:
    return sum(
        one.per_operation * one.parts_ns.get("server processing", 0.0) for one in calls.values()
    )


def _mean(calls: Mapping[str, Call]) -> float:
    if sum(one.number for one in calls.values()) < LEAST_CALLS:
        return 0.0
    return _service(calls) / sum(one.per_operation for one in calls.values())


def can_tell(calls: Calls) -> bool:
    """Are there calls that memory answers, and others?"""
    slower = calls.slower_by(SERVICE)
    return any(one in IN_MEMORY for one in slower) and any(one not in IN_MEMORY for one in slower)
