"""The data set in PostgreSQL: tables by COPY in the order of their ids, then the indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.postgres.database import PostgresSession
from nfslab.workloads.sql.data import ITEMS, PARTS, Data, definition

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


@dataclass(frozen=True, slots=True)
class PostgresTables:
    """`items` with so many rows, `parts`, and the empty `copies`."""

    rows: int

    def record(self) -> dict[str, Any]:
        """Everything that determines them."""
        return {"tables": "sql", "rows": self.rows, "definition": definition(),
                "made": [*MADE, *INDEXED]}  # fmt: skip

    def load(self, server: Server) -> None:
        """Make and fill them; RunFailed."""
        data = Data(self.rows)

        def timely(blocks: Iterable[bytes]) -> Iterator[bytes]:
            for block in blocks:
                server.deployment.remaining_s()
                yield block

        with server.connect() as connection:
            session = PostgresSession(server, connection)
            session.rows("SET max_parallel_maintenance_workers = 0")
            for statement in MADE:
                session.rows(statement)
            # One connection: rows lie in the order of their ids.
            session.copy_in(ITEMS_COPY, timely(data.items_csv()))
            session.copy_in(PARTS_COPY, timely(data.parts_csv()))
            for statement in INDEXED:
                server.deployment.remaining_s()
                session.rows(statement)
