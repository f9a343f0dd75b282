"""PostgreSQL for a workload: found, checked, loaded or restored, started, told of, stopped.

Never as root: root's server runs as an unprivileged user, which owns the places.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nfslab.databases.base import Session, Tables, not_durable
from nfslab.databases.postgres import cluster
from nfslab.databases.postgres.delays import PlantedDelays
from nfslab.databases.postgres.deployment import PostgresDeployment
from nfslab.databases.postgres.installation import Installation, find_installation
from nfslab.databases.postgres.parameters import PostgresParameters
from nfslab.databases.postgres.preflight import settings_accepted
from nfslab.databases.postgres.relocation import reachable_copy
from nfslab.databases.postgres.server import Server, start_server
from nfslab.databases.postgres.service import PostgresService
from nfslab.databases.postgres.settings import (
    REPORTED_SETTINGS,
    UNINTERESTING,
    durability_reasons,
    with_defaults,
)
from nfslab.databases.shared.served import ServedDatabase
from nfslab.databases.shared.template import on_places
from nfslab.errors import RunFailed, Unavailable
from nfslab.machine import users
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import psycopg

    from nfslab.workloads.base import RunContext


@dataclass(frozen=True, slots=True)
class Load:
    """What a workload does with it."""

    clients: int
    """Connections."""
    client_name: str
    """application_name of these."""
    database: str
    socket: Literal["unix", "tcp"] = "unix"
    changes: Sequence[str] = ()
    """Statements done on the loaded database before the run's server starts."""


class PostgresDatabase(ServedDatabase[Server]):
    """A PostgreSQL of a run's own."""

    kind: ClassVar[str] = "postgres"
    title: ClassVar[str] = "PostgreSQL"
    empty_bytes: ClassVar[int] = 48 << 20
    log_bytes: ClassVar[int] = 80 << 20

    def __init__(self, parameters: PostgresParameters, load: Load) -> None:
        self.p, self.load = parameters, load

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
        return settings_accepted(installation, self.p.settings, self.owner())

    @cached_property
    def installation(self) -> Installation:
        """The PostgreSQL asked for, where the server's user can reach it."""
        found = find_installation(self.p.postgres)
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

    def bring_up(self, context: RunContext, tables: Tables) -> None:
        """Cluster on the places, server up, settings in effect written down."""
        p, load = self.p, self.load
        deployment = self._deployment(context)
        installation = deployment.installation
        place = cluster.cluster_place(context.places)
        shape = self._shape(tables)
        settings = with_defaults(p.settings, load.clients, installation.major)
        context.notes.append(
            f"PostgreSQL {installation.version} ({installation.source}: {installation.bindir})"
        )
        group = context.services.memory_cgroup
        on_places(
            context,
            p.load,
            fresh=lambda: cluster.load(deployment, place, shape, settings, context.places),
            once=lambda: cluster.template(
                deployment, context.cache, shape, context.places,
                memory_bytes=None if group is None else group.limit_bytes,
            ),
            restore=lambda source: cluster.restore(deployment, source, place, context.places),
        )  # fmt: skip
        if load.changes:
            with context.phase("changes"):
                cluster.change(deployment, place, load.changes, settings, context.places)
        with context.phase("start"):
            self._server = start_server(
                replace(
                    deployment,
                    watcher=context.services.server_watcher,
                    delays=PlantedDelays(p.planted_delay, place.data, place.wal_directory),
                ),
                place.data,
                settings,
                places=context.places,
                link=context.client_host.link if load.socket == "tcp" else None,
            )
        self._tell(context, place)

    def clients_are_gone(self) -> bool:
        """See databases/postgres/clients.py."""
        return self.server().clients_are_gone(self.load.client_name)

    @contextlib.contextmanager
    def session(self, database: str | None = None) -> Iterator[PostgresSession]:
        """A connection of psycopg's, to the load's database unless another is named."""
        # Closed as it is: one that was interrupted within a statement can commit nothing.
        with contextlib.closing(self.server().connect(database)) as connection:
            yield PostgresSession(self.server(), connection)

    def _deployment(self, context: RunContext) -> PostgresDeployment:
        return PostgresDeployment.of(
            context,
            self.owner(),
            installation=self.installation,
            database=self.load.database,
        )

    def _shape(self, tables: Tables) -> cluster.Shape:
        return cluster.Shape(
            postgres=f"{self.installation.version} {self.installation.bindir}",
            tables=tables,
            data_checksums=self.p.data_checksums,
            wal_segment_bytes=self.p.wal_segment_size,
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
            client_name=self.load.client_name,
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
