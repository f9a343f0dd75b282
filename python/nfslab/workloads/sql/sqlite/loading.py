"""The data set in SQLite: tables by number of row, which is the id, then the indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.workloads.sql.data import ITEMS, PARTS
from nfslab.workloads.sql.loading import SqlTables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nfslab.databases.sqlite.database import SqliteSession

REST: Final = (
    "created INTEGER NOT NULL, code INTEGER NOT NULL, grp INTEGER NOT NULL, "
    "value INTEGER NOT NULL, filler TEXT NOT NULL"
)
COPIES: Final = f"(id INTEGER NOT NULL, {REST})"
MADE: Final = (
    f"CREATE TABLE items (id INTEGER PRIMARY KEY, {REST})",
    f"CREATE TABLE copies {COPIES}",
    "CREATE TABLE parts (id INTEGER PRIMARY KEY, item INTEGER NOT NULL, weight INTEGER NOT NULL)",
)
INDEXED: Final = (
    "CREATE INDEX items_created ON items (created)",
    "CREATE INDEX items_code ON items (code)",
    "CREATE UNIQUE INDEX parts_item ON parts (item)",
)


class SqliteTables(SqlTables):
    """See `SqlTables`."""

    made: ClassVar[tuple[str, ...]] = MADE
    indexed: ClassVar[tuple[str, ...]] = INDEXED

    def load(self, server: SqliteSession) -> None:
        """Make and fill them; RunFailed."""
        for statement in self.made:
            server.rows(statement)
        _filled(server, "items", ITEMS, self.data.items_csv())
        _filled(server, "parts", PARTS, self.data.parts_csv())
        for statement in self.indexed:
            server.rows(statement)


def insert(table: str, columns: tuple[str, ...]) -> str:
    """The statement that takes a row."""
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})"


def _filled(
    session: SqliteSession, table: str, columns: tuple[str, ...], blocks: Iterable[bytes]
) -> None:
    for block in blocks:
        lines = block.decode("ascii").splitlines()
        # Columns of whole numbers take texts of such as numbers.
        session.insert(insert(table, columns), (line.split(",") for line in lines))
