"""Offered load for programs: the curves as plain values.

What pages and tables show, with all digits: `nfslab report --json` has it as "offered_load".
Loads in operations a second, responses in ms; what there is none of is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.evidence.offered_load.curves import (
    agreement,
    offered_load,
    overall_sentences,
    published_at,
    sentences,
)
from nfslab.evidence.offered_load.operations import as_values as operation_values
from nfslab.evidence.offered_load.operations import read_operations

if TYPE_CHECKING:
    from nfslab.evidence.offered_load.curves import Curve, LoadResult, PublishedPoint
    from nfslab.evidence.offered_load.operations import Operations
    from nfslab.report.model import Analysis
    from nfslab.statistics.summary import Summary


def as_content(analysis: Analysis) -> dict[str, Any] | None:
    """The curves of an experiment whose workload offers a load; None for any other."""
    found = offered_load(analysis)
    if found is None:
        return None
    beside = published_at(analysis, found)
    operations = read_operations(analysis)
    return {
        "axes": found.others,
        "curves": [_curve(curve, beside, operations) for curve in found.curves],
        "without_load": found.without_load,
        "operations_problems": operations.problems,
        "operations_left_out_runs": operations.left_out,
        "sentences": [
            *sentences(found),
            *overall_sentences(found),
            *agreement(found, beside),
        ],
    }


def _curve(
    curve: Curve, beside: dict[int, PublishedPoint], operations: Operations
) -> dict[str, Any]:
    """`peak` and `knee`: places among the points."""
    return {
        "label": curve.label,
        "peak": curve.meaning.peak,
        "knee": curve.meaning.knee,
        "overall_response_ms": curve.overall_ms,
        "overall_response_by_repetition_ms": _values(curve.overall_by_block_ms),
        "points": [
            _point(one, beside.get(one.point))
            | {
                "operations": [
                    operation_values(row) for row in operations.of_point.get(one.point, [])
                ]
            }
            for one in curve.points
        ],
    }


def _point(one: LoadResult, published: PublishedPoint | None) -> dict[str, Any]:
    refused = one.refused
    return {
        "point": one.point,
        "offered_ops_per_s": one.offered_ops_per_s,
        "asked_ops_per_s": _values(one.asked),
        "achieved_ops_per_s": _values(one.achieved),
        "response_ms": {name: _values(summary) for name, summary in one.response.items()},
        "outstanding": _values(one.outstanding),
        "rate_times_response": _values(one.rate_times_response),
        "runs": one.runs,
        "planned": one.planned,
        "failed": one.failed,
        "valid": one.valid,
        "verdict": one.verdict,
        "saturated": one.is_saturated,
        "saturated_runs": one.saturated_runs,
        "overloaded": one.is_overloaded,
        "peak": one.is_peak,
        "knee": one.is_knee,
        "reasons": one.reasons,
        "refused": None
        if refused is None
        else {
            "achieved_ops_per_s": refused.achieved_ops_per_s,
            "response_ms": refused.response_ms,
            "runs": refused.runs,
        },
        "published": None
        if published is None
        else {
            "achieved_ops_per_s": published.achieved_ops_per_s,
            "response_mean_ms": published.response_ms,
            "saturated": published.is_saturated,
        },
    }


def _values(summary: Summary | None) -> dict[str, float | None] | None:
    """Median and the interval of it."""
    if summary is None:
        return None
    spread = summary.interval
    return {
        "median": summary.median,
        "low": spread.low if spread else None,
        "high": spread.high if spread else None,
    }
