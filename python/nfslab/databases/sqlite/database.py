"""SQLite for a workload: a database file on the run's place, loaded or copied; there is no server.

Loads and checks use Python's own sqlite3; the load uses the machine's library: within sysbench
(`sqlite.lua`), or a process of ours (`process`).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from nfslab.databases.base import Database, Session, Tables, not_durable
from nfslab.databases.shared.deployment import Deployment
from nfslab.databases.shared.service import DatabaseService
from nfslab.databases.shared.template import Loaded, copied, loaded_once, on_places
from nfslab.databases.sqlite.library import LIBRARY, loaded
from nfslab.databases.sqlite.process import SqliteProcess
from nfslab.databases.sqlite.settings import SqliteSettings
from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator, Sequence

    from nfslab.workloads.base import RunContext

PACKAGE_FIX: Final = "install it (Debian: apt-get install libsqlite3-0)"
DRIVER: Final = Path(__file__).parent / "sqlite.lua"
FILE: Final = "bench.sqlite3"
WAIT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class SqliteOptions:
    """What an experiment may ask of it."""

    load: Literal["copy", "fresh"] = "copy"
    settings: SqliteSettings = field(default_factory=SqliteSettings)
    changes: Sequence[str] = ()
    """Statements done on the loaded database before it is used."""


class SqliteDatabase(Database):
    """A file of a run's own."""

    kind: ClassVar[str] = "sqlite"
    title: ClassVar[str] = "SQLite"
    empty_bytes: ClassVar[int] = 1 << 20
    log_bytes: ClassVar[int] = 1 << 20

    def __init__(self, options: SqliteOptions) -> None:
        self.options = options
        self._file: Path | None = None

    def check(self) -> Availability:
        """Is the library there?"""
        if not library_version():
            return Availability(False, f"there is no {LIBRARY}", PACKAGE_FIX)
        return Availability(True)

    def owner(self) -> int | None:
        """The caller."""
        return None

    def file(self) -> Path:
        """The database; RunFailed where there is none."""
        if self._file is None:
            raise RunFailed(f"there is no {self.title}: the run was not prepared")
        return self._file

    def bring_up(self, context: RunContext, tables: Tables) -> None:
        """The file on its place, its journal mode tried out, settings written down."""
        o, place = self.options, context.places["data"]
        folder = place.path / "sqlite"
        context.notes.append(f"SQLite {library_version()} ({LIBRARY})")
        deployment = Deployment.of(context, None)
        on_places(
            context,
            o.load,
            fresh=lambda: self._load(folder, tables),
            once=lambda: loaded_once(deployment, context.cache, self._template(tables)),
            restore=lambda source: copied(deployment, source, {"data": folder}, context.places),
        )
        self._file = folder / FILE
        if o.changes:
            with context.phase("changes"), self.session() as session:
                for statement in o.changes:
                    session.rows(statement)
        with context.phase("start"):
            self._set_journal_mode(place.filesystem)
        # The driver refuses to run with any other (sqlite.lua).
        place.facts["sqlite"] = {
            "version": library_version(),
            "library": LIBRARY,
            "settings": o.settings.model_dump(mode="json"),
        }
        not_durable(context, o.settings.durability_reasons())

    @contextlib.contextmanager
    def process(self, context: RunContext, pragmas: dict[str, str]) -> Iterator[SqliteProcess]:
        """A process of ours that alone uses the database, watched as an engine's server is.

        Its temporary files lie on the database's place.
        """
        folder = self.file().parent
        temporary = folder.parent / "temporary"
        temporary.mkdir()
        deployment = Deployment.of(context, None, watcher=context.services.server_watcher)
        made = SqliteProcess(deployment, temporary)
        try:
            made.open(self.file(), self.options.settings, pragmas)
            context.services.database = DatabaseService(
                kind=self.kind, pid=made.process.pid, data_directory=folder
            )
            yield made
        finally:
            made.stop()

    @contextlib.contextmanager
    def session(self) -> Iterator[SqliteSession]:
        """A connection of Python's sqlite3."""
        with _connected(self.file()) as connection:
            yield SqliteSession(connection)

    def alive(self) -> bool:
        """There is no server that could end."""
        return self._file is not None

    def death(self, what: str, also: str = "") -> RunFailed:
        """In the library's words."""
        return RunFailed(what, why=also, fix="see the logs of the run")

    def stop(self, *, hurry: bool) -> None:
        """Nothing was started."""
        self._file = None

    def _template(self, tables: Tables) -> Loaded:
        record = tables.record() | {"sqlite": 3, "page_size": self.options.settings.page_size}

        def build(folder: Path) -> dict[str, Path]:
            self._load(folder / "sqlite", tables)
            return {"data": folder / "sqlite"}

        return Loaded("sqlite", record, build)

    def _load(self, folder: Path, tables: Tables) -> None:
        import sqlite3

        folder.mkdir()
        try:
            with _connected(folder / FILE, new=True) as connection:
                connection.execute(f"PRAGMA page_size = {self.options.settings.page_size}")
                tables.load(SqliteSession(connection))
        except sqlite3.Error as error:
            raise _failed("the database could not be loaded", error) from error

    def _set_journal_mode(self, filesystem: str) -> None:
        """A storage may not take it: then SQLite keeps another, or fails."""
        import sqlite3

        wanted = self.options.settings.journal_mode
        why = f"journal_mode = {wanted} on {filesystem}: "
        fix = "take another journal_mode in [workload.sqlite], or another target"
        if wanted == "wal":
            fix = "its -shm file needs mmap(MAP_SHARED); " + fix
        try:
            with _connected(self.file()) as connection:
                (found,) = connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise RunFailed(
                "SQLite cannot work on this storage", why=f"{why}{_told(error)}", fix=fix
            ) from error
        if found != wanted:
            raise RunFailed(
                "SQLite cannot work on this storage", why=f"{why}SQLite stays at {found}", fix=fix
            )


class SqliteSession(Session):
    """Statements without parameters, as they are written."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """RunFailed when SQLite refuses it."""
        import sqlite3

        try:
            return self._connection.execute(statement).fetchall()
        except sqlite3.Error as error:
            raise _failed(f"SQLite refused a statement ({statement[:200]})", error) from error

    def insert(self, statement: str, rows: Iterable[Sequence[bytes | str]]) -> None:
        """One execution for each row of values; RunFailed."""
        import sqlite3

        try:
            self._connection.execute("BEGIN")
            self._connection.executemany(statement, rows)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _failed(f"SQLite refused rows ({statement[:200]})", error) from error


def library_version() -> str:
    """Of the machine's library; "" where there is none."""
    try:
        version: bytes = loaded().sqlite3_libversion()
    except OSError:
        return ""
    return version.decode()


@contextlib.contextmanager
def _connected(file: Path, *, new: bool = False) -> Iterator[sqlite3.Connection]:
    """In autocommit; closed at the end."""
    import sqlite3

    mode = "rwc" if new else "rw"
    with contextlib.closing(
        sqlite3.connect(f"{file.as_uri()}?mode={mode}", WAIT_S, isolation_level=None, uri=True)
    ) as connection:
        yield connection


def _failed(what: str, error: sqlite3.Error) -> RunFailed:
    return RunFailed(what, why=_told(error), fix="see the notes and logs of the run")


def _told(error: sqlite3.Error) -> str:
    name = getattr(error, "sqlite_errorname", "")
    return f"{error} ({name})" if name else str(error)
