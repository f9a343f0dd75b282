"""Distance or bandwidth: does a longer way depend on how many bytes a call moves?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.findings.calls import LEAST_CALLS, WIRE

if TYPE_CHECKING:
    from nfslab.findings.alone import Alone
    from nfslab.findings.calls import Calls

LARGE_BYTES: Final = 2048
"""Of call and reply: more carries data."""
ALIKE: Final = 0.4
"""Of what large calls are slower by: small ones that are so much slower are slower as well."""


def of_size(calls: Calls) -> bool:
    """Are calls with data slower, and those without far less? Only where there are both."""
    slower = calls.slower_by(WIRE)
    large, small = by_size(calls)
    if not large or not small:
        return False
    return _mean(calls, slower, large) > 0 and _mean(calls, slower, small) < ALIKE * _mean(
        calls, slower, large
    )


def ways(point: Alone) -> tuple[float, float] | None:
    """Mean time on both ways of a call without data, and of one with data, in ns; None: too few of
    either."""
    found = []
    for is_large in (False, True):
        mine = [one for one in point.calls.values() if (one.bytes_mean > LARGE_BYTES) == is_large]
        if sum(one.number for one in mine) < LEAST_CALLS:
            return None
        times = (sum(one.parts_ns.get(name, 0.0) for name in WIRE) for one in mine)
        number = sum(one.per_operation for one in mine)
        whole = sum(ns * one.per_operation for ns, one in zip(times, mine, strict=True))
        found.append(whole / number)
    return found[0], found[1]


def by_size(calls: Calls) -> tuple[list[str], list[str]]:
    """Kinds of calls with data, and those without."""
    large, small = (
        [n for n in calls.slower_by(WIRE) if (calls.new[n].bytes_mean > LARGE_BYTES) == is_large]
        for is_large in (True, False)
    )
    return large, small


def _mean(calls: Calls, slower: dict[str, float], kinds: list[str]) -> float:
    number = sum(calls.new[name].per_operation for name in kinds)
    return sum(slower[name] * calls.new[name].per_operation for name in kinds) / number
