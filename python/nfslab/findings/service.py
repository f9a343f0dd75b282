"""Which calls a server serves more slowly: what tells its processor, disk and flushes apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.findings.calls import IN_MEMORY, SERVICE, mostly

if TYPE_CHECKING:
    from nfslab.findings.calls import Calls

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
