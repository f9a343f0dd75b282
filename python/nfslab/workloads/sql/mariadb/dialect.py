"""MariaDB under the workload `sql`: one session, its plan pinned by hints, counters of InnoDB.

Counters are those of SHOW GLOBAL STATUS: of the whole server, read by a second connection. What
its threads do beside the query (purge, writing of pages) is in them; statistics of tables are not
made anew by themselves.
"""

from __future__ import annotations

import contextlib
import json
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.databases.mariadb.database import (
    MariadbDatabase,
    MariadbOptions,
    MariadbSession,
    RowsInMemory,
)
from nfslab.machine.availability import Availability
from nfslab.results.records import Metric
from nfslab.workloads.sql.dialect import Counts, Dialect
from nfslab.workloads.sql.mariadb.loading import COPIES_LOAD, MariadbTables
from nfslab.workloads.sql.mariadb.plans import Intended, part_of, shown
from nfslab.workloads.sql.mariadb.statements import HASH_JOIN, PINNED, STATEMENTS
from nfslab.workloads.sql.queries import WRITING
from nfslab.workloads.sql.session import PlannedSession, fetched_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nfslab.databases.base import Tables
    from nfslab.databases.shared.settings import SettingValue
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.sql.dialect import Connected
    from nfslab.workloads.sql.parameters import SqlParameters

DATABASE: Final = "sql"
OLDEST: Final = (10, 6)
"""First with JSON_TABLE."""
INDEX_MEMORY: Final = (64 << 10, 64 << 20)
"""What innodb_sort_buffer_size may be."""
COUNTERS: Final = (
    "page_size", "pages_read", "buffer_pool_read_requests", "buffer_pool_read_ahead",
    "buffer_pool_read_ahead_rnd", "lsn_current",
)  # fmt: skip
FILES: Final = ("Created_tmp_files", "Created_tmp_disk_tables")
SIZES: Final = (
    "SELECT sum(if(TABLE_NAME = 'items', DATA_LENGTH, 0)), sum(DATA_LENGTH + INDEX_LENGTH) "
    f"FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{DATABASE}'"
)


class MariadbDialect(Dialect):
    """MariaDB 10.6 and later; tables in InnoDB."""

    engine: ClassVar[str] = "mariadb"
    title: ClassVar[str] = "MariaDB"
    lacking: ClassVar[Mapping[str, str]] = {
        "merge_join": "it has no merge join",
        "checkpoint": "it has no statement that makes InnoDB's checkpoint and waits for it",
    }

    @classmethod
    def available(cls) -> Availability:
        """Is there any MariaDB?"""
        return MariadbDatabase(MariadbOptions(1, DATABASE)).check()

    def check(self) -> Availability:
        """The installation, its version, its opinion of the settings."""
        found = self.database.check()
        if found.ok:
            version = self.database.installation.numbers
            if version < OLDEST:
                return Availability(
                    False,
                    f"sql needs MariaDB 10.6 (JSON_TABLE), not {version[0]}.{version[1]}",
                    "install a later one",
                )
        return found

    @cached_property
    def database(self) -> MariadbDatabase:
        """Its MariaDB."""
        p = self.p
        least, most = INDEX_MEMORY
        settings: dict[str, SettingValue] = {
            # It would read and write beside the query.
            "innodb_stats_auto_recalc": False,
            # To make an index; it can be set at the start alone.
            "innodb_sort_buffer_size": min(max(p.work_mem, least), most),
        }
        changes = STATEMENTS[p.query](p.asked).changes
        return MariadbDatabase(
            MariadbOptions(1, DATABASE, p.load, settings | p.mariadb, changes, True)
        )

    def tables(self) -> Tables:
        """The same for all queries of one size."""
        return MariadbTables(self.p.rows)

    @contextlib.contextmanager
    def connected(self, context: RunContext) -> Iterator[Connected]:
        """The query's session."""
        with self.database.session() as session, contextlib.ExitStack() as stack:
            made = MariadbConnected(session, self.database, self.p)
            stack.callback(made.forget)
            yield made


class MariadbConnected(PlannedSession[Intended]):
    """See the module's text."""

    copy_text: ClassVar[str] = COPIES_LOAD
    _session: MariadbSession

    def __init__(
        self, session: MariadbSession, database: MariadbDatabase, p: SqlParameters
    ) -> None:
        self._database = database
        self._cold = p.cache == "cold"
        memory = {
            "sort_buffer_size": p.work_mem,
            "join_buffer_size": p.work_mem,
            "join_buffer_space_limit": 2 * p.work_mem,
        }
        pins = PINNED | (HASH_JOIN if p.query == "hash_join" else {})
        pinning = [f"SET SESSION {name} = {value}" for name, value in (memory | pins).items()]
        run = STATEMENTS[p.query](p.asked)
        super().__init__(session, p.query, run, pinning)
        self._rows = RowsInMemory(p.asked.data.items_csv(p.asked.copied)) if run.copies else None

    def forget(self) -> None:
        """What is held in memory."""
        if self._rows is not None:
            self._rows.close()

    def check_plan(self) -> None:
        """But for a cold range, which is compared behind the timed part alone: to plan it InnoDB
        looks at its pages, which would be in the buffers then."""
        plan = self._run.plan
        if not (self._cold and plan and any(one.startswith("range ") for one in plan.scans)):
            super().check_plan()

    def copy_in(self) -> None:
        """LOAD DATA LOCAL."""
        assert self._rows is not None
        self._session.load_data(COPIES_LOAD, self._rows)

    def counts(self) -> Counts:
        """Of the whole server. It counts its temporary files, but not their bytes.

        Pages read are those of its own read-ahead, too. Who asks for one that was read ahead finds
        it in the buffers.
        """
        server = self._database.server()
        status = server.variables("STATUS")
        page, read, asked, *ahead, log = (int(status[f"Innodb_{name}"]) for name in COUNTERS)
        return Counts(
            read=read * page,
            hit=(asked - (read - sum(ahead))) * page,
            log=log,
            fetched=fetched_bytes(server.process.pid),
            # Those of InnoDB, to make an index, are not among them.
            files=None if self._query in WRITING else sum(int(status[name]) for name in FILES),
        )

    def sizes(self) -> dict[str, int]:
        """As InnoDB tells them: of `items` the rows (the clustered index), by its statistics."""
        items, database = self._session.rows(SIZES)[0]
        return {"items": int(items), "database": int(database)}

    def explained(
        self, text: str, intended: Intended, *, execute: bool = True
    ) -> dict[str, Metric]:
        """By EXPLAIN or ANALYZE; see `PlannedSession`."""
        execute = execute and intended.executed
        if execute:
            for statement in self._run.first:
                self._session.rows(statement)
        how = "ANALYZE FORMAT=JSON" if execute else "EXPLAIN FORMAT=JSON"
        plan = json.loads(self._session.rows(f"{how} {text}")[0][0])
        wrong = intended.missing(plan)
        if not wrong and execute:
            wrong = intended.unproven(plan)
        if wrong:
            fix = "see whether a setting in [workload.mariadb], work_mem or share forbids it"
            raise self.other_plan("MariaDB", wrong, shown(plan), fix)
        if not execute:
            return {}
        return {
            metric: Metric(value=float(part_of(plan, step, part)), unit="1")
            for step, part, metric in intended.told
        }
