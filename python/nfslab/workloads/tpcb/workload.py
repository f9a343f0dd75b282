"""One TPC-B-like load on PostgreSQL, MariaDB or SQLite, driven by sysbench.

tps is committed transactions by the time from the first one's begin to the last one's end, by the
client's own clock readings; sysbench's count of events has to agree with its log.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from nfslab.databases.mariadb.database import MariadbDatabase, MariadbOptions
from nfslab.databases.postgres.database import Load, PostgresDatabase
from nfslab.databases.postgres.parameters import PostgresParameters
from nfslab.databases.sqlite.database import SqliteDatabase, SqliteOptions
from nfslab.machine.availability import Availability
from nfslab.results.core_tables import typed_table
from nfslab.results.records import LoadShape, Metric
from nfslab.workloads.base import Outcome, Workload
from nfslab.workloads.pgbench import invariant
from nfslab.workloads.pgbench.execution import server_cpu_s
from nfslab.workloads.pgbench.loading import PgbenchTables
from nfslab.workloads.pgbench.outcome import latency_histogram
from nfslab.workloads.tpcb import client, rows
from nfslab.workloads.tpcb.parameters import TpcbParameters
from nfslab.workloads.tpcb.tables import NUMBERS, TpcbTables

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from nfslab.databases.base import Database, Tables
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.results.records import CheckRecord
    from nfslab.workloads.base import RunContext, WorkloadParameters

DRIVERS: Final = {"postgres": "pgsql", "mariadb": "mysql", "sqlite": ""}
"""sysbench's."""
BYTES_PER_SCALE: Final = 20 << 20
EMPTY_BYTES: Final = {"postgres": 48 << 20, "mariadb": 140 << 20, "sqlite": 1 << 20}
LOG_BYTES: Final = {"postgres": 64 << 20, "mariadb": 110 << 20, "sqlite": 0}
"""What a log has at least: MariaDB's is made whole (innodb_log_file_size)."""
BYTES_PER_TRANSACTION: Final = 3_000
ASSUMED_TPS: Final = 3_000
STATUS: Final = {
    "Innodb_data_fsyncs": "1",
    "Innodb_log_writes": "1",
    "Innodb_os_log_written": "bytes",
    "Innodb_data_reads": "1",
    "Innodb_data_writes": "1",
    "Innodb_pages_written": "1",
}
"""Counters of MariaDB's that become metrics, for each transaction."""


class TpcbWorkload(Workload):
    """The same five statements on each engine."""

    kind: ClassVar[str] = "tpcb"
    summary: ClassVar[str] = "PostgreSQL, MariaDB or SQLite under a TPC-B like load (sysbench)"
    Parameters: ClassVar[type[WorkloadParameters]] = TpcbParameters
    roles: ClassVar[tuple[str, ...]] = ("data", "wal")
    files_on: ClassVar[Literal["client", "server"]] = "server"
    parameters: TpcbParameters

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        if self.parameters.engine != "sqlite":
            self.engine = self.parameters.engine
        self._committed = 0
        self._verified = False

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

    def check_host(self, kind: str) -> Availability:
        """It goes by private sockets, and SQLite is no server at all."""
        if kind != "local":
            return Availability(False, 'kind = "tpcb" runs on this machine', "leave client.host")
        return Availability(True)

    def owner(self) -> int | None:
        """Servers refuse to run as root."""
        return self.database.owner()

    @cached_property
    def database(self) -> Database:
        """Of the engine asked for."""
        p = self.parameters
        if p.engine == "postgres":
            postgres = PostgresParameters(data=p.data, wal=p.wal, load=p.load, settings=p.postgres)
            load = Load(p.clients, client.CLIENT_NAME, client.DATABASE)
            return PostgresDatabase(postgres, load)
        if p.engine == "mariadb":
            return MariadbDatabase(MariadbOptions(p.clients, client.DATABASE, p.load, p.mariadb))
        return SqliteDatabase(SqliteOptions(p.load, p.sqlite))

    def load_shape(self) -> LoadShape:
        """Closed: a client waits for its answer."""
        return LoadShape(kind="closed", clients=self.parameters.clients)

    def estimate_s(self) -> float:
        """Restore, start, run and check; loading once is shared by many runs."""
        p = self.parameters
        return p.duration + p.warm_up + 2.5 + p.scale * (1.5 if p.load == "fresh" else 0.1)

    def estimate_bytes(self) -> dict[str, int]:
        """Data by scale, the log by time."""
        p = self.parameters
        written = int((p.duration + p.warm_up) * ASSUMED_TPS * BYTES_PER_TRANSACTION)
        data = EMPTY_BYTES[p.engine] + p.scale * BYTES_PER_SCALE
        wal = LOG_BYTES[p.engine] + min(1_200 << 20, written)
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

    def measure(self, context: RunContext) -> Outcome:
        """Warm-up, then the timed sysbench; its log becomes the samples."""
        p = self.parameters
        if p.warm_up:
            with context.phase("warm-up"):
                self._run(context, "warm-up", context.seed + 1, p.warm_up)
            context.notes.append(
                f"a warm-up of {p.warm_up:g} s came before the timed part, and is not counted"
            )
        service = context.services.database
        before, status = self._server_cpu_s(context), self._status()
        with context.timed() as part, context.phase("sysbench"):
            watcher = part.watcher if service is None else None
            done = self._run(context, "sysbench", context.seed, p.duration, watcher)
        after = self._server_cpu_s(context)
        spent = after - before if before is not None and after is not None else None
        found = rows.metrics(done.rows, done.cpu_s, spent)
        part.was(done.rows.start_ns, done.rows.end_ns)
        samples = {
            "transactions": done.rows.table(),
            "latency_histogram": latency_histogram(done.rows.latency_ns[~done.rows.failed]),
        }
        if status:
            grown = {name: value - status[name] for name, value in self._status().items()}
            samples["server_status"] = _status_table(grown)
            found |= _status_metrics(grown, done.rows.committed)
        return Outcome(
            metrics=found,
            samples=samples,
            operations="transactions",
            checks=[rows.check_rows(done.rows, done.printed)],
        )

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Does the database hold what the client says it committed?"""
        with context.phase("invariant"), self.database.session() as session:
            balances = invariant.balances_at_rest(session)
        self._verified = True
        return [invariant.check_balances(balances, {"tpcb-like": self._committed})]

    def finish(self, context: RunContext) -> None:
        """Stop the server: in peace after a verified run, at once otherwise."""
        self.database.stop(hurry=not self._verified)

    def _run(
        self, context: RunContext, name: str, seed: int, seconds: float,
        watcher: LaunchWatcher | None = None,
    ) -> client.ClientRun:  # fmt: skip
        p, log = self.parameters, context.logs / f"{name}.rows"
        argv = client.arguments(p, self._reached(), seed=seed, seconds=seconds, log=log)
        done = client.run(context, self.database, argv, name, p.clients, watcher)
        self._committed += done.rows.committed
        return done

    def _reached(self) -> list[str]:
        database = self.database
        if isinstance(database, PostgresDatabase):
            return client.at_postgres(database.server())
        if isinstance(database, MariadbDatabase):
            return client.at_mariadb(database.server())
        assert isinstance(database, SqliteDatabase)
        return client.at_sqlite(database.file(), self.parameters.sqlite)

    def _server_cpu_s(self, context: RunContext) -> float | None:
        service = context.services.database
        return None if service is None else server_cpu_s(service.pid)

    def _status(self) -> dict[str, int]:
        """What MariaDB has counted so far; others count elsewhere."""
        if not isinstance(self.database, MariadbDatabase):
            return {}
        found = self.database.server().variables("STATUS")
        return {name: int(value) for name, value in found.items() if value.isdigit()}


def _status_table(grown: Mapping[str, int]) -> pa.Table:
    """Counters of SHOW GLOBAL STATUS, by how much they grew over the timed part."""
    import pyarrow as pa

    return typed_table(sorted(grown.items()), {"name": pa.string(), "grown": pa.int64()})


def _status_metrics(grown: Mapping[str, int], committed: int) -> dict[str, Metric]:
    return {
        f"{name.lower()}_per_transaction": Metric(value=grown[name] / committed, unit=unit)
        for name, unit in STATUS.items()
        if name in grown
    }
