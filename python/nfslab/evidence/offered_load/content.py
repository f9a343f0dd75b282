"""Offered load for programs: the curves as plain values.

What pages and tables show, with all digits: `nfslab report --json` has it as "offered_load".
Loads in operations a second, responses in ms; what there is none of is null.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

from nfslab.evidence.offered_load.curves import (
    agreement,
    offered_load,
    overall_sentences,
    published_at,
    sentences,
)
from nfslab.evidence.offered_load.operations import as_values as operation_values
from nfslab.evidence.offered_load.operations import read_operations
from nfslab.statistics.summary import Summary

if TYPE_CHECKING:
    from nfslab.evidence.offered_load.curves import Curve, PublishedPoint
    from nfslab.evidence.offered_load.operations import Operations
    from nfslab.report.model import Analysis

NAMES: Final = {
    "asked": "asked_ops_per_s", "achieved": "achieved_ops_per_s", "response": "response_ms",
    "is_saturated": "saturated", "is_overloaded": "overloaded", "is_peak": "peak",
    "is_knee": "knee",
}  # fmt: skip
"""Fields of a point whose key tells the unit, or is no question."""


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
        "overall_response_by_repetition_ms": _plain(curve.overall_by_block_ms),
        "points": [
            {NAMES.get(name, name): value for name, value in _plain(one).items()}
            | {
                "valid": one.valid,
                "verdict": one.verdict,
                "published": _published(beside.get(one.point)),
                "operations": [
                    operation_values(row) for row in operations.of_point.get(one.point, [])
                ],
            }
            for one in curve.points
        ],
    }


def _published(there: PublishedPoint | None) -> dict[str, Any] | None:
    if there is None:
        return None
    return {
        "achieved_ops_per_s": there.achieved_ops_per_s,
        "response_mean_ms": there.response_ms,
        "saturated": there.is_saturated,
    }


def _plain(value: Any) -> Any:
    """Records as dictionaries; a summary as its median with the interval of it."""
    if isinstance(value, Summary):
        spread = value.interval
        low, high = (spread.low, spread.high) if spread else (None, None)
        return {"median": value.median, "low": low, "high": high}
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return {key: _plain(one) for key, one in value.items()} if isinstance(value, dict) else value
