"""Physical bounds: figures that no such machine can produce.

A latency below one round trip, a commit faster than the device can sync, a throughput above
the memory's: such figures are published again and again, and mean that something else was
measured (a cache, an error path, a `sync` that does nothing). The bounds come from the
caller, measured on the same machine or given by the device; each is named in the message.

A bound that was itself measured is uncertain: the margin says by how much it may be passed
before the check speaks, and it is a "violation" only well beyond the margin.
"""

from __future__ import annotations

import math
from typing import Any

from nfslab.statistics.checks.check import Check, known, unknown

MARGIN = 0.10
"""Relative: bounds that were measured drift by this much between two moments."""
IMPOSSIBLE = 2.0
"""Beyond the bound by this factor nothing about the bound's own error explains it."""


def check_latency_floor(
    *,
    latency_ns: float | None,
    floor_ns: float | None,
    what: str,
) -> Check:
    """Is a latency (of the fastest or the mean operation) at least what it must contain?

    `what` names the bound, such as "one round trip to the server".
    """
    if latency_ns is None or floor_ns is None or not known(latency_ns, floor_ns):
        return unknown("latency_floor", {"latency_ns": latency_ns, f"bound ({what})": floor_ns})
    values: dict[str, Any] = {
        "latency_ns": latency_ns,
        "floor_ns": floor_ns,
        "margin": MARGIN,
    }
    if latency_ns < 0:
        return Check(
            "latency_floor", "violation", f"a latency of {latency_ns:g} ns is negative", values
        )
    return _judge(
        "latency_floor",
        _excess(floor_ns, latency_ns),
        f"{_duration(latency_ns)} against {_duration(floor_ns)} for {what}",
        "faster than possible: was it served from a cache, or did it fail at once?",
        values,
    )


def check_rate_ceiling(
    *,
    rate: float | None,
    ceiling: float | None,
    unit: str,
    what: str,
) -> Check:
    """Is a throughput at most what the device, the network or the memory can carry?

    `rate` and `ceiling` are in the same `unit`; `what` names the bound.
    """
    if rate is None or ceiling is None or not known(rate, ceiling):
        return unknown("rate_ceiling", {"rate": rate, f"bound ({what})": ceiling})
    values: dict[str, Any] = {"rate": rate, "ceiling": ceiling, "unit": unit, "margin": MARGIN}
    if rate < 0:
        return Check("rate_ceiling", "violation", f"a rate of {rate:g} {unit} is negative", values)
    if ceiling <= 0:
        return Check("rate_ceiling", "unknown", f"the bound for {what} is not positive", values)
    return _judge(
        "rate_ceiling",
        rate / ceiling,
        f"{rate:.4g} {unit} against {ceiling:.4g} {unit} for {what}",
        "more than possible: was it served from a cache?",
        values,
    )


def _judge(name: str, excess: float, text: str, doubt: str, values: dict[str, Any]) -> Check:
    if excess > IMPOSSIBLE:
        return Check(name, "violation", f"{text}: {doubt}", values)
    if excess > 1 + MARGIN:
        return Check(name, "warning", f"{text}: {doubt}", values)
    return Check(name, "ok", text, values)


def _excess(larger: float, smaller: float) -> float:
    if smaller > 0:
        return larger / smaller
    return math.inf if larger > 0 else 1.0


def _duration(value_ns: float) -> str:
    for limit, scale, unit in ((1e3, 1.0, "ns"), (1e6, 1e3, "us"), (1e9, 1e6, "ms")):
        if abs(value_ns) < limit:
            return f"{value_ns / scale:.4g} {unit}"
    return f"{value_ns / 1e9:.4g} s"
