"""The wording of changes, letter by letter."""

from __future__ import annotations

import math

import pytest
from nfslab.statistics import (
    Interval,
    change_text,
    compare_published,
    compare_unpaired,
    detectable_text,
    difference_text,
    percent_change_text,
)


def interval(low: float, high: float) -> Interval:
    return Interval(low, high, 0.95, "test")


@pytest.mark.parametrize(
    ("ratio", "low", "high", "text"),
    [
        (1.123, 1.081, 1.167, "+12.3 % [+8.1, +16.7]"),
        (0.948, 0.93, 0.9661, "-5.2 % [-7.0, -3.4]"),
        (1.0, 0.98, 1.02, "+0.0 % [-2.0, +2.0]"),
        (0.9999999, 0.98, 1.02, "+0.000 % [-2.000, +2.000]"),
        (1.0004, 1.0002, 1.0006, "+0.04 % [+0.02, +0.06]"),
        (3.5, 1.5, 8.25, "+250 % [+50.0, +725]"),
        (2.0, 0.0, math.inf, "+100 % [-100, +∞]"),
    ],
)
def test_percent_change(ratio: float, low: float, high: float, text: str) -> None:
    assert percent_change_text(ratio, interval(low, high)) == text


def test_without_interval_and_without_ratio() -> None:
    assert percent_change_text(1.123) == "+12.3 %"
    assert percent_change_text(None) == "unknown"
    assert difference_text(None) == "unknown"


def test_differences_keep_their_unit() -> None:
    assert difference_text(-12.3456, interval(-20, 1.5), "ms") == "-12.35 ms [-20, +1.5]"
    assert difference_text(3.0) == "+3"


def test_comparison_chooses_its_scale() -> None:
    assert change_text(compare_published(100, 112.5, better="higher")) == "+12.5 %"
    assert change_text(compare_published(0, 3, better="lower"), "failures") == "+3 failures"


def test_what_could_have_been_shown() -> None:
    assert detectable_text(compare_published(1, 2, better=None)) == "unknown"
    ratio = compare_unpaired([100, 101, 99], [100, 102, 98], better="higher")
    up = (ratio.smallest_detectable - 1) * 100
    down = (1 - 1 / ratio.smallest_detectable) * 100
    assert detectable_text(ratio) == f"+{up:.1f} % or -{down:.1f} %"
    difference = compare_unpaired([0, 1, 2], [1, 2, 3], better=None)
    assert detectable_text(difference, "s").endswith(" s more or less")
