"""Cells of tables: the text by `display.numbers`, and the value that sorting and JSON compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.display import numbers
from nfslab.display.sections import Cell

if TYPE_CHECKING:
    from nfslab.display.sections import Tone

NOTHING = Cell(numbers.ABSENT, "")


def text(value: object, tone: Tone = "", hint: str = "") -> Cell:
    """A word."""
    return Cell(numbers.ABSENT if value in (None, "") else str(value), None, tone, hint)


def count(value: int | None, tone: Tone = "", hint: str = "") -> Cell:
    """A whole number; zero is faint, so that what is there stands out."""
    if value is None:
        return NOTHING
    return Cell(numbers.count(value), value, tone if value else "faint", hint)


def quantity(value: float | None, unit: str, tone: Tone = "", hint: str = "") -> Cell:
    """A value in its unit."""
    if value is None:
        return NOTHING
    return Cell(numbers.quantity(value, unit), value, tone, hint)


def latency(value_ns: float | None) -> Cell:
    """A time in nanoseconds."""
    return quantity(value_ns, "ns")


def size(value_bytes: float | None) -> Cell:
    """Bytes; none are faint."""
    return quantity(value_bytes, "B", "" if value_bytes else "faint")


def share(value: float | None) -> Cell:
    """A share of 0 to 1 as per cent."""
    return NOTHING if value is None else Cell(numbers.percent(value), value)


def interval(low: float | None, high: float | None, unit: str = "") -> Cell:
    """From low to high."""
    return NOTHING if low is None else Cell(numbers.interval(low, high, unit), low)
