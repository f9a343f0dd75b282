"""Ladders of load: what people write, and what is refused."""

from __future__ import annotations

import pytest
from nfslab.offered.ladder import loads


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
