"""Order entry like TPC-C's on PostgreSQL: pgbench runs the five transactions by their shares.

The way of a run is pgbench's (nfslab.workloads.pgbench.workload). What is its own: the scripts, the
tables, and keying and think times.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.databases.postgres.database import PostgresSession
from nfslab.machine.availability import Availability
from nfslab.results.records import CheckRecord, LoadShape, Metric
from nfslab.workloads.base import Workload
from nfslab.workloads.pgbench import outcome
from nfslab.workloads.pgbench.transaction_log import OK
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from nfslab.workloads.tpcc.parameters import MIX, TERMINALS, TpccParameters
from nfslab.workloads.tpcc.postgres import pacing
from nfslab.workloads.tpcc.postgres.scripts import write_scripts
from nfslab.workloads.tpcc.postgres.tables import TpccTables
from nfslab.workloads.tpcc.tally import SIGMAS, Tally, Transactions, check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.databases.base import Tables
    from nfslab.workloads.base import RunContext, WorkloadParameters
    from nfslab.workloads.pgbench.execution import PgbenchRun
    from nfslab.workloads.pgbench.parameters import PgbenchParameters
    from nfslab.workloads.pgbench.transaction_log import TransactionLog

BYTES_PER_WAREHOUSE: Final = 105 << 20
LOAD_S_PER_WAREHOUSE: Final = 4.0
COPY_S_PER_WAREHOUSE: Final = 0.4
WAL_BYTES_PER_S: Final = 4 << 20
"""A bound for the estimate of space."""


class TpccOnPostgres(PgbenchWorkload):
    """By pgbench."""

    kind: ClassVar[str] = "tpcc"
    Parameters: ClassVar[type[WorkloadParameters]] = TpccParameters
    has_server: ClassVar[bool] = False

    def __init__(self, parameters: WorkloadParameters) -> None:
        assert isinstance(parameters, TpccParameters)
        super().__init__(parameters)
        self.asked = parameters
        self._driver = parameters.driver()
        self._tally = Tally(parameters.warehouses, self.database)

    @property
    def driver(self) -> PgbenchParameters:
        """What pgbench has to do; with its scripts once the run is prepared."""
        return self._driver

    def check(self) -> Availability:
        """Are tables and scripts those of the experiment, and is the engine here?"""
        same = self.asked.check_defined()
        return super().check() if same.ok else same

    def keep_scripts(self, context: RunContext) -> None:
        """They are written into the run's logs, and run from there."""
        scripts = write_scripts(context.logs, MIX, self.asked.calls, self.asked.think)
        self._driver = self.asked.driver(scripts)

    def load_shape(self) -> LoadShape:
        """Closed: a terminal waits for its answer. With think times it is mostly idle: open."""
        p = self.asked
        if not p.think:
            return LoadShape(kind="closed", clients=p.terminals, rate_per_s=None)
        rate = p.terminals / pacing.mean_cycle_s(MIX, p.think)
        return LoadShape(kind="open", clients=p.terminals, rate_per_s=rate)

    def estimate_s(self) -> float:
        """Restore, start, run and check; loading once is shared by many runs."""
        p = self.asked
        each = LOAD_S_PER_WAREHOUSE if p.load == "fresh" else COPY_S_PER_WAREHOUSE
        pauses = (1 + bool(p.warm_up)) * pacing.last_pause_s(p.terminals, p.think)
        return p.duration + p.warm_up + pauses + 3.0 + p.warehouses * (each + 1.0)

    def estimate_bytes(self) -> dict[str, int]:
        """Data by warehouses; the log by time."""
        p = self.asked
        data = self.database.empty_bytes + p.warehouses * BYTES_PER_WAREHOUSE
        written = min(1_200 << 20, int(WAL_BYTES_PER_S * (p.duration + p.warm_up)))
        wal = self.database.log_bytes + written
        if p.wal is None or p.wal == p.data:
            return {"data": data + wal}
        return {"data": data, "wal": wal}

    def tables(self) -> Tables:
        """The nine tables."""
        return TpccTables(self.asked.warehouses)

    def prepare(self, context: RunContext) -> None:
        """As pgbench's; what a reader has to know of this load."""
        super().prepare(context)
        context.notes += [told_pace(self.asked), *self.asked.notes()]

    def check_hosts(self, hosts: int, processes: int) -> Availability:
        """Its tally is of one program's transactions."""
        return Workload.check_hosts(self, hosts, processes)

    def before_load(self) -> None:
        """Orders and the machine's counters."""
        self._tally.begin()

    def after_load(self) -> None:
        """What there is more."""
        self._tally.end()

    def operations(
        self, log: TransactionLog, run: PgbenchRun, seconds: float
    ) -> tuple[TransactionLog, PgbenchRun]:
        """Transactions, without the pauses between them."""
        return pacing.without_pauses(log, run, seconds) if self.asked.think else (log, run)

    def metrics(self, log: TransactionLog, run: PgbenchRun) -> dict[str, Metric]:
        """New orders a minute first."""
        return self._tally.metrics(_done(log), outcome.metrics(log, run, self.driver))

    def checks(self, log: TransactionLog, run: PgbenchRun) -> list[CheckRecord]:
        """Shares and response times; the pace, where there is one."""
        found = self._tally.checks(_done(log))
        if self.asked.think:
            minutes = run.printed.measured_s / 60
            found.append(check_pace(self._tally.new_orders, minutes, self.asked.warehouses))
        return found

    def invariant(
        self, connection: Any, committed: Mapping[str, int], uncounted: int
    ) -> CheckRecord:
        """The conditions, and rows against what pgbench committed."""
        by_kind = dict(
            zip(MIX, (committed[str(path)] for path in self.driver.scripts), strict=True)
        )
        session = PostgresSession(self.database.server(), connection)
        return self._tally.invariant(session, "postgres", by_kind, uncounted=uncounted)


def _done(log: TransactionLog) -> Transactions:
    return Transactions(log.script, log.status == OK, log.latency_us * 1000)


def told_pace(p: TpccParameters) -> str:
    """What a reader has to know of the keying and think times."""
    if not p.think:
        return "no keying and think times: a load of its own, not that of users"
    book = TERMINALS * p.warehouses
    text = f"keying and think times are {p.think:g} of those of clause 5.2.5.7"
    if p.terminals != book:
        text += f"; {p.terminals} terminals, by clause 4.2.2 there are {book}"
    return f"{text}; pgbench runs on until its last pause is over, without a transaction"


def check_pace(new_orders: int, minutes: float, warehouses: int) -> CheckRecord:
    """Are there no more new orders than ten terminals of a warehouse can enter (clause 4.1)?"""
    most = pacing.MOST_PER_WAREHOUSE * warehouses
    rate = new_orders / minutes
    values = {"new_orders_per_min": rate, "most_per_min": most}
    message = f"{rate:.1f} new orders a minute, by the book at most {most:.1f}"
    beyond = new_orders > most * minutes + SIGMAS * math.sqrt(most * minutes)
    return check("tpcc_pace", "warning" if beyond else "ok", message, values)
