"""MariaDB for a workload: found, checked, loaded or restored, started, told of, stopped."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from nfslab.databases.base import Session, Tables, not_durable
from nfslab.databases.mariadb.installation import (
    Installation,
    find_installation,
    known_settings,
    settings_accepted,
)
from nfslab.databases.mariadb.server import MariadbPlace, MariadbServer, start_server
from nfslab.databases.mariadb.service import MariadbService
from nfslab.databases.mariadb.settings import (
    REPORTED,
    as_arguments,
    durability_reasons,
    with_defaults,
)
from nfslab.databases.shared.deployment import Deployment
from nfslab.databases.shared.served import ServedDatabase
from nfslab.databases.shared.settings import SettingValue
from nfslab.databases.shared.template import Loaded, copied, loaded_once, on_places
from nfslab.errors import RunFailed, Unavailable
from nfslab.machine import users
from nfslab.machine.availability import Availability
from nfslab.plugins import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pymysql

    from nfslab.workloads.base import RunContext

SHAPES: Final = ("innodb_page_size", "innodb_log_file_size", "innodb_undo_tablespaces",
                 "innodb_checksum_algorithm", "lower_case_table_names")  # fmt: skip
"""Settings that a database is made with: a template of its own for each."""
POOL_BYTES: Final = 128 << 20
LOADING: Final[dict[str, SettingValue]] = {
    "innodb_flush_log_at_trx_commit": 0,
    "innodb_doublewrite": False,
    "innodb_use_native_aio": False,
    "innodb_buffer_pool_dump_at_shutdown": False,
    "innodb_fast_shutdown": 0,
}
"""No crash has to be survived; a slow shutdown leaves nothing to purge or merge."""


@dataclass(frozen=True, slots=True)
class MariadbOptions:
    """What an experiment may ask of it."""

    clients: int
    """Connections of the load."""
    database: str
    load: Literal["copy", "fresh"] = "copy"
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    changes: Sequence[str] = ()
    """Statements done on the loaded database before the run's server starts."""
    temporary_with_data: bool = False
    """Sorts and the like write their files on the place of the data."""


class MariadbDatabase(ServedDatabase[MariadbServer]):
    """A MariaDB of a run's own."""

    kind: ClassVar[str] = "mariadb"
    title: ClassVar[str] = "MariaDB"
    empty_bytes: ClassVar[int] = 140 << 20
    log_bytes: ClassVar[int] = 110 << 20  # made whole (innodb_log_file_size)

    def __init__(self, options: MariadbOptions) -> None:
        self.options = options

    def check(self) -> Availability:
        """Is it installed, and does it take these settings?"""
        allowed = users.becomes(self.owner())
        if not allowed.ok:
            return allowed
        try:
            installation = self.installation
        except Unavailable as error:
            return Availability(False, f"{error.what}: {error.why}", error.fix)
        given = self.options.settings
        answer = settings_accepted(installation, tuple(as_arguments(given)))
        known = known_settings(installation) if given and answer.ok else frozenset(given)
        for name in given:
            if name not in known:  # a beginning of a name is taken by mariadbd, too
                guess = nearest(name, known)
                fix = f"did you mean {guess}?" if guess else "correct it in [workload.mariadb]"
                return Availability(False, f"MariaDB has no variable {name}", fix)
        return answer

    @cached_property
    def installation(self) -> Installation:
        """The system's."""
        return find_installation()

    def bring_up(self, context: RunContext, tables: Tables) -> None:
        """Data directory and redo log on the places, server up, settings in effect written down."""
        o, version = self.options, self.installation.version
        deployment = Deployment.of(context, self.owner())
        settings = with_defaults(o.settings, o.clients)
        wal = context.places.get("wal", context.places["data"])
        place = MariadbPlace(context.places["data"].path / "mariadb", wal.path / "redo")
        context.notes.append(f"MariaDB {version} ({self.installation.server})")
        parts = {"data": place.data, "wal": place.log}
        on_places(
            context,
            o.load,
            fresh=lambda: self._load(deployment, place, dict(settings), context, tables),
            once=lambda: loaded_once(
                deployment, context.cache, self._template(deployment, context, tables)
            ),
            restore=lambda source: copied(deployment, source, parts, context.places),
        )
        if o.changes:
            with context.phase("changes"):
                self._at_rest(
                    deployment, place, dict(settings), context, "changes.log", self._change
                )
        if o.temporary_with_data:
            place = replace(place, temporary=context.places["data"].path / "temporary")
            deployment.run(["mkdir", str(place.temporary)], user=deployment.user)
        with context.phase("start"):
            deployment.watcher = context.services.server_watcher
            self._server = self._start(deployment, place, settings, context)
        self._tell(context, place)

    @contextlib.contextmanager
    def session(self) -> Iterator[MariadbSession]:
        """A connection of PyMySQL's."""
        with self.server().connect(self.options.database) as connection:
            yield MariadbSession(self.server(), connection)

    def _shape(self) -> dict[str, SettingValue]:
        return {n: v for n, v in self.options.settings.items() if n in SHAPES}

    def _template(self, deployment: Deployment, context: RunContext, tables: Tables) -> Loaded:
        version = f"{self.installation.version} {self.installation.server}"
        record = tables.record() | {"mariadb": version, "settings": self._shape()}

        def build(folder: Path) -> dict[str, Path]:
            place = MariadbPlace(folder / "mariadb", folder / "redo")
            group = context.services.memory_cgroup
            # Of a memory limit a part: a pool is memory that the kernel cannot take back.
            pool = POOL_BYTES if group is None else min(POOL_BYTES, group.limit_bytes // 8)
            settings = LOADING | {"innodb_buffer_pool_size": pool} | self._shape()
            self._load(deployment, place, settings, context, tables)
            return {"data": place.data, "wal": place.log}

        return Loaded("mariadb", record, build)

    def _load(
        self, deployment: Deployment, place: MariadbPlace, settings: dict[str, SettingValue],
        context: RunContext, tables: Tables,
    ) -> None:  # fmt: skip
        """An empty database, the tables, a shutdown in peace."""
        deployment.run(["mkdir", str(place.data), str(place.log)], user=deployment.user)
        argv = [
            self.installation.install, "--no-defaults", f"--datadir={place.data}",
            "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
            f"--innodb-log-group-home-dir={place.log}",
            *as_arguments({"innodb_use_native_aio": False} | self._shape()),
        ]  # fmt: skip
        deployment.run(argv, log="install.log", user=deployment.user)

        def loaded(server: MariadbServer) -> None:
            server.rows(f"CREATE DATABASE `{self.options.database}` CHARACTER SET latin1")
            with server.connect(self.options.database) as connection:
                tables.load(MariadbSession(server, connection))

        self._at_rest(deployment, place, settings, context, "load.log", loaded)

    def _change(self, server: MariadbServer) -> None:
        with server.connect(self.options.database) as connection:
            session = MariadbSession(server, connection)
            for statement in self.options.changes:
                session.rows(statement)

    def _at_rest(
        self, deployment: Deployment, place: MariadbPlace, settings: dict[str, SettingValue],
        context: RunContext, log: str, work: Callable[[MariadbServer], None],
    ) -> None:  # fmt: skip
        """Work of a server that ends in peace, with nothing left to purge or merge."""
        settings = settings | {"innodb_fast_shutdown": 0}
        server = self._start(deployment, place, settings, context, log=log)
        try:
            work(server)
        except BaseException:
            server.stop(hurry=True)
            raise
        if code := server.stop(grace_s=deployment.remaining_s()):
            raise server.death(f"MariaDB did not shut down cleanly (exit code {code})")
        deployment.synchronise(place.data)
        deployment.synchronise(place.log)

    def _start(
        self, deployment: Deployment, place: MariadbPlace, settings: Mapping[str, SettingValue],
        context: RunContext, log: str = "mariadb.log",
    ) -> MariadbServer:  # fmt: skip
        program = self.installation.server
        return start_server(deployment, program, place, settings, places=context.places, log=log)

    def _tell(self, context: RunContext, place: MariadbPlace) -> None:
        """Settings in effect for the record; the service for the collectors."""
        server = self.server()
        all_of_them = server.variables("VARIABLES")
        names = sorted({*REPORTED, *with_defaults(self.options.settings, self.options.clients)})
        in_effect = {name: all_of_them[name] for name in names if name in all_of_them}
        context.places["data"].facts["mariadb"] = {
            "version": self.installation.version,
            "program": self.installation.server,
            "user": self.owner(),
            "settings": in_effect,
        }
        if in_effect.get("innodb_use_native_aio") == "OFF":
            context.notes.append(
                "innodb_use_native_aio = OFF, so that every write of a page is a system call that "
                "can be seen; ON is MariaDB's default, and may be faster"
            )
        not_durable(context, durability_reasons(in_effect))
        context.services.database = MariadbService(
            kind=self.kind, pid=server.process.pid, data_directory=place.data,
            socket=server.socket, database=self.options.database,
            version=self.installation.version,
        )  # fmt: skip


class MariadbSession(Session):
    """Statements without parameters, as they are written."""

    def __init__(self, server: MariadbServer, connection: pymysql.Connection[Any]) -> None:
        self._server, self._connection = server, connection

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """RunFailed when MariaDB refuses it, or is gone."""
        with self._explained(statement), self._connection.cursor() as cursor:
            cursor.execute(statement)
            return [tuple(map(_whole, row)) for row in cursor.fetchall()]

    def load_data(self, statement: str, file: RowsInMemory) -> None:
        """LOAD DATA LOCAL INFILE {file}; RunFailed as `rows`."""
        self.rows(statement.format(file=f"'{file.path}'"))

    @contextlib.contextmanager
    def _explained(self, statement: str) -> Iterator[None]:
        import pymysql

        try:
            yield
        except pymysql.Error as error:
            if not self._server.process.ended_within(0.0):
                raise RunFailed(
                    "MariaDB refused a statement",
                    why=f"{error} ({statement[:200]})",
                    fix="see logs/mariadb.log of the run",
                ) from error
            raise self._server.death("MariaDB did not answer", str(error)) from error

    def load_lines(self, into: str, lines: bytes) -> None:
        """LOAD DATA of these lines; `into`: all behind INTO TABLE. RunFailed, as for a warning."""
        with contextlib.closing(RowsInMemory([lines])) as file:
            self.load_data(f"LOAD DATA LOCAL INFILE {{file}} INTO TABLE {into}", file)
        # With LOCAL what is wrong with a line is a warning, and the line is left out or changed.
        if said := self.rows("SHOW WARNINGS LIMIT 3"):
            raise RunFailed(
                f"MariaDB did not take all lines as they are ({into.split()[0]})",
                why="; ".join(str(text) for _, _, text in said),
                fix="see logs/load.log of the run",
            )

    def say(self, text: str) -> None:
        """How far something long is; ends it when the run's time is over."""
        self._server.deployment.remaining_s()
        self._server.deployment.say(text)


class RowsInMemory:
    """A file that is in memory alone, for PyMySQL, which sends what it reads from a path."""

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._descriptor = os.memfd_create("nfslab-rows")
        with open(os.dup(self._descriptor), "wb") as file:
            file.writelines(blocks)

    @property
    def path(self) -> str:
        """In this process."""
        return f"/proc/self/fd/{self._descriptor}"

    def close(self) -> None:
        """Its memory is given back."""
        os.close(self._descriptor)


def _whole(value: Any) -> Any:
    """MariaDB's sums are decimals, of whole numbers too."""
    return int(value) if isinstance(value, Decimal) and value == int(value) else value
