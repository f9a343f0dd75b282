"""Sections and tables as plain text, for a terminal.

Other programs' words are in the texts: what would steer a terminal is taken out of them. Figures
are not drawn: what they say stands in sentences and tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.display.called import as_called
from nfslab.display.numbers import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.display.sections import Section, Table

MAX_CELL: Final = 80
"""Characters of one cell; longer texts are cut with an ellipsis."""


def section_lines(section: Section, heading: Callable[[str], str] = str) -> list[str]:
    """Title, sentences, tables, notes, problems, then the parts in the same way."""
    lines = [heading(printable(section.title))] if section.title else []
    lines += [as_called(printable(text)) for text in section.sentences]
    for one in section.tables:
        lines += ["", heading(printable(one.title)), table_text(one)]
        lines += [printable(one.note)] if one.note else []
    last = [as_called(printable(text)) for text in (*section.notes, *section.problems)]
    lines += ["", *last] if last and section.tables else last
    for part in section.parts:
        lines += ["", *section_lines(part, heading)]
    return lines


def table_text(one: Table) -> str:
    """A table of cells, aligned; columns that are empty throughout are left out."""
    kept = shown_columns(one)
    header = [one.columns[i].title for i in kept]
    rows = [[row[i].text for i in kept] for row in one.rows]
    return table(header, rows, right=[k for k, i in enumerate(kept) if one.columns[i].numeric])


def shown_columns(one: Table) -> list[int]:
    """The first column and those in which any row has something."""
    nothing = ("", ABSENT, "0")
    return [
        i
        for i in range(len(one.columns))
        if i == 0 or any(row[i].text not in nothing for row in one.rows)
    ]


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> str:
    """An aligned table; columns in `right` are aligned to the right."""
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
    """The text without what would steer a terminal."""
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
