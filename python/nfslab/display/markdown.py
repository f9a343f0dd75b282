"""Sections and tables as Markdown, to paste into a ticket.

Everything is escaped here: texts that come from outside must not become links, HTML or table
borders in somebody's tracker. Trackers cut off long posts, so lists and tables are bounded; what
is cut is counted. Parts (single runs) give their sentences; their tables are in the page.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from nfslab.display.numbers import counted
from nfslab.display.terminal import shown_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.display.sections import Section, Table

ROWS_MOST: Final = 60
LINES_MOST: Final = 20
MAX_TEXT: Final = 400
"""Characters of one text."""
_SPECIAL: Final = re.compile(r"([\\`*_{}\[\]<>#|~@&])")


def section_text(section: Section) -> str:
    """Title, sentences, tables, then what limits them."""
    said = [*section.sentences]
    for part in section.parts:
        said += [f"{part.title}: {text}" for text in (*part.sentences, *part.problems)]
    blocks = [f"**{escape(section.title)}**", listed(said, ROWS_MOST)]
    blocks += [table_text(one) for one in section.tables]
    notes = [*section.notes, *section.problems]
    notes += [f"{part.title}: {text}" for part in section.parts for text in part.notes]
    blocks.append(listed(list(dict.fromkeys(notes)), LINES_MOST))
    return "\n\n".join(block for block in blocks if block)


def table_text(one: Table) -> str:
    """Its title, rows, and note; empty columns are left out."""
    kept = shown_columns(one)
    rows = [[row[i].text for i in kept] for row in one.rows]
    made = table([one.columns[i].title for i in kept], rows[:ROWS_MOST])
    blocks = [f"{escape(one.title)}:", made]
    if len(rows) > ROWS_MOST:
        blocks.append(f"{counted(len(rows) - ROWS_MOST, 'more row')}: `nfslab report` has them.")
    if one.note:
        blocks.append(escape(one.note))
    return "\n\n".join(blocks)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Texts as a table."""
    lines = [_row(header), "|" + "---|" * len(header)]
    return "\n".join([*lines, *map(_row, rows)])


def listed(texts: Sequence[str], most: int = LINES_MOST) -> str:
    """Texts as a list; what is cut is counted."""
    lines = [f"- {escape(text)}" for text in texts[:most]]
    lines += [f"- and {len(texts) - most} more"] if len(texts) > most else []
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(escape, cells)) + " |"


def escape(text: Any) -> str:
    """The text on one line, with everything harmless that Markdown would interpret."""
    one_line = " ".join(str(text).split())
    cut = one_line if len(one_line) <= MAX_TEXT else f"{one_line[: MAX_TEXT - 1]}…"
    return _SPECIAL.sub(r"\\\1", cut)


def code(text: Any) -> str:
    """The text as a code span, with as many backticks as it needs; `|` kept for tables."""
    one_line = " ".join(str(text).split()) or " "
    longest = max((len(run) for run in re.findall(r"`+", one_line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if one_line.startswith("`") or one_line.endswith("`") else ""
    return f"{fence}{pad}{one_line}{pad}{fence}".replace("|", "\\|")
