"""A section of a report as data: sentences, tables, figures, notes. Every output shows the same.

A kind of evidence, and a report's own parts, hand over sections; HTML, Markdown, JSON and
`nfslab show` each know how to write one, and nothing of what is in it. Text is plain: each output
escapes it. Cells keep the value beside the text, for sorting and for JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nfslab.display.figures import Figure

    R = TypeVar("R")
    Shown = (
        tuple["Column", Callable[[R], "Cell"]]
        | tuple["Sequence[Column]", Callable[[R], "Sequence[Cell]"]]
    )
    """A column with what makes its cell of an item; or several columns with their cells."""

Tone = Literal["", "faint", "good", "warning", "severe"]
"""What a cell or a note looks like where colours are; the words say the same."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, and what sorting compares (None: the text)."""

    text: str
    value: float | int | str | None = None
    tone: Tone = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading; numbers stand at the right."""

    title: str
    numeric: bool = True
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Every row has one cell a column."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    open: bool = True
    """False: a page shows it when it is asked for."""
    anchor: str = ""
    look: tuple[int, str] | None = None
    """(column, figure id): a page lets a reader zoom that figure to the row's `value` there,
    which is "from..to" in the unit of the figure's x axis."""

    @classmethod
    def of(cls, title: str, items: Iterable[R], columns: Sequence[Shown[R]], **more: Any) -> Table:
        """A row an item; each heading stands with its cells: they cannot be mixed up."""
        return cls(title, headings(columns), [row_of(columns, item) for item in items], **more)


def headings(columns: Sequence[Shown[R]]) -> list[Column]:
    """Those of a table whose columns are stated with their cells."""
    heads = [[head] if isinstance(head, Column) else head for head, _ in columns]
    return [one for some in heads for one in some]


def row_of(columns: Sequence[Shown[R]], item: R) -> list[Cell]:
    """The cells of an item below them."""
    made = [make(item) for _, make in columns]
    return [one for some in made for one in ([some] if isinstance(some, Cell) else some)]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what belongs below it, in this order."""

    title: str
    anchor: str = ""
    """Name of the place in a page; empty: none."""
    intro: str = ""
    """What was watched and how: one or two sentences, for who does not know the evidence."""
    sentences: Sequence[str] = ()
    """What follows from the evidence, the most important first."""
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    """What limits the above."""
    problems: Sequence[str] = ()
    """What could not be read, and why."""
    parts: Sequence[Section] = field(default=())
    """Parts by run, point or file; a page folds them away, except the first."""

    @property
    def empty(self) -> bool:
        """Nothing to show, not even a problem."""
        held = (self.sentences, self.tables, self.figures, self.notes, self.problems, self.parts)
        return not any(held)
