"""Texts of queries that differ between engines by no more than a hint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.workloads.sql.queries import DELETED

if TYPE_CHECKING:
    from nfslab.workloads.sql.queries import Asked


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


COPIED: Final = "SELECT count(*), sum(value) FROM copies"
MADE_INDEX: Final = "CREATE INDEX items_made ON items (code, value)"


def deleted(rest: int) -> str:
    """One row in DELETED."""
    return f"DELETE FROM items WHERE id % {DELETED} = {rest}"


def keys(asked: Asked) -> str:
    """The ids that are looked up."""
    return ",".join(map(str, asked.keys.tolist()))
