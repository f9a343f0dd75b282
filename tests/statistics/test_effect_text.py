"""What a comparison says in words."""

from __future__ import annotations

from nfslab.statistics import effect_text as text

from tests.statistics.two_sides import compare_unpaired


def test_what_a_test_could_have_shown_is_said_only_where_nothing_was() -> None:
    noisy = compare_unpaired([90, 100, 110], [91, 101, 108], better="higher")
    assert text.words(noisy).startswith("no difference shown (a change of ")
    assert text.words(noisy).endswith(" % would have been, 4 times in 5)")
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
