"""One TPC-B-like load on PostgreSQL, MariaDB or SQLite, driven by sysbench."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.databases.mariadb.database import MariadbDatabase, MariadbOptions
from nfslab.databases.postgres.database import Load, PostgresDatabase
from nfslab.databases.postgres.parameters import PostgresParameters
from nfslab.databases.sqlite.database import SqliteDatabase, SqliteOptions
from nfslab.workloads.pgbench import invariant
from nfslab.workloads.pgbench.loading import PgbenchTables
from nfslab.workloads.sysbench import client
from nfslab.workloads.sysbench.driven import SysbenchWorkload
from nfslab.workloads.tpcb.parameters import SCRIPT, TpcbParameters
from nfslab.workloads.tpcb.tables import NUMBERS, TpcbTables

if TYPE_CHECKING:
    from nfslab.databases.base import Database, Tables
    from nfslab.machine.availability import Availability
    from nfslab.results.records import CheckRecord
    from nfslab.workloads.base import Outcome, RunContext, WorkloadParameters
    from nfslab.workloads.sysbench.rows import Transactions

DRIVERS: Final = {"postgres": "pgsql", "mariadb": "mysql", "sqlite": ""}
"""sysbench's."""
DATABASE: Final = "pgbench"
CLIENT_NAME: Final = "tpcb"
BYTES_PER_SCALE: Final = 20 << 20
BYTES_PER_TRANSACTION: Final = 3_000
ASSUMED_TPS: Final = 3_000


class TpcbWorkload(SysbenchWorkload):
    """The same five statements on each engine."""

    kind: ClassVar[str] = "tpcb"
    summary: ClassVar[str] = "PostgreSQL, MariaDB or SQLite under a TPC-B like load (sysbench)"
    Parameters: ClassVar[type[WorkloadParameters]] = TpcbParameters
    parameters: TpcbParameters

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        if self.parameters.engine != "sqlite":
            self.engine = self.parameters.engine
        self._committed = 0
        self._verified = False

    @property
    def asked(self) -> TpcbParameters:
        """As it was given."""
        return self.parameters

    @classmethod
    def available(cls) -> Availability:
        """Is sysbench here? `check` asks for the engine that is wanted."""
        return client.available("")

    def check(self) -> Availability:
        """sysbench, the engine, its opinion of the settings."""
        p = self.parameters
        for found in (p.check_defined(), client.available(DRIVERS[p.engine])):
            if not found.ok:
                return found
        return self.database.check()

    @cached_property
    def database(self) -> Database:
        """Of the engine asked for."""
        p = self.parameters
        if p.engine == "postgres":
            postgres = PostgresParameters(data=p.data, wal=p.wal, load=p.load, settings=p.postgres)
            load = Load(p.clients, CLIENT_NAME, DATABASE)
            return PostgresDatabase(postgres, load)
        if p.engine == "mariadb":
            return MariadbDatabase(MariadbOptions(p.clients, DATABASE, p.load, p.mariadb))
        return SqliteDatabase(SqliteOptions(p.load, p.sqlite))

    def estimate_s(self) -> float:
        """Restore, start, run and check; loading once is shared by many runs."""
        p = self.parameters
        return p.duration + p.warm_up + 2.5 + p.scale * (1.5 if p.load == "fresh" else 0.1)

    def estimate_bytes(self) -> dict[str, int]:
        """Data by scale, the log by time."""
        p = self.parameters
        written = int((p.duration + p.warm_up) * ASSUMED_TPS * BYTES_PER_TRANSACTION)
        data = self.database.empty_bytes + p.scale * BYTES_PER_SCALE
        wal = self.database.log_bytes + min(1_200 << 20, written)
        if p.wal is None or p.wal == p.data:
            return {"data": data + wal}
        return {"data": data + written // 10, "wal": wal}

    def prepare(self, context: RunContext) -> None:
        """The database on its places; a server up, settings in effect written down."""
        self._committed, self._verified = 0, False
        p = self.parameters
        context.services.engine = p.engine
        tables: Tables = (
            PgbenchTables(p.scale, 100, False, 0, "range")
            if p.engine == "postgres"
            else TpcbTables(p.scale, NUMBERS[p.engine])
        )
        self.database.bring_up(context, tables)
        if p.scale < p.clients:
            context.notes.append(
                f"scale {p.scale} is below the {p.clients} clients: they wait for each other's "
                "branch rows"
            )
        if p.engine == "sqlite" and p.clients > 1:
            context.notes.append(
                "SQLite has one writer at a time: the others look again after a pause (its busy "
                "handler's, up to 0.1 s), which is in their latency"
            )

    def load(self) -> client.Load:
        """Its script, where the database is."""
        p = self.parameters
        return client.Load(
            SCRIPT, p.clients, p.max_tries, self._reached(), {"scale": p.scale},
            CLIENT_NAME if p.engine == "postgres" else "",
        )  # fmt: skip

    def count(self, done: Transactions) -> None:
        """For what the database has to hold."""
        self._committed += done.committed

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Does the database hold what the client says it committed?"""
        with context.phase("invariant"), self.database.session() as session:
            balances = invariant.balances_at_rest(session)
        self._verified = True
        return [invariant.check_balances(balances, {"tpcb-like": self._committed})]

    def finish(self, context: RunContext) -> None:
        """Stop the server: in peace after a verified run, at once otherwise."""
        self.database.stop(hurry=not self._verified)

    def _reached(self) -> list[str]:
        database = self.database
        if isinstance(database, PostgresDatabase):
            return client.at_postgres(database.server())
        if isinstance(database, MariadbDatabase):
            return client.at_mariadb(database.server(), DATABASE)
        assert isinstance(database, SqliteDatabase)
        return client.at_sqlite(database.file(), self.parameters.sqlite)
