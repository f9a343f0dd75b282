"""Curves of offered load, against arithmetic by hand and the published table of 1999."""

from __future__ import annotations

import csv

import pytest
from nfslab.shipped import PACKAGE
from nfslab.statistics.load_curve import LoadPoint, load_curve, overloaded


def test_peak_knee_and_area_by_hand() -> None:
    points = [
        LoadPoint(100, 100, 0.001),
        LoadPoint(200, 200, 0.002),
        LoadPoint(300, 300, 0.008),
        LoadPoint(400, 310, 0.050),
    ]
    curve = load_curve(points)
    # Power: 100,000, 100,000 (the first of equals), 37,500, 6,200.
    assert (curve.peak, curve.knee, curve.saturated) == (3, 0, (3,))
    # 100 x 1 ms + 100 x 1.5 + 100 x 5 + 10 x 29, over 310.
    assert curve.overall_response_s == pytest.approx((0.1 + 0.15 + 0.5 + 0.29) / 310)
    shuffled = load_curve([points[2], points[0], points[3], points[1]])
    assert (shuffled.peak, shuffled.saturated) == (2, (2,))
    assert shuffled.overall_response_s == curve.overall_response_s


def test_what_is_offered_beyond_the_peak_is_not_in_the_overall_response_time() -> None:
    points = [LoadPoint(100, 100, 0.001), LoadPoint(200, 180, 0.003)]
    beyond = [*points, LoadPoint(300, 120, 0.5), LoadPoint(400, 90, 0.9)]
    curve = load_curve(beyond)
    assert curve.overall_response_s == load_curve(points).overall_response_s
    # 100 x 1 ms + 80 x 2 ms, over 180.
    assert curve.overall_response_s == pytest.approx(0.26 / 180)


def test_a_point_whose_generator_was_the_limit_says_nothing() -> None:
    points = [LoadPoint(100, 100, 0.001), LoadPoint(900, 500, 0.002, valid=False)]
    curve = load_curve(points)
    assert (curve.highest, curve.peak, curve.knee, curve.saturated) == (0, None, None, ())
    assert curve.overall_response_s == pytest.approx(0.001)
    nothing = load_curve([LoadPoint(100, 0, None)])
    assert (nothing.peak, nothing.overall_response_s, nothing.saturated) == (None, None, (0,))


def test_of_a_closed_load_chance_may_be_two_standard_deviations() -> None:
    # 1/sqrt(400) is 5 %: below 98 - 10 % of 100; of 40,000 it is 0.5 %: below 97.
    def achieved(value: float, operations: float) -> bool:
        return LoadPoint(100, value, 0.001, closed_operations=operations).is_saturated

    assert (achieved(88.1, 400), achieved(87.9, 400)) == (False, True)
    assert (achieved(97.1, 40_000), achieved(96.9, 40_000)) == (False, True)
    assert LoadPoint(100, 97.9, 0.001).is_saturated, "how many there were is not known"


def test_overload_is_behind_the_peak_and_clearly_below_it() -> None:
    points = [
        LoadPoint(100, 60, 0.1),  # below the peak, but less was offered
        LoadPoint(200, 100, 0.1),
        LoadPoint(300, 98, 0.1),  # 98 % of the peak is a plateau
        LoadPoint(400, 97.9, 0.1),
        LoadPoint(500, 50, 0.1, valid=False),
    ]
    assert overloaded(points) == (3,)
    assert overloaded(points[::-1]) == (1,)
    assert overloaded([LoadPoint(100, 0, None)]) == ()


def test_arrivals_that_never_came_are_not_asked_of_a_server() -> None:
    def planted(achieved: float, arrived: float | None) -> LoadPoint:
        return LoadPoint(100, achieved, 0.001, arrived_ops_per_s=arrived)

    # 94 a second came of 100 planned.
    assert not planted(94, 94).is_saturated
    assert not planted(92.2, 94).is_saturated
    assert planted(92, 94).is_saturated, "all of 94 is 98 % from 92.12 on"
    assert planted(94, 100).is_saturated
    assert planted(94, None).is_saturated, "not known: what was offered"
    # More than planned came: what was offered is enough.
    assert not planted(98, 106).is_saturated
    assert planted(97.9, 106).is_saturated
    few, more = LoadPoint(99, 102, 0.001), planted(94, 94)
    assert load_curve([few, more]).saturated == ()
    assert overloaded([few, more]) == (), "all that came was done"
    assert overloaded([few, planted(94, 100)]) == (1,)


def test_the_published_table_has_18_saturated_points_and_2_that_are_not() -> None:
    with (PACKAGE / "published" / "sfs_heavy_load_1999.csv").open() as file:
        rows = list(csv.DictReader(file))
    points = [
        LoadPoint(float(r["offered_ops_per_s"]), float(r["achieved_ops_per_s"]), 0.01) for r in rows
    ]
    assert [point.is_saturated for point in points].count(True) == 18
    light = [(row["server_threads"], row["offered_ops_per_s"]) for row in rows]
    free = [place for place, point in zip(light, points, strict=True) if not point.is_saturated]
    assert free == [("8", "800"), ("16", "800")]
