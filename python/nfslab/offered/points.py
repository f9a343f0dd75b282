"""A point's report, as the core gives it, as a point of the curve of offered load."""

from __future__ import annotations

from typing import Any, Final

from nfslab.statistics.load_curve import LoadPoint

NS_PER_S: Final = 1e9


def load_point(report: dict[str, Any]) -> LoadPoint:
    """Of the measured window."""
    mean_ns = report["response"]["mean_ns"]
    return LoadPoint(
        report["offered_ops_per_s"],
        report["achieved_ops_per_s"],
        None if mean_ns is None else mean_ns / NS_PER_S,
        valid=report["valid"],
        arrived_ops_per_s=_arrived_ops_per_s(report),
        closed_operations=closed_operations(report),
    )


def closed_operations(report: dict[str, Any]) -> float | None:
    """Answers of a closed load in the window; None for an open one."""
    is_closed = report["plan"]["load"]["mode"] == "closed"
    return float(report["answered"]) if is_closed else None


def _arrived_ops_per_s(report: dict[str, Any]) -> float | None:
    """None for a closed load: processes that wait for answers send less because these are late."""
    if report["plan"]["load"]["mode"] != "open":
        return None
    window_ns = report["window_end_ns"] - report["window_start_ns"]
    return float(report["arrivals"] / (window_ns / NS_PER_S))
