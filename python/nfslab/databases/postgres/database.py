"""PostgreSQL for a workload: found, checked, loaded or restored, started, told of, stopped.

Never as root: root's server runs as an unprivileged user, which owns the places.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nfslab.databases.base import Database, Session, Tables, not_durable
from nfslab.databases.postgres import cluster
from nfslab.databases.postgres.delays import DelayedCall, PlantedDelays
from nfslab.databases.postgres.deployment import PostgresDeployment
from nfslab.databases.postgres.installation import Installation, find_installation
from nfslab.databases.postgres.preflight import settings_accepted
from nfslab.databases.postgres.relocation import reachable_copy
from nfslab.databases.postgres.server import Server, start_server
from nfslab.databases.postgres.service import PostgresService
from nfslab.databases.postgres.settings import (
    REPORTED_SETTINGS,
    UNINTERESTING,
    SettingValue,
    durability_reasons,
    with_defaults,
)
from nfslab.errors import RunFailed, Unavailable
from nfslab.machine import users
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import psycopg

    from nfslab.workloads.base import RunContext


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """What an experiment may ask of it."""

    clients: int
    """Connections of the load."""
    client_name: str
    """application_name of these."""
    database: str
    postgres: str = "auto"
    load: Literal["copy", "fresh"] = "copy"
    data_checksums: bool | None = None
    wal_segment_size: int | None = None
    settings: Mapping[str, SettingValue] = field(default_factory=dict)
    planted_delay: Mapping[DelayedCall, float] = field(default_factory=dict)
    socket: Literal["unix", "tcp"] = "unix"
    changes: Sequence[str] = ()
    """Statements done on the loaded database before the run's server starts."""


class PostgresDatabase(Database):
    """A PostgreSQL of a run's own."""

    kind: ClassVar[str] = "postgres"
    title: ClassVar[str] = "PostgreSQL"

    def __init__(self, options: PostgresOptions) -> None:
        self.options = options
        self._server: Server | None = None

    @classmethod
    def available(cls) -> Availability:
        """Is there any PostgreSQL, and may its server run as another user than root?"""
        try:
            find_installation("auto")
        except Unavailable as error:
            return Availability(False, f"{error.what}: {error.why}", error.fix)
        return users.becomes(users.unprivileged_user())

    def check(self) -> Availability:
        """The installation asked for, and its opinion of the settings."""
        allowed = users.becomes(self.owner())
        if not allowed.ok:
            return allowed
        try:
            installation = self.installation
        except Unavailable as error:
            return Availability(False, f"{error.what}: {error.why}", error.fix)
        return settings_accepted(installation, self.options.settings, self.owner())

    def owner(self) -> int | None:
        """PostgreSQL refuses to run as root: an unprivileged user then, else the caller."""
        return users.unprivileged_user()

    @cached_property
    def installation(self) -> Installation:
        """The PostgreSQL asked for, where the server's user can reach it."""
        found = find_installation(self.options.postgres)
        user = self.owner()
        if user is None:
            return found
        reach = users.reachable_by(found.program("postgres"), user)
        if reach.ok:
            return found
        if found.source == "embedded":
            return reachable_copy(found)
        raise Unavailable(
            f"the PostgreSQL in {found.bindir} cannot be run by an unprivileged user",
            why=f"PostgreSQL refuses to run as root, and {reach.reason}",
            fix='set workload.postgres to "system" or "embedded", or install it elsewhere',
        )

    def server(self) -> Server:
        """The one that is up; RunFailed where there is none."""
        if self._server is None:
            raise RunFailed("there is no PostgreSQL: the run was not prepared")
        return self._server

    def bring_up(self, context: RunContext, tables: Tables) -> None:
        """Cluster on the places, server up, settings in effect written down."""
        o = self.options
        deployment = self._deployment(context)
        installation = deployment.installation
        place = cluster.cluster_place(context.places)
        shape = self._shape(tables)
        settings = with_defaults(o.settings, o.clients, installation.major)
        context.notes.append(
            f"PostgreSQL {installation.version} ({installation.source}: {installation.bindir})"
        )
        if o.load == "fresh":
            with context.phase("load"):
                cluster.load(deployment, place, shape, settings, context.places)
            context.notes.append("the database was loaded anew for this run")
        else:
            group = context.services.memory_cgroup
            with context.phase("load"):
                source, made = cluster.template(
                    deployment, context.cache, shape, context.places,
                    memory_bytes=None if group is None else group.limit_bytes,
                )  # fmt: skip
            with context.phase("restore"):
                cluster.restore(deployment, source, place, context.places)
            context.notes.append(
                "the database is a copy of one that was loaded "
                + ("for this run" if made else "for an earlier run of this experiment")
            )
        if o.changes:
            with context.phase("changes"):
                cluster.change(deployment, place, o.changes, settings, context.places)
        with context.phase("start"):
            self._server = start_server(
                replace(
                    deployment,
                    watcher=context.services.server_watcher,
                    delays=PlantedDelays(o.planted_delay, place.data, place.wal_directory),
                ),
                place.data,
                settings,
                places=context.places,
                link=context.client_host.link if o.socket == "tcp" else None,
            )
        self._tell(context, place)

    @contextlib.contextmanager
    def session(self, database: str | None = None) -> Iterator[PostgresSession]:
        """A connection of psycopg's, to the load's database unless another is named."""
        # Closed as it is: one that was interrupted within a statement can commit nothing.
        with contextlib.closing(self.server().connect(database)) as connection:
            yield PostgresSession(self.server(), connection)

    def alive(self) -> bool:
        """Does its postmaster still run?"""
        return self._server is not None and self._server.alive()

    def death(self, what: str, also: str = "") -> RunFailed:
        """With the last lines of its log."""
        return self.server().death(what, also)

    def stop(self, *, hurry: bool) -> None:
        """Shut it down."""
        if self._server is not None:
            server, self._server = self._server, None
            server.stop(hurry=hurry)

    def _deployment(self, context: RunContext) -> PostgresDeployment:
        return PostgresDeployment(
            installation=self.installation,
            host=context.server_host,
            resources=context.resources,
            user=self.owner(),
            logs=context.logs,
            remaining_s=context.remaining_s,
            commands=context.commands,
            database=self.options.database,
            say=context.say,
        )

    def _shape(self, tables: Tables) -> cluster.Shape:
        return cluster.Shape(
            postgres=f"{self.installation.version} {self.installation.bindir}",
            tables=tables,
            data_checksums=self.options.data_checksums,
            wal_segment_bytes=self.options.wal_segment_size,
        )

    def _tell(self, context: RunContext, place: cluster.ClusterPlace) -> None:
        """Settings in effect for the record; the service for the collectors."""
        server = self.server()
        installation = server.deployment.installation
        with server.connect("postgres") as connection:
            rows = connection.execute(
                "SELECT name, current_setting(name), source FROM pg_settings "
                "WHERE source <> 'default' OR name = ANY(%s) ORDER BY name",
                (list(REPORTED_SETTINGS),),
            ).fetchall()
        in_effect = {row[0]: row[1] for row in rows if not UNINTERESTING.fullmatch(row[0])}
        context.places["data"].facts["postgresql"] = {
            "version": installation.version,
            "source": installation.source,
            "programs": str(installation.bindir),
            "user": self.owner(),
            "settings": in_effect,
        }
        not_durable(context, durability_reasons(in_effect))
        context.services.postgres = context.services.database = PostgresService(
            kind=self.kind,
            conninfo=server.conninfo("postgres"),
            database=server.deployment.database,
            pid=server.process.pid,
            version=installation.version,
            major=installation.major,
            data_directory=place.data,
            client_name=self.options.client_name,
        )


class PostgresSession(Session):
    """Statements without parameters, as they are written."""

    def __init__(self, server: Server, connection: psycopg.Connection[Any]) -> None:
        self._server, self._connection = server, connection

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """RunFailed when PostgreSQL refuses it, or is gone."""
        with self._explained(statement):
            cursor = self._connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def copy_in(self, statement: str, blocks: Iterable[bytes]) -> None:
        """COPY ... FROM STDIN of these blocks; RunFailed as `rows`."""
        with (
            self._explained(statement),
            self._connection.cursor() as cursor,
            cursor.copy(statement.encode()) as copy,
        ):
            for block in blocks:
                copy.write(block)

    @contextlib.contextmanager
    def _explained(self, statement: str) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.OperationalError as error:
            raise self._server.death("PostgreSQL did not answer", str(error)) from error
        except psycopg.Error as error:
            raise RunFailed(
                "PostgreSQL refused a statement",
                why=f"{str(error).strip()} ({statement[:200]})",
                fix="see logs/postgres.log of the run",
            ) from error
