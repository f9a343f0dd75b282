"""The way of a run that sysbench drives, on any engine.

tps is committed transactions by the time from the first one's begin to the last one's end, by the
client's own clock readings; sysbench's count of events has to agree with its log.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol

from nfslab.databases.base import LATE_SESSIONS
from nfslab.databases.mariadb.database import MariadbDatabase
from nfslab.machine.availability import Availability
from nfslab.results.core_tables import typed_table
from nfslab.results.records import LoadShape, Metric
from nfslab.workloads.base import Outcome, Workload
from nfslab.workloads.pgbench.execution import server_cpu_s
from nfslab.workloads.pgbench.outcome import latency_histogram
from nfslab.workloads.sysbench import client, rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from nfslab.databases.base import Database
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.results.records import CheckRecord
    from nfslab.workloads.base import RunContext

STATUS: Final = {
    "Innodb_data_fsyncs": "1",
    "Innodb_log_writes": "1",
    "Innodb_os_log_written": "bytes",
    "Innodb_data_reads": "1",
    "Innodb_data_writes": "1",
    "Innodb_pages_written": "1",
}
"""Counters of MariaDB's that become metrics, for each transaction."""


class Asked(Protocol):
    """What any such load says of itself."""

    @property
    def clients(self) -> int:
        """Connections, each with a thread of its own."""

    @property
    def duration(self) -> float:
        """Whole seconds."""

    @property
    def warm_up(self) -> float:
        """Whole seconds of the same load before the timed part."""


class SysbenchWorkload(Workload):
    """A script of ours on a database of the run's own."""

    roles: ClassVar[tuple[str, ...]] = ("data", "wal")
    files_on: ClassVar[Literal["client", "server"]] = "server"

    @property
    @abstractmethod
    def asked(self) -> Asked:
        """What the experiment file says."""

    @property
    @abstractmethod
    def database(self) -> Database:
        """Of the engine asked for."""

    @abstractmethod
    def load(self) -> client.Load:
        """What sysbench does, with the database up."""

    def load_shape(self) -> LoadShape:
        """Closed: a client waits for its answer."""
        return LoadShape(kind="closed", clients=self.asked.clients)

    @abstractmethod
    def count(self, done: rows.Transactions) -> None:
        """Called with the transactions of each sysbench: the warm-up's, too."""

    def before_load(self) -> None:
        """Called just before the timed part, with the server warm."""
        return

    def after_load(self) -> None:
        """Called just behind it."""
        return

    def metrics(self, done: rows.Transactions, whole: dict[str, Metric]) -> dict[str, Metric]:
        """The run's numbers, of those of any script (`whole`)."""
        return whole

    def checks(self, done: rows.Transactions) -> list[CheckRecord]:
        """Of what sysbench did, beyond its own count."""
        return []

    def check_host(self, kind: str) -> Availability:
        """It goes by private sockets, and SQLite is no server at all."""
        if kind != "local":
            return Availability(
                False, f'kind = "{self.kind}" runs on this machine', "leave client.host"
            )
        return Availability(True)

    def owner(self) -> int | None:
        """Servers refuse to run as root."""
        return self.database.owner()

    def measure(self, context: RunContext) -> Outcome:
        """Warm-up, then the timed sysbench; its log becomes the samples."""
        p = self.asked
        if p.warm_up:
            with context.phase("warm-up"):
                self._run(context, "warm-up", context.seed + 1, p.warm_up)
            context.notes.append(
                f"a warm-up of {p.warm_up:g} s came before the timed part, and is not counted"
            )
            if not self.database.clients_are_gone():
                context.notes.append(LATE_SESSIONS)
        service = context.services.database
        self.before_load()
        before, status = self._server_cpu_s(context), self._status()
        with context.timed() as part, context.phase("sysbench"):
            watcher = part.watcher if service is None else None
            done = self._run(context, "sysbench", context.seed, p.duration, watcher)
        after = self._server_cpu_s(context)
        spent = after - before if before is not None and after is not None else None
        grown = {name: value - status[name] for name, value in self._status().items() if status}
        self.after_load()
        found = self.metrics(done.rows, rows.metrics(done.rows, done.cpu_s, spent))
        part.was(done.rows.start_ns, done.rows.end_ns)
        samples = {
            "transactions": done.rows.table(),
            "latency_histogram": latency_histogram(done.rows.latency_ns[~done.rows.failed]),
        }
        if grown:
            samples["server_status"] = _status_table(grown)
            found |= _status_metrics(grown, done.rows.committed)
        return Outcome(
            metrics=found,
            samples=samples,
            operations="transactions",
            checks=[
                rows.check_rows(f"{self.kind}_log", done.rows, done.printed),
                *self.checks(done.rows),
            ],
        )

    def _run(
        self, context: RunContext, name: str, seed: int, seconds: float,
        watcher: LaunchWatcher | None = None,
    ) -> client.ClientRun:  # fmt: skip
        load, log = self.load(), context.logs / f"{name}.rows"
        argv = load.command(seed=seed, seconds=seconds, log=log)
        done = client.run(context, self.database, argv, name, load.clients, watcher)
        self.count(done.rows)
        return done

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
