"""Distance or bandwidth: does a longer way depend on how many bytes a call moves?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.findings.calls import WIRE

if TYPE_CHECKING:
    from nfslab.findings.calls import Calls

LARGE_BYTES: Final = 2048
"""Of call and reply: more carries data."""
ALIKE: Final = 0.4
"""Of what large calls are slower by: small ones that are so much slower are slower as well."""


def of_size(calls: Calls) -> bool:
    """Are calls with data slower, and those without far less? Only where there are both."""
    slower = calls.slower_by(WIRE)
    large, small = (
        [name for name in slower if (calls.new[name].bytes_mean > LARGE_BYTES) == is_large]
        for is_large in (True, False)
    )
    if not large or not small:
        return False
    return _mean(calls, slower, large) > 0 and _mean(calls, slower, small) < ALIKE * _mean(
        calls, slower, large
    )


def _mean(calls: Calls, slower: dict[str, float], kinds: list[str]) -> float:
    number = sum(calls.new[name].per_operation for name in kinds)
    return sum(slower[name] * calls.new[name].per_operation for name in kinds) / number
