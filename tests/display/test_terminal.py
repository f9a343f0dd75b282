"""Texts for a terminal: aligned, on one line a row, harmless."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nfslab.display import numbers
from nfslab.display import terminal as text


def test_tables_align_and_keep_to_one_line() -> None:
    lines = text.table(["a", "n"], [["x\ny", "1"], ["z" * 200, "22"]], right=(1,)).splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("x y ")
    assert lines[2].endswith("…  22")
    assert {line.rstrip()[-1] for line in lines[1:]} == {"1", "2"}


def test_nothing_steers_the_terminal() -> None:
    assert text.printable("a\x1b[31mb\rc\td\n") == "a\ufffd[31mb\ufffdc\td\n"
    assert "\x1b" not in text.table(["h"], [["\x1b[2J"]])


def test_dates_are_utc() -> None:
    assert text.date(1_790_000_000_000_000_000) == "2026-09-21 14:13Z"
    assert text.date(10**30) == f"{10**30} ns"


OF_THE_PAGE = {"quantileName"}
CASES = json.loads((Path(__file__).parent / "numbers.json").read_text(encoding="utf-8"))
SPELLED = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


@pytest.mark.parametrize(
    ("rule", "given", "written"),
    [(rule, *case) for rule in sorted(CASES.keys() - OF_THE_PAGE) for case in CASES[rule]],
)
def test_a_number_is_written_by_the_one_rule(rule: str, given: list[Any], written: str) -> None:
    values = [SPELLED.get(value, value) if isinstance(value, str) else value for value in given]
    assert getattr(numbers, rule)(*values) == written


def test_nouns_are_counted() -> None:
    assert [numbers.counted(n, "run") for n in (0, 1, 1200)] == ["0 runs", "1 run", "1,200 runs"]
