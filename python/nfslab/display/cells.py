"""Cells of tables: a text by the one rule for numbers, and the value that sorting compares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.display import numbers
from nfslab.display.sections import Cell

if TYPE_CHECKING:
    from nfslab.display.sections import Tone


def text(value: object, tone: Tone = "", hint: str = "") -> Cell:
    """A word; absent when there is none."""
    return Cell(numbers.ABSENT if value in (None, "") else str(value), None, tone, hint)


def count(value: int | None, tone: Tone = "", hint: str = "") -> Cell:
    """A whole number; zero is faint, so that what is there stands out."""
    if value is None:
        return Cell(numbers.ABSENT, "")
    return Cell(numbers.count(value), value, tone if value else "faint", hint)


def number(value: float | None) -> Cell:
    """A number without a unit."""
    return Cell(numbers.number(value), "" if value is None else value)


def quantity(value: float | None, unit: str) -> Cell:
    """A value in its unit."""
    return Cell(numbers.quantity(value, unit), "" if value is None else value)


def latency(value_ns: float | None) -> Cell:
    """A time in nanoseconds."""
    return quantity(value_ns, "ns")


def size(value_bytes: float | None) -> Cell:
    """Bytes; none of them is faint."""
    if value_bytes == 0:
        return Cell("0", 0, "faint")
    return quantity(value_bytes, "B")


def share(value: float | None) -> Cell:
    """A share of 0 to 1 as per cent."""
    return Cell(numbers.percent(value), "" if value is None else value)


def interval(low: float | None, high: float | None, unit: str = "") -> Cell:
    """From low to high."""
    return Cell(numbers.interval(low, high, unit), "" if low is None else low)
