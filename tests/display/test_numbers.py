"""Numbers as people read them: a table of cases, which the page's JavaScript must pass, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from nfslab.display import numbers

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
