"""The data set in MariaDB: tables that are kept in the order of their ids, rows in that order."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.workloads.sql.data import FILLER, ITEMS, PARTS
from nfslab.workloads.sql.loading import SqlTables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nfslab.databases.mariadb.database import MariadbSession

COLUMNS: Final = (
    "id int NOT NULL, created int NOT NULL, code int NOT NULL, grp int NOT NULL, "
    f"value int NOT NULL, filler varchar({FILLER}) NOT NULL"
)
MADE: Final = (
    f"CREATE TABLE items ({COLUMNS}, PRIMARY KEY (id))",
    f"CREATE TABLE copies ({COLUMNS})",
    "CREATE TABLE parts (id int NOT NULL, item int NOT NULL, weight int NOT NULL, "
    "PRIMARY KEY (id))",
)
INDEXED: Final = (
    "CREATE INDEX items_created ON items (created)",
    "CREATE INDEX items_code ON items (code)",
    "CREATE UNIQUE INDEX parts_item ON parts (item)",
    "ANALYZE TABLE items, parts",
)


def taken(table: str, columns: tuple[str, ...]) -> str:
    """Of LOAD DATA, all behind INTO TABLE."""
    return f"{table} CHARACTER SET latin1 FIELDS TERMINATED BY ',' ({', '.join(columns)})"


COPIES_LOAD: Final = f"LOAD DATA LOCAL INFILE {{file}} INTO TABLE {taken('copies', ITEMS)}"


class MariadbTables(SqlTables):
    """See `SqlTables`."""

    made: ClassVar[tuple[str, ...]] = MADE
    indexed: ClassVar[tuple[str, ...]] = INDEXED

    def load(self, server: MariadbSession) -> None:
        """Make and fill them; RunFailed."""
        for statement in self.made:
            server.rows(statement)
        _filled(server, taken("items", ITEMS), self.data.items_csv())
        _filled(server, taken("parts", PARTS), self.data.parts_csv())
        for statement in self.indexed:
            server.rows(statement)


def _filled(session: MariadbSession, into: str, blocks: Iterable[bytes]) -> None:
    for block in blocks:
        session.load_lines(into, block)
