"""What a query is made of on any engine, and the texts that differ by no more than a hint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from nfslab.workloads.sql.queries import Asked

P = TypeVar("P")
"""How an engine describes an intended plan."""


@dataclass(frozen=True, kw_only=True)
class Statements(Generic[P]):
    """A query as it is run."""

    text: str = ""
    """What is timed."""
    plan: P | None = None
    """None: it is no query that has one."""
    first: tuple[str, ...] = ()
    """Within each execution, before `text`."""
    then: str = ""
    """Within each execution, behind it: what yields its answer; empty: it does itself."""
    before: tuple[str, ...] = ()
    """Before it is executed, not timed."""
    undo: tuple[str, ...] = ()
    answer: str = ""
    """What yields the answer behind it, not timed; empty: it does itself."""
    answer_plan: P | None = None
    changes: tuple[str, ...] = ()
    """Done on the loaded database before the run's session begins."""
    copies: bool = False
    """It takes rows that the client has in memory."""
    mark: str = ""
    """Asked before it is executed; `proof` may name what that yielded {mark}."""
    proof: str = ""
    """Asked behind it: its value is true where the query did what it is there for."""


def scan(where: str = "", hint: str = "") -> str:
    """Of rows of `items`."""
    return f"SELECT count(*), sum(value) FROM items{hint}{where}"


def within(column: str, asked: Asked) -> str:
    """The range of a column."""
    low, high = asked.span
    return f" WHERE {column} >= {low} AND {column} < {high}"


def update(asked: Asked, sign: str = "+", hint: str = "") -> str:
    """Of the range by primary key: each `code` moved by the number of rows."""
    return f"UPDATE items{hint} SET code = code {sign} {asked.rows}{within('id', asked)}"


def updated(asked: Asked) -> str:
    """What an update left."""
    return f"SELECT count(*), sum(code) FROM items WHERE code >= {asked.rows}"


def joined(tables: str) -> str:
    """`items` and `parts`, in this order and way."""
    return f"SELECT count(*), sum(items.value + parts.weight) FROM {tables}"


def covered(hint: str = "") -> str:
    """What an index on `created` has."""
    return f"SELECT count(created), sum(created) FROM items{hint}"


def grouped(hint: str = "") -> str:
    """All rows in their groups."""
    return f"SELECT grp, count(*), sum(value) FROM items{hint} GROUP BY grp"


def of_index(hint: str = "") -> str:
    """What the index that was made has, and nothing else."""
    return f"SELECT count(value), sum(code) FROM items{hint} WHERE code >= 0"


def kept(hint: str = "") -> str:
    """What is left of a table of which rows were deleted."""
    return f"SELECT count(id), sum(id) FROM items{hint} WHERE id >= 0"


def numbered(items: str) -> str:
    """All rows sorted, each with its place."""
    return (
        "SELECT count(*), count(*) FILTER (WHERE place <> code + 1), sum(length(filler)) FROM "
        f"(SELECT code, filler, row_number() OVER (ORDER BY code) AS place FROM {items}) AS sorted"
    )


COPIED = "SELECT count(*), sum(value) FROM copies"
MADE_INDEX = "CREATE INDEX items_made ON items (code, value)"


def deleted(tenth: int, of: int) -> str:
    """One row in so many."""
    return f"DELETE FROM items WHERE id % {of} = {tenth}"
