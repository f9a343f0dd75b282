"""Sizes and durations: exact values from the definition of the units, and what is refused."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab import quantities
from nfslab.quantities import format_duration, format_size, parse_duration_s, parse_size_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        (512, 512),
        ("8k", 8192),
        ("8K", 8192),
        ("8kB", 8192),
        ("8 KiB", 8192),
        ("1.5G", 3 * 2**29),
        ("2T", 2**41),
        (2**63 - 1, 2**63 - 1),
    ],
)
def test_sizes_are_binary(text: object, size: int) -> None:
    assert parse_size_bytes(text) == size


@pytest.mark.parametrize(
    "text", [True, 1.5, "", "k", "-1", -1, "8x", "8 k 1", "1.0001k", 2**63, "1e3", None, [8]]
)
def test_what_is_not_a_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"size|bytes"):
        parse_size_bytes(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(90, 90), (0.5, 0.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("250 ms", 0.25), ("0s", 0)],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    "text", [False, "", "10", "m", "-5s", -1, "10 parsecs", math.nan, math.inf, "400d", None]
)
def test_what_is_not_a_duration_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"duration|outside"):
        parse_duration_s(text)


@given(st.integers(0, 2**63 - 1))
def test_a_size_shown_is_near_the_size_meant(size: int) -> None:
    """Three digits: what is shown, read again, is within half of the third digit."""
    shown = format_size(size)
    number, _, unit = shown.partition(" ")
    factor = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit]
    assert float(number) * factor == pytest.approx(size, rel=0.005)


def test_durations_are_shown_in_two_units_at_most() -> None:
    shown = [format_duration(s) for s in (0.25, 1, 75, 120, 3600, 5400, 200000, -2)]
    assert shown == ["250 ms", "1 s", "75 s", "2 min", "1 h", "1 h 30 min", "2 d 8 h", "-2 s"]


def test_examples_in_the_documentation() -> None:
    assert doctest.testmod(quantities).failed == 0
