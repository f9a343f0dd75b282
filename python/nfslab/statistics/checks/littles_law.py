"""Little's law: work in flight = throughput x time in flight. Always true, so always checked.

Closed loop without think time: every client is always inside one transaction, so

    throughput x mean latency = number of clients.

* ratio above 1: more work in flight than clients exist. Impossible: one of the three
  numbers is wrong (latencies of another period, failed work counted, a wrong clock). Up to
  15 % it is a warning, since means over slightly different periods can differ by that
  much (the published SFS figures of 1999 reach 12 %); beyond, a violation.
* ratio below 1: the clients were not always inside a transaction. Possible: the load
  generator itself is the bottleneck, clients connect anew, some finish before others.

With a rate limit the latency counts from the planned instant; the time a transaction waits
for a free client (schedule lag) is spent outside the client. So the lag is subtracted, and
a ratio below 1 is just the share of time that clients are busy: normal, not checked.

Source: J. D. C. Little, Operations Research 9 (1961) 383. Limits: both numbers must be
means over the same transactions and period; a median latency does not obey the law.
"""

from __future__ import annotations

from nfslab.statistics.checks.check import Check, known, unknown

NAME = "littles_law"
TOLERANCE = 0.05
"""Relative: start and end of a run belong partly to transactions that are not counted."""
IMPOSSIBLE = 0.15
"""Relative excess that no difference between two periods of averaging explains."""
NS_PER_S = 1e9


def check_littles_law(
    *,
    clients: int,
    rate_per_s: float | None,
    mean_latency_ns: float | None,
    rate_limited: bool = False,
    mean_schedule_lag_ns: float | None = None,
) -> Check:
    """Does throughput x latency match the number of clients?

    `rate_per_s` and `mean_latency_ns` are of all transactions of the period, failed ones
    included in both or in neither. `mean_schedule_lag_ns` belongs to `rate_limited`.
    """
    lag_ns = mean_schedule_lag_ns if rate_limited else 0.0
    if (
        rate_per_s is None
        or mean_latency_ns is None
        or lag_ns is None
        or not known(rate_per_s, mean_latency_ns, lag_ns)
    ):
        return unknown(
            NAME,
            {
                "rate_per_s": rate_per_s,
                "mean_latency_ns": mean_latency_ns,
                "mean_schedule_lag_ns": lag_ns,
            },
        )
    if clients < 1 or rate_per_s <= 0:
        return Check(NAME, "unknown", "nothing was done: there is no work in flight to check")
    busy_ns = mean_latency_ns - lag_ns
    in_flight = rate_per_s * busy_ns / NS_PER_S
    ratio = in_flight / clients
    values = {
        "clients": clients,
        "rate_per_s": rate_per_s,
        "mean_latency_ns": mean_latency_ns,
        "in_flight": in_flight,
        "ratio": ratio,
        "tolerance": TOLERANCE,
    }
    if rate_limited:
        values["mean_schedule_lag_ns"] = lag_ns
    sum_text = f"throughput x latency = {in_flight:.4g} transactions in flight, {clients} clients"
    if busy_ns < 0:
        return Check(
            NAME, "violation", "the mean schedule lag is longer than the mean latency", values
        )
    if ratio > 1 + TOLERANCE:
        return Check(
            NAME,
            "violation" if ratio > 1 + IMPOSSIBLE else "warning",
            f"{sum_text}: more than there can be, so throughput or latency is wrong",
            values,
        )
    if ratio < 1 - TOLERANCE and not rate_limited:
        return Check(
            NAME,
            "warning",
            f"{sum_text}: clients were idle {1 - ratio:.0%} of the time (the load generator "
            "is busy itself, connects anew, or some clients finished before others)",
            values,
        )
    busy = f"; clients were busy {ratio:.0%} of the time" if rate_limited else ""
    return Check(NAME, "ok", sum_text + busy, values)
