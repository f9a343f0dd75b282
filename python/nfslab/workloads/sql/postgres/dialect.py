"""PostgreSQL under the workload `sql`: one session, pinned, that checks, runs and counts.

Counters are those of pg_stat_database and the log's position, read by a second connection to
another database, which is in none of them. A session hands its counts on when it is asked to
(pg_stat_force_next_flush, PostgreSQL 15); before that nobody could say when they are whole.
"""

from __future__ import annotations

import contextlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.databases.postgres.database import Load, PostgresDatabase
from nfslab.machine.availability import Availability
from nfslab.results.records import Metric
from nfslab.workloads.sql.dialect import Counts, Dialect
from nfslab.workloads.sql.postgres.loading import COPIES_COPY, PostgresTables
from nfslab.workloads.sql.postgres.plans import Intended, part_of, shown
from nfslab.workloads.sql.postgres.statements import statements
from nfslab.workloads.sql.session import PlannedSession, fetched_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.databases.base import Tables
    from nfslab.databases.postgres.database import PostgresSession
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.sql.dialect import Connected
    from nfslab.workloads.sql.parameters import SqlParameters

DATABASE: Final = "sql"
MAJOR_LEAST: Final = 15
READS_ALONE_SINCE: Final = 16
"""Before, a block by which a table grows is counted as one that was read."""
COUNTS: Final = (
    "SELECT blks_read, blks_hit, temp_bytes, "
    "pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint "
    f"FROM pg_stat_database WHERE datname = '{DATABASE}'"
)
FLUSH: Final = "SELECT pg_stat_force_next_flush()"
TOLD: Final = {  # part of an executed plan -> metric, unit, factor
    "Hash Batches": ("hash_batches", "1", 1),
    "Sort Space Used": ("sort_bytes", "B", 1024),
}
MAINTENANCE_LEAST: Final = 1 << 20
"""Of maintenance_work_mem, before PostgreSQL 17."""


class PostgresDialect(Dialect):
    """PostgreSQL 15 and later."""

    engine: ClassVar[str] = "postgres"
    title: ClassVar[str] = "PostgreSQL"

    @classmethod
    def available(cls) -> Availability:
        """Is there any PostgreSQL?"""
        return PostgresDatabase.available()

    def check(self) -> Availability:
        """The installation asked for, its version, its opinion of the settings."""
        found = self.database.check()
        if found.ok and self.database.installation.major < MAJOR_LEAST:
            return Availability(
                False,
                f"sql needs PostgreSQL {MAJOR_LEAST}: earlier ones do not say when their counters "
                "are whole",
                'set workload.postgres to "embedded", or install a later one',
            )
        return found

    @cached_property
    def database(self) -> PostgresDatabase:
        """Its PostgreSQL."""
        p = self.p
        # It would read and write beside the query.
        settings = {"autovacuum": False} | p.settings
        load = Load(1, DATABASE, DATABASE, changes=statements(p.query, p.asked).changes)
        return PostgresDatabase(p.model_copy(update={"settings": settings}), load)

    def tables(self) -> Tables:
        """The same for all queries of one size."""
        return PostgresTables(self.p.rows)

    @contextlib.contextmanager
    def connected(self, context: RunContext) -> Iterator[Connected]:
        """The query's session, and one that reads the counters."""
        with self.database.session() as session, self.database.session("postgres") as watching:
            server = self.database.server()
            whole = server.deployment.installation.major >= READS_ALONE_SINCE
            yield PostgresConnected(session, watching, server.process.pid, self.p, whole)


class PostgresConnected(PlannedSession[Intended]):
    """See the module's text."""

    copy_text: ClassVar[str] = COPIES_COPY
    _session: PostgresSession

    def __init__(
        self,
        session: PostgresSession,
        watching: PostgresSession,
        pid: int,
        p: SqlParameters,
        reads_alone: bool,
    ) -> None:
        self._watching, self._pid = watching, pid
        run = statements(p.query, p.asked)
        self._reads_told = reads_alone or not run.grows
        memory = {
            "work_mem": f"{p.work_mem >> 10}kB",
            "maintenance_work_mem": f"{max(p.work_mem, MAINTENANCE_LEAST) >> 10}kB",
        }
        pins = {"application_name": DATABASE} | memory | run.pins()
        pinning = [f"SET {name} = '{value}'" for name, value in pins.items()]
        super().__init__(session, p.query, run, pinning)
        self._blocks = list(p.asked.data.items_csv(p.asked.copied)) if run.copies else []

    def copy_in(self) -> None:
        """COPY of the blocks."""
        self._session.copy_in(COPIES_COPY, self._blocks)

    def counts(self) -> Counts:
        """Of the whole database, the server's log, its processes."""
        self._session.rows(FLUSH)
        read, hit, temporary, log = self._watching.rows(COUNTS)[0]
        block = int(self._watching.rows("SHOW block_size")[0][0])
        reads = read * block if self._reads_told else None
        return Counts(reads, hit * block, temporary, log, fetched_bytes(self._pid))

    def did(self, intended: Intended) -> str:
        """The facts."""
        facts = [f"{part} = {value}" for _, part, value in intended.facts]
        return f" ({', '.join(facts)})" if facts else ""

    def sizes(self) -> dict[str, int]:
        """As PostgreSQL tells them."""
        found = self._session.rows(
            "SELECT pg_relation_size('items'), pg_database_size(current_database())"
        )[0]
        return {"items": int(found[0]), "database": int(found[1])}

    def explained(
        self, text: str, intended: Intended, *, execute: bool = True
    ) -> dict[str, Metric]:
        """By EXPLAIN; see `PlannedSession`."""
        execute = execute and intended.executed
        options = "ANALYZE, TIMING OFF, " if execute else ""
        found: Any = self._session.rows(f"EXPLAIN ({options}FORMAT JSON) {text}")[0][0]
        plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
        wrong = intended.missing(plan)
        if not wrong and execute:
            wrong = intended.unproven(plan)
        if wrong:
            fix = "see whether a setting in [workload.settings], work_mem or share forbids it"
            raise self.other_plan("PostgreSQL", wrong, shown(plan), fix)
        metrics = {}
        for kind, part in intended.told:
            name, unit, factor = TOLD[part]
            value = part_of(plan, kind, part)
            if isinstance(value, int):
                metrics[name] = Metric(value=value * factor, unit=unit)
        return metrics
