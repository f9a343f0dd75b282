"""A point of offered load as metrics, checks and tables of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.results.records import CheckRecord, Metric, Verdict
from nfslab.statistics.verdicts import EMULATED
from nfslab.workloads.base import Completions, buckets_table

if TYPE_CHECKING:
    import pyarrow as pa

PHASE: Final = "nfs_operations"
"""Name of the load in samples: a rate of operations."""
NS_PER_MS: Final = 1e6
OF_TIME: Final = frozenset({"generator_overloaded", "generator_cpu"})
"""Reasons against a point that are about how fast the generator's processor is."""
QUANTILES: Final = ("p50", "p90", "p99", "p999")


def point_metrics(point: dict[str, Any]) -> dict[str, Metric]:
    """The numbers of a point."""
    from nfslab.offered.points import load_point

    of_curve = load_point(point)
    achieved, saturated = of_curve.achieved_ops_per_s, float(of_curve.is_saturated)
    metrics = {
        "achieved_ops_per_s": Metric(value=achieved, unit="1/s", better="higher", primary=True),
        "saturated": Metric(value=saturated, unit="1", better="lower"),
        "outstanding_mean": Metric(value=point["outstanding_mean"], unit="1", better="lower"),
    }
    if (arrived := of_curve.arrived_ops_per_s) is not None:
        metrics["arrived_ops_per_s"] = Metric(value=arrived, unit="1/s")
    if of_curve.closed_operations is not None:
        metrics["answered"] = Metric(value=of_curve.closed_operations, unit="1")
    metrics |= _responses("response", point["response"])
    for row in point["operations"]:
        mean_ns = row["response"]["mean_ns"]
        if mean_ns is not None:
            name = f"{row['operation'].lower()}_response_mean_ms"
            metrics[name] = Metric(value=mean_ns / NS_PER_MS, unit="ms", better="lower")
    return metrics


def _responses(name: str, response: dict[str, Any]) -> dict[str, Metric]:
    found = {}
    for quantile in ("mean", *QUANTILES):
        if (value_ns := response.get(f"{quantile}_ns")) is not None:
            metric = Metric(value=value_ns / NS_PER_MS, unit="ms", better="lower")
            found[f"{name}_{quantile}_ms"] = metric
    return found


def point_checks(point: dict[str, Any], *, emulated: bool = False) -> list[CheckRecord]:
    """Does the point count? And does Little's law hold in its accounts?

    Of a generator on an emulated processor nobody can say whether it kept up.
    """
    reasons = point["reasons"]
    message = "; ".join(reason["text"] for reason in reasons)
    verdict: Verdict = "ok" if point["valid"] else "violation"
    if emulated and all(reason["kind"] in OF_TIME for reason in reasons):
        verdict = "unknown"
        message = f"{EMULATED}, so whether the generator kept up is not judged" + (
            f" ({message})" if message else ""
        )
    share = max((thread["cpu_share"] for thread in point["threads"]), default=0.0)
    values = {"generator_cpu_share": share, "late_p99_ns": point["late"]["p99_ns"] or 0}
    values["verified_bytes"] = point["verified_bytes"]
    return [
        CheckRecord(
            name="offered_load",
            verdict=verdict,
            message=message or "every answer was as expected, and the generator kept up",
            values=values,
        )
    ]


def completions(point: dict[str, Any]) -> Completions:
    """What was answered in the whole intervals of the window."""
    series = point["series"]
    whole = (point["window_end_ns"] - series["start_ns"]) // series["interval_ns"]
    begin_ns = series["start_ns"] - point["start_monotonic_ns"]
    return Completions(begin_ns, series["interval_ns"], series["answered"][:whole])


def series_table(point: dict[str, Any]) -> pa.Table:
    """Operations and bytes answered in each interval; t_ns from the load's start."""
    import pyarrow as pa

    series = point["series"]
    begin_ns = series["start_ns"] - point["start_monotonic_ns"]
    count = len(series["answered"])
    times = [begin_ns + number * series["interval_ns"] for number in range(count)]
    columns: dict[str, Any] = {"t_ns": pa.array(times, pa.int64())}
    columns["phase"] = pa.array([PHASE] * count, pa.string())
    for name, key in (
        ("bytes", "bytes"), ("operations", "answered"), ("planned", "planned"),
        ("response_sum_ns", "response_sum_ns"),
    ):  # fmt: skip
        columns[name] = pa.array(series[key], pa.int64())
    return pa.table(columns)


def histograms_table(histograms: dict[str, str]) -> pa.Table:
    """Buckets of all responses and of each operation's; lateness as `late`."""
    return buckets_table(
        (PHASE if name == "all" else name, text) for name, text in histograms.items()
    )


def operations_table(point: dict[str, Any]) -> pa.Table:
    """One row for each operation of the mix."""
    import pyarrow as pa

    rows = point["operations"]
    columns: dict[str, Any] = {"operation": pa.array([row["operation"] for row in rows])}
    columns["share"] = pa.array([row["share"] for row in rows], pa.float64())
    for name in ("calls", "ended", "answered", "unexpected", "not_drawn"):
        columns[name] = pa.array([row[name] for row in rows], pa.int64())
    for name in ("mean", *QUANTILES, "max"):
        values = [row["response"].get(f"{name}_ns") for row in rows]
        columns[f"{name}_ns"] = pa.array(values, pa.float64())
    return pa.table(columns)
