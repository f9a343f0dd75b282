"""Numbers as people read them: no more digits than were asked for, nothing misleading."""

from __future__ import annotations

import math

import pytest
from nfslab.report import text
from nfslab.statistics.comparison import compare_unpaired


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0, "0"),
        (0.0, "0"),
        (1234.5678, "1235"),
        (123456.7, "123457"),
        (12.3456, "12.35"),
        (-0.0123456, "-0.01235"),
        (1e-7, "1.000e-07"),
        (2.5e17, "2.500e+17"),
        (math.nan, "NaN"),
        (math.inf, "infinite"),
        (-math.inf, "-infinite"),
    ],
)
def test_numbers(value: float | None, shown: str) -> None:
    assert text.number(value) == shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (116.36, "1/s", "116.4/s"),
        (2.5, "ms", "2.500 ms"),
        (3.0, "1", "3.000"),
        (225896 * 1024, "bytes/s", "220.6 MiB/s"),
        (512, "bytes", "512.0 B"),
        (1024, "bytes", "1.000 KiB"),
        (None, "ms", "-"),
        (math.nan, "bytes/s", "NaN bytes/s"),
    ],
)
def test_quantities(value: float | None, unit: str, shown: str) -> None:
    assert text.quantity(value, unit) == shown


def test_ratios_and_p_values() -> None:
    assert [text.ratio(v) for v in (1.23456, 0.5, 12.345, 0.01234, math.inf, None)] == [
        "1.235",
        "0.500",
        "12.3",
        "0.0123",
        "unbounded",
        "-",
    ]
    assert [text.p_value(p) for p in (0.04321, 0.2, 0.00001234, 0.0, 1.0, None)] == [
        "0.043",
        "0.2",
        "1e-05",
        "0",
        "1",
        "-",
    ]


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
    assert text.change(compare_unpaired([], [1.0], better=None)) == "-"


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
