"""Numbers and tables for people, as plain text: the terminal and Markdown.

A figure is shown with as many digits as its interval supports, four at most when nothing
is known of it; SI prefixes are left to the reader except for bytes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nfslab.statistics.verdicts import NO_DIFFERENCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.statistics.comparison import Comparison

ABSENT = "-"
NS_PER_MS = 1e6
MAX_CELL = 80
"""Characters of one cell of a terminal table; longer texts are cut with an ellipsis."""

_BYTES = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def number(value: float | None, digits: int = 4) -> str:
    """A number with that many significant digits, without an exponent where it is readable."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    if value == 0:
        return "0"
    size = abs(value)
    if not 1e-4 <= size < 1e15:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    rounded = f"{value:.{decimals}f}"
    if size >= 10**digits:
        return f"{value:.0f}"
    return rounded


def quantity(value: float | None, unit: str) -> str:
    """A value with its unit: "123.4 1/s" is "123.4/s", bytes get binary prefixes."""
    if value is None:
        return ABSENT
    if unit in ("bytes", "bytes/s", "B", "B/s") and math.isfinite(value):
        per = "/s" if unit.endswith("/s") else ""
        for factor, prefix in _BYTES:
            if abs(value) >= factor:
                return f"{number(value / factor)} {prefix}B{per}"
        return f"{number(value)} B{per}"
    if unit in ("", "1"):
        return number(value)
    if unit.startswith("1/"):
        return f"{number(value)}{unit[1:]}"
    return f"{number(value)} {unit}"


def percent(share: float | None) -> str:
    """A share with as many digits as a reader can use."""
    if share is None:
        return ABSENT
    value = share * 100
    return f"{value:.0f} %" if abs(value) >= 9.95 else f"{value:.1f} %"


def milliseconds(time_ns: float) -> str:
    """A time that is mostly around a millisecond."""
    return f"{number(time_ns / NS_PER_MS, 3)} ms"


def count(n: int, noun: str) -> str:
    """Such as: 1 run, 2 runs."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def between(low: float | None, high: float | None, unit: str = "") -> str:
    """Such as 118.2 to 126.0; absent when there is no interval."""
    if low is None or high is None:
        return ABSENT
    return f"{quantity(low, unit)} to {quantity(high, unit)}"


def ratio(value: float | None) -> str:
    """A ratio with three digits behind the point near 1, fewer far from it."""
    if value is None:
        return ABSENT
    if not math.isfinite(value):
        return "unbounded" if value > 0 else "NaN"
    return f"{value:.3f}" if 0.1 <= value < 10 else number(value, 3)


def p_value(p: float | None) -> str:
    """A p-value with two digits; below 0.0001 as a power."""
    if p is None:
        return ABSENT
    return f"{p:.2g}" if p >= 1e-4 or p == 0 else f"{p:.0e}"


def change(result: Comparison) -> str:
    """The change from base to new: "1.24 times", or a difference where there is no ratio."""
    if result.ratio is not None:
        return f"{ratio(result.ratio)} times"
    return ABSENT if result.difference is None else f"{result.difference:+.4g}"


def change_interval(result: Comparison) -> str:
    """Its interval at the level at which it was judged; absent where there is none."""
    if result.interval is None:
        return ABSENT
    low, high = result.interval.low, result.interval.high
    if result.ratio is not None:
        return f"{ratio(low)} to {ratio(high)}"
    return f"{low:+.4g} to {high:+.4g}"


def words(result: Comparison) -> str:
    """The verdict's words; with "no difference shown" what would have been shown."""
    smallest = result.smallest_detectable
    if result.verdict != NO_DIFFERENCE or smallest is None or not math.isfinite(smallest):
        return result.verdict
    if result.ratio is None:
        size = f"a change of {number(smallest, 3)}"
    elif smallest < 1.995:
        size = f"a change of {number((smallest - 1) * 100, 2)} %"
    else:
        size = f"a factor of {number(smallest, 2)}"
    return f"{result.verdict} ({size} would have been, 4 times in 5)"


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    """An aligned table for the terminal; columns in `right` are aligned to the right."""
    cells = [list(header), *[[_cut(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        aligned = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def _cut(cell: str) -> str:
    """One line that fits a cell."""
    if not cell.isprintable():
        cell = printable(" ".join(cell.split()))
    return cell if len(cell) <= MAX_CELL else f"{cell[: MAX_CELL - 1]}…"


def printable(text: str) -> str:
    """The text without what would steer a terminal: other programs' words are in it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def date(unix_ns: int) -> str:
    """Minutes of UTC: two people who compare results may not share a time zone."""
    from datetime import UTC, datetime

    try:
        return datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%MZ")
    except (OverflowError, OSError, ValueError):
        return f"{unix_ns} ns"
