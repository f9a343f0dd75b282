"""A point's report as a point of the curve."""

from __future__ import annotations

from typing import Any

import pytest
from nfslab.offered.ladder import loads
from nfslab.offered.points import load_point


def report(mode: str = "open", **changed: Any) -> dict[str, Any]:
    """Ten seconds' window."""
    whole: dict[str, Any] = {
        "valid": True, "plan": {"load": {"mode": mode}}, "response": {"mean_ns": 2_000_000},
        "offered_ops_per_s": 100.0, "achieved_ops_per_s": 94.0, "arrivals": 940,
        "window_start_ns": 3 * 10**9, "window_end_ns": 13 * 10**9,
    }  # fmt: skip
    return whole | changed


def test_an_open_load_is_asked_for_what_arrived() -> None:
    point = load_point(report())
    assert (point.arrived_ops_per_s, point.response_s, point.valid) == (94.0, 0.002, True)
    assert not point.is_saturated


@pytest.mark.parametrize("arrivals", [960, 1000, 1040])
def test_a_server_that_answers_less_than_arrived_is_saturated(arrivals: int) -> None:
    assert load_point(report(arrivals=arrivals)).is_saturated


def test_a_closed_load_is_asked_for_what_was_offered() -> None:
    point = load_point(report("closed", answered=40_000))
    assert (point.arrived_ops_per_s, point.closed_operations) == (None, 40_000)
    assert point.is_saturated
    assert not load_point(report("closed", answered=940)).is_saturated, "chance may be 6.5 %"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("800..3200:800", [800, 1600, 2400, 3200]),
        ("1..2:0.25", [1, 1.25, 1.5, 1.75, 2]),
        ("100..350:100", [100, 200, 300]),
        ("1k, 500", [1000, 500]),
        ("2k..3k:500,9", [2000, 2500, 3000, 9]),
        ("0.1..0.3:0.1", [0.1, 0.2, 0.30000000000000004]),
    ],
)
def test_loads(text: str, found: list[float]) -> None:
    assert loads(text) == pytest.approx(found)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0", "above 0"),
        ("0..100:50", "above 0"),
        ("-5", "no load"),
        ("fast", "no load"),
        ("", "no load"),
        ("300..100:50", "goes down"),
        ("1..100000:1", "100000 points"),
        ("100..200:0", "above 0"),
        ("100..200", "no range"),
    ],
)
def test_what_is_no_ladder(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        loads(text)
