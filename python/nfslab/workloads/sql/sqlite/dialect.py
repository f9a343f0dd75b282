"""SQLite under the workload `sql`: a library, so that a process of ours is the database.

Counters are those of the connection (sqlite3_db_status): a page that it had not in its cache is one
that it read from its file, or its log. What a query that may write nothing wrote all the same is
temporary: its process has no other files.
"""

from __future__ import annotations

import contextlib
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.databases.sqlite.database import SqliteDatabase, SqliteOptions, library_version
from nfslab.databases.sqlite.settings import log_problem
from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.results.records import Metric
from nfslab.workloads.sql.data import ITEMS
from nfslab.workloads.sql.dialect import Counts, Dialect, Proof
from nfslab.workloads.sql.queries import WRITING
from nfslab.workloads.sql.session import PlannedSession
from nfslab.workloads.sql.sqlite.loading import COPIES, SqliteTables, insert
from nfslab.workloads.sql.sqlite.plans import Intended, lines_of, shown
from nfslab.workloads.sql.sqlite.statements import COPY, STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from nfslab.databases.base import Tables
    from nfslab.databases.sqlite.process import SqliteProcess
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.sql.dialect import Connected
    from nfslab.workloads.sql.parameters import SqlParameters
    from nfslab.workloads.sql.queries import Answer

OLDEST: Final = (3, 38)
"""First with json_each in every build, and with these words of its plans."""
SORT_PAGES_LEAST: Final = 250
"""A sort has the page cache's size of memory, and no less than so many pages
(SQLITE_SORTER_PMASZ)."""
SORT_BYTES_MOST: Final = 512 << 20


class SqliteDialect(Dialect):
    """SQLite 3.38 and later."""

    engine: ClassVar[str] = "sqlite"
    title: ClassVar[str] = "SQLite"
    lacking: ClassVar[Mapping[str, str]] = {
        "hash_join": "it joins by nested loops alone",
        "merge_join": "it joins by nested loops alone",
    }

    @classmethod
    def available(cls) -> Availability:
        """Is the library there?"""
        return SqliteDatabase(SqliteOptions()).check()

    @classmethod
    def problem(cls, p: SqlParameters) -> str:
        """Its log lies with the database, and only one kind of it has checkpoints."""
        if found := super().problem(p) or log_problem(p.data, p.wal):
            return found
        if p.query == "checkpoint" and p.sqlite.journal_mode != "wal":
            return f'checkpoint needs journal_mode = "wal": {p.sqlite.journal_mode} has none'
        return ""

    @classmethod
    def sort_memory(cls, p: SqlParameters) -> tuple[int, str]:
        """Not `work_mem`: a sort has as much as the page cache."""
        cache, page = p.sqlite.cache_size, p.sqlite.page_size
        cached = -cache << 10 if cache < 0 else cache * page
        return max(min(cached, SORT_BYTES_MOST), SORT_PAGES_LEAST * page), "sqlite.cache_size"

    def check(self) -> Availability:
        """The library and its version."""
        found = self.database.check()
        if found.ok:
            version = tuple(int(part) for part in library_version().split(".")[:2])
            if version < OLDEST:
                return Availability(
                    False, f"sql needs SQLite 3.38, not {library_version()}", "install a later one"
                )
        return found

    @cached_property
    def database(self) -> SqliteDatabase:
        """Its file."""
        p = self.p
        return SqliteDatabase(SqliteOptions(p.load, p.sqlite, STATEMENTS[p.query](p.asked).changes))

    def tables(self) -> Tables:
        """The same for all queries of one size."""
        return SqliteTables(self.p.rows)

    @contextlib.contextmanager
    def connected(self, context: RunContext) -> Iterator[Connected]:
        """The query's session, in its process."""
        pragmas = {"mmap_size": "0", "threads": "0"}
        if self.p.query not in WRITING:
            pragmas["query_only"] = "1"
        if self.p.query == "checkpoint":
            pragmas["wal_autocheckpoint"] = "0"  # the update would have made it
        with self.database.process(context, pragmas) as process:
            yield SqliteConnected(process, self.database.file(), self.p, pragmas, context.logs)


class SqliteConnected(PlannedSession[Intended]):
    """See the module's text."""

    copy_text: ClassVar[str] = COPY
    _session: SqliteProcess

    def __init__(
        self, process: SqliteProcess, file: Path, p: SqlParameters, pragmas: Mapping[str, str],
        logs: Path,
    ) -> None:  # fmt: skip
        self._file, self._page = file, p.sqlite.page_size
        pinning = [f"PRAGMA {name} = {value}" for name, value in pragmas.items()]
        super().__init__(process, p.query, STATEMENTS[p.query](p.asked), pinning)
        if self._run.copies:
            self._hold(p, logs / "held.csv")

    def _hold(self, p: SqlParameters, file: Path) -> None:
        """The rows in the process's own memory, as a database beside its file."""
        try:
            with file.open("wb") as written:
                written.writelines(p.asked.data.items_csv(p.asked.copied))
            self._session.ask(
                "hold",
                statements=["ATTACH ':memory:' AS held", f"CREATE TABLE held.rows {COPIES}"],
                insert=insert("held.rows", ITEMS),
                file=str(file),
            )
        finally:
            file.unlink(missing_ok=True)

    def copy_in(self) -> None:
        """One statement, which is one transaction."""
        self._session.rows(COPY)

    def counts(self) -> Counts:
        """Of its connection and its process. What it writes to a database and to a journal is not
        told apart."""
        found = self._session.ask("counts")
        reads = self._query not in WRITING
        return Counts(
            # A checkpoint reads the log beside the page cache.
            read=None if self._query == "checkpoint" else found["missed"] * self._page,
            # Pages in memory of the rows that are copied would be among them.
            hit=None if self._run.copies else found["hit"] * self._page,
            temporary=found["written_bytes"] if reads else None,
            log=0 if reads else None,
            fetched=found["fetched_bytes"],
        )

    def answer(self, yielded: Answer) -> Answer:
        """Of a checkpoint: nobody was in its way, and all pages of the log are in the database."""
        if self._query == "checkpoint":
            ((busy, log, done),) = yielded
            return [(busy == 0 and log == done > 0,)]
        return super().answer(yielded)

    def prove(self) -> Proof:
        """A sort that spills is executed once more: it has to write."""
        proof = super().prove()
        if self._query != "sort_spill":
            return proof
        before = self.counts()
        self.execute()
        written = self.counts().since(before).temporary or 0
        if not written:
            raise RunFailed(
                "sort_spill cannot be run by its plan: its sort writes no file",
                why="it has memory enough, or temporary files are kept in memory (temp_store)",
                fix="lower cache_size in [workload.sqlite], or raise size",
            )
        sort = Metric(value=written, unit="B")
        return Proof(f"{proof.message} (its sort wrote files)", {"sort_bytes": sort})

    def sizes(self) -> dict[str, int]:
        """Of the file; how much of it is `items`, only reading all of it would tell."""
        return {"database": os.stat(self._file).st_size}

    def explained(
        self, text: str, intended: Intended, *, execute: bool = True
    ) -> dict[str, Metric]:
        """By EXPLAIN QUERY PLAN; see `PlannedSession`."""
        # An explanation alone does not look whether the schema is still the one that was read.
        self._session.rows("SELECT count(*) FROM sqlite_schema")
        rows: Any = self._session.rows(f"EXPLAIN QUERY PLAN {text}")
        if wrong := intended.missing(lines_of(rows)):
            fix = "see whether its index is there; another version of SQLite may plan otherwise"
            raise self.other_plan("SQLite", wrong, shown(rows), fix)
        return {}
