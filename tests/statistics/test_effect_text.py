"""What a comparison says in words."""

from __future__ import annotations

import re

import pytest
from nfslab.statistics import effect_text as text

from tests.statistics.two_sides import compare_unpaired


def test_what_a_test_could_have_shown_is_said_only_where_nothing_was() -> None:
    noisy = compare_unpaired([90, 100, 110], [91, 101, 108], better="higher")
    assert text.words(noisy).startswith("inconclusive (a change of ")
    assert text.words(noisy).endswith(" % detectable with 80 % power)")
    wild = compare_unpaired([1, 100, 10_000], [2, 90, 9_000], better="higher")
    assert "a factor of " in text.words(wild)
    clear = compare_unpaired([100, 101, 102], [200, 201, 202], better="higher")
    assert text.words(clear) == "faster"
    one = compare_unpaired([100], [200], better="higher")
    assert text.words(one) == "significance unknown (n=1)"


def test_changes_without_a_ratio_are_differences() -> None:
    result = compare_unpaired([-1.0, 0.0, 1.0], [9.0, 10.0, 11.0], better=None)
    assert text.change(result) == "+10"
    assert text.change_interval(result).startswith("+")
    assert text.change(compare_unpaired([], [1.0], better=None)) == "–"


def test_a_headline_has_the_ratio_its_interval_and_what_would_have_been_shown() -> None:
    """The detectable factor on the side of the estimate, by `numbers.ratio`."""
    slower = compare_unpaired([90, 100, 110], [80, 101, 99], better="higher")
    assert slower.interval is not None
    assert slower.smallest_detectable is not None
    figures = re.findall(r"\d+\.\d{3}", text.headline(slower))
    expected = [slower.ratio, slower.interval.low, slower.interval.high]
    expected.append(1 / slower.smallest_detectable)
    assert [float(figure) for figure in figures] == pytest.approx(expected, abs=0.0005)
    assert text.headline(slower).endswith("or less")
    more = compare_unpaired([80, 101, 99], [90, 100, 110], better="higher")
    assert text.headline(more).endswith(f"{more.smallest_detectable:.3f} or more")
    clear = compare_unpaired([100, 101, 102], [200, 201, 202], better="higher")
    assert text.headline(clear).endswith("): faster")
    two = compare_unpaired([100, 101], [200, 202], better="higher")
    assert text.headline(two) == "+100 % (2.000x): significance unknown (n=2)"
