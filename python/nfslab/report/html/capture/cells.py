"""Tables of the page as the template takes them: columns, and cells with a text and a sort key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfslab.report.html import wording

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell; `value` is what sorting compares (the text when it is None)."""

    text: str
    value: float | int | str | None = None
    style: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading."""

    title: str
    numeric: bool = True
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its caption."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    open: bool = True
    anchor: str = ""


def text(value: object, style: str = "", hint: str = "") -> Cell:
    """A word."""
    return Cell(wording.ABSENT if value in (None, "") else str(value), None, style, hint)


def count(value: int | None, style: str = "") -> Cell:
    """A whole number; zero is faint, so that what is there stands out."""
    if value is None:
        return Cell(wording.ABSENT, "")
    return Cell(f"{value:,}", value, style if value else "ok")


def latency(value_ns: float | None) -> Cell:
    """A time in nanoseconds."""
    return Cell(wording.quantity(value_ns, "ns"), "" if value_ns is None else value_ns)


def quantity(value: float | None, unit: str) -> Cell:
    """A value in its unit."""
    return Cell(wording.quantity(value, unit), "" if value is None else value)


def size(value_bytes: float | None) -> Cell:
    """Bytes."""
    if value_bytes is None:
        return Cell(wording.ABSENT, "")
    if not value_bytes:
        return Cell("0", 0, "ok")
    return Cell(wording.quantity(value_bytes, "B"), value_bytes)


def share(value: float | None) -> Cell:
    """A share as per cent."""
    if value is None:
        return Cell(wording.ABSENT, "")
    return Cell(f"{wording.plain(value * 100)} %", value)


def instant(value_s: float | None) -> Cell:
    """Seconds since the first packet."""
    return Cell(wording.ABSENT, "") if value_s is None else Cell(f"{value_s:.6f}", value_s)
