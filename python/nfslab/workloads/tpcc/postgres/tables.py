"""The nine tables, filled by COPY over several connections, with keys and procedures; checked."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.databases.postgres.database import PostgresSession
from nfslab.errors import RunFailed
from nfslab.workloads.tpcc import conditions, rows
from nfslab.workloads.tpcc.postgres.scripts import SQL, definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nfslab.databases.postgres.server import Server


@dataclass(frozen=True, slots=True)
class TpccTables:
    """Of so many warehouses; a warehouse has some 500,000 rows."""

    warehouses: int
    seed: int = 1

    def record(self) -> dict[str, Any]:
        """Everything that determines the tables, what makes the rows included."""
        made_by = hashlib.sha256(Path(rows.__file__).read_bytes()).hexdigest()
        return {"tables": "tpcc", "rows": made_by, "definition": definition()} | asdict(self)

    def load(self, server: Server) -> None:
        """Make and fill them; RunFailed, also when a condition of clause 3.3.2 does not hold."""
        import psycopg

        def fill(table: str, warehouse: int) -> None:
            server.deployment.remaining_s()
            lines = rows.csv(table, warehouse, self.seed)
            with (
                server.connect() as connection,
                connection.cursor() as cursor,
                cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy,
            ):
                copy.write(lines)

        def run(statement: str) -> None:
            server.deployment.remaining_s()
            with server.connect() as connection:
                connection.execute(statement)

        parts = [
            (table, warehouse)
            for warehouse in range(1, self.warehouses + 1)
            for table in rows.TABLES
            if table != "item"
        ]
        try:
            run(_text("schema.sql"))
            parts = [("item", 0), *parts]
            _side_by_side(
                [partial(fill, *part) for part in parts],
                lambda done: server.deployment.say(f"load: {done} of {len(parts)} parts of tables"),
            )
            server.deployment.say("load: keys")
            lines = _text("keys.sql").splitlines()
            keys = [line for line in lines if line and not line.startswith("--")]
            _side_by_side([partial(run, key) for key in keys])
            run(_text("procedures.sql"))
            with server.connect() as connection:
                connection.execute("ANALYZE")
                session = PostgresSession(server, connection)
                found = conditions.violations(session, "postgres", loaded=True)
        except psycopg.Error as error:
            raise RunFailed(
                "the tables of the workload tpcc could not be loaded",
                why=str(error).strip(),
                fix="see logs/load.log of the run",
            ) from error
        conditions.require(found)


def _side_by_side(
    tasks: Iterable[Callable[[], None]], ended: Callable[[int], None] = lambda _count: None
) -> None:
    """As many at a time as there are processors; the first error is raised."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for count, done in enumerate([pool.submit(task) for task in tasks], 1):
            try:
                done.result()
                ended(count)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _text(name: str) -> str:
    return (SQL / name).read_text(encoding="utf-8")
