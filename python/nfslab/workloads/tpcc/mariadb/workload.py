"""Order entry like TPC-C's on MariaDB: sysbench runs the five transactions by their shares.

The way of a run is sysbench's (nfslab.workloads.sysbench.driven); each transaction is one call of
a procedure. The client knows which new orders it has had rolled back: rows are counted exactly.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.databases.mariadb.database import MariadbDatabase, MariadbOptions
from nfslab.workloads.sysbench import client
from nfslab.workloads.sysbench.driven import SysbenchWorkload
from nfslab.workloads.sysbench.rows import ENDED_ROLLED_BACK
from nfslab.workloads.tpcc.mariadb.files import SCRIPT
from nfslab.workloads.tpcc.mariadb.tables import MariadbTpccTables
from nfslab.workloads.tpcc.parameters import CONSTANTS, TpccParameters
from nfslab.workloads.tpcc.tally import Tally, Transactions

if TYPE_CHECKING:
    from nfslab.machine.availability import Availability
    from nfslab.results.records import CheckRecord, Metric
    from nfslab.workloads.base import Outcome, RunContext, WorkloadParameters
    from nfslab.workloads.sysbench import rows

DATABASE: Final = "tpcc"
BYTES_PER_WAREHOUSE: Final = 130 << 20
LOAD_S_PER_WAREHOUSE: Final = 12.0
COPY_S_PER_WAREHOUSE: Final = 0.4
CHECK_S_PER_WAREHOUSE: Final = 3.0


class TpccOnMariadb(SysbenchWorkload):
    """By sysbench."""

    kind: ClassVar[str] = "tpcc"
    Parameters: ClassVar[type[WorkloadParameters]] = TpccParameters
    engine = "mariadb"

    def __init__(self, parameters: WorkloadParameters) -> None:
        assert isinstance(parameters, TpccParameters)
        super().__init__(parameters)
        self._asked = parameters
        self._tally = Tally(parameters.warehouses, self.database)
        self._committed: Counter[str] = Counter()
        self._rolled_back = 0
        self._verified = False

    @property
    def asked(self) -> TpccParameters:
        """As it was given."""
        return self._asked

    @cached_property
    def database(self) -> MariadbDatabase:
        """Its MariaDB."""
        p = self.asked
        isolation = p.isolation.upper().replace(" ", "-")
        settings = {"transaction_isolation": isolation} | p.mariadb
        return MariadbDatabase(MariadbOptions(p.terminals, DATABASE, p.load, settings))

    @classmethod
    def available(cls) -> Availability:
        """Is sysbench here, with its driver?"""
        return client.available("mysql")

    def check(self) -> Availability:
        """The experiment's own definition, sysbench, MariaDB, its opinion of the settings."""
        for check in (self.asked.check_defined, self.available, self.database.check):
            if not (found := check()).ok:
                break
        return found

    def estimate_s(self) -> float:
        """Restore, start, run and check; loading once is shared by many runs."""
        p = self.asked
        each = LOAD_S_PER_WAREHOUSE if p.load == "fresh" else COPY_S_PER_WAREHOUSE
        return p.duration + p.warm_up + 3.0 + p.warehouses * (each + CHECK_S_PER_WAREHOUSE)

    def estimate_bytes(self) -> dict[str, int]:
        """Data by warehouses; the redo log is as large as it is made."""
        p = self.asked
        data = self.database.empty_bytes + p.warehouses * BYTES_PER_WAREHOUSE
        if p.wal is None or p.wal == p.data:
            return {"data": data + self.database.log_bytes}
        return {"data": data, "wal": self.database.log_bytes}

    def prepare(self, context: RunContext) -> None:
        """The database on its places, a server up."""
        self._committed, self._rolled_back, self._verified = Counter(), 0, False
        context.services.engine = self.engine
        self.database.bring_up(context, MariadbTpccTables(self.asked.warehouses))
        pace = "no keying and think times: a load of its own, not that of users"
        context.notes += [pace, *self.asked.notes()]

    def load(self) -> client.Load:
        """Its script, where the server is."""
        p = self.asked
        own = {"warehouses": p.warehouses, "fixed_homes": int(p.homes == "fixed")}
        reached = client.at_mariadb(self.database.server(), DATABASE)
        return client.Load(SCRIPT, p.terminals, p.max_tries, reached, CONSTANTS | own)

    def before_load(self) -> None:
        """Orders and the machine's counters."""
        self._tally.begin()

    def after_load(self) -> None:
        """What there is more."""
        self._tally.end()

    def count(self, done: rows.Transactions) -> None:
        """For what the database has to hold."""
        self._committed.update(_transactions(done).counts())
        self._rolled_back += int((done.ended == ENDED_ROLLED_BACK).sum())

    def metrics(self, done: rows.Transactions, whole: dict[str, Metric]) -> dict[str, Metric]:
        """New orders a minute first."""
        return self._tally.metrics(_transactions(done), whole)

    def checks(self, done: rows.Transactions) -> list[CheckRecord]:
        """Shares and response times."""
        return self._tally.checks(_transactions(done))

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """The conditions, and rows against what sysbench committed."""
        with context.phase("invariant"), self.database.session() as session:
            session.rows(f"SET SESSION max_statement_time = {max(1, int(context.remaining_s()))}")
            found = self._tally.invariant(
                session, self.engine, self._committed, rolled_back=self._rolled_back
            )
        self._verified = True
        return [found]

    def finish(self, context: RunContext) -> None:
        """Stop the server: in peace after a verified run, at once otherwise."""
        self.database.stop(hurry=not self._verified)


def _transactions(done: rows.Transactions) -> Transactions:
    return Transactions(done.script, ~done.failed, done.latency_ns)
