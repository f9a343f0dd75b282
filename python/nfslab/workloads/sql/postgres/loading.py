"""The data set in PostgreSQL: tables by COPY in the order of their ids, then the indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.databases.postgres.database import PostgresSession
from nfslab.workloads.sql.data import ITEMS, PARTS
from nfslab.workloads.sql.loading import SqlTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nfslab.databases.postgres.server import Server

COLUMNS: Final = (
    "id int NOT NULL, created int NOT NULL, code int NOT NULL, grp int NOT NULL, "
    "value int NOT NULL, filler text NOT NULL"
)
MADE: Final = (
    f"CREATE TABLE items ({COLUMNS})",
    f"CREATE TABLE copies ({COLUMNS})",
    "CREATE TABLE parts (id int NOT NULL, item int NOT NULL, weight int NOT NULL)",
)
INDEXED: Final = (
    "ALTER TABLE items ADD CONSTRAINT items_pkey PRIMARY KEY (id)",
    "CREATE INDEX items_created ON items (created)",
    "CREATE INDEX items_code ON items (code)",
    "ALTER TABLE parts ADD CONSTRAINT parts_pkey PRIMARY KEY (id)",
    "CREATE UNIQUE INDEX parts_item ON parts (item)",
)
ITEMS_COPY: Final = f"COPY items ({', '.join(ITEMS)}) FROM STDIN (FORMAT csv)"
COPIES_COPY: Final = f"COPY copies ({', '.join(ITEMS)}) FROM STDIN (FORMAT csv)"
PARTS_COPY: Final = f"COPY parts ({', '.join(PARTS)}) FROM STDIN (FORMAT csv)"


class PostgresTables(SqlTables):
    """See `SqlTables`."""

    made: ClassVar[tuple[str, ...]] = MADE
    indexed: ClassVar[tuple[str, ...]] = INDEXED

    def load(self, server: Server) -> None:
        """Make and fill them; RunFailed."""

        def timely(blocks: Iterable[bytes]) -> Iterator[bytes]:
            for block in blocks:
                server.deployment.remaining_s()
                yield block

        with server.connect() as connection:
            session = PostgresSession(server, connection)
            session.rows("SET max_parallel_maintenance_workers = 0")
            for statement in self.made:
                session.rows(statement)
            # One connection: rows lie in the order of their ids.
            session.copy_in(ITEMS_COPY, timely(self.data.items_csv()))
            session.copy_in(PARTS_COPY, timely(self.data.parts_csv()))
            for statement in self.indexed:
                server.deployment.remaining_s()
                session.rows(statement)
