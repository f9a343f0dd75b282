"""Order entry like TPC-C's: pgbench runs the five transactions by their shares.

The way of a run is pgbench's (nfslab.workloads.pgbench.workload). What is its own: the tables, the
metrics by kind of transaction, and what has to be true before and after (clauses 3.3.2, 5.2).

New orders are counted in the database, D_NEXT_O_ID before and after the timed part: one in a
hundred is rolled back and is none. Response times are pgbench's, of one call each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nfslab.machine.availability import Availability
from nfslab.results.records import CheckRecord, LoadShape, Metric, Verdict
from nfslab.workloads.pgbench import outcome
from nfslab.workloads.pgbench.transaction_log import OK
from nfslab.workloads.pgbench.workload import EMPTY_CLUSTER_BYTES, PgbenchWorkload
from nfslab.workloads.tpcc import conditions, pacing
from nfslab.workloads.tpcc.machine_use import MachineUse
from nfslab.workloads.tpcc.parameters import MIX, TERMINALS, TpccParameters
from nfslab.workloads.tpcc.rows import CUSTOMERS, DISTRICTS
from nfslab.workloads.tpcc.scripts import write_scripts
from nfslab.workloads.tpcc.tables import TpccTables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
LEAST_SHARES: Final = {"payment": 0.43, "order_status": 0.04, "delivery": 0.04, "stock_level": 0.04}
"""Clause 5.2.3."""
LIMITS_S: Final = {"new_order": 5.0, "payment": 5.0, "order_status": 5.0, "delivery": 80.0,
                   "stock_level": 20.0}  # fmt: skip
"""Nine in ten have to be done within this (clauses 5.2.5.3, 5.2.5.4)."""
ROLLED_BACK: Final = 0.01
"""Of the new orders (clause 2.4.1.4)."""
SIGMAS: Final = 4.0
"""Shares are drawn: beyond so many standard deviations they are not those asked for."""
SIGMAS_LOST: Final = 6.0
"""The same of orders that are not there, which fails a run: by chance once in 10^9 of them."""
LIKE: Final = "like TPC-C, not TPC-C: not comparable with published TPC results"


class TpccWorkload(PgbenchWorkload):
    """New orders, payments, deliveries on nine tables."""

    kind: ClassVar[str] = "tpcc"
    summary: ClassVar[str] = "PostgreSQL under order entry like TPC-C's (DBT-2)"
    Parameters: ClassVar[type[WorkloadParameters]] = TpccParameters

    def __init__(self, parameters: WorkloadParameters) -> None:
        assert isinstance(parameters, TpccParameters)
        super().__init__(parameters)
        self.asked = parameters
        self._driver = parameters.driver()
        self._orders_before = self._new_orders = 0
        self._before = MachineUse.now()
        self._used: dict[str, Metric] = {}

    @property
    def driver(self) -> PgbenchParameters:
        """What pgbench has to do; with its scripts once the run is prepared."""
        return self._driver

    def check(self) -> Availability:
        """As pgbench's; are tables and scripts those of the experiment?"""
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
        data = EMPTY_CLUSTER_BYTES + p.warehouses * BYTES_PER_WAREHOUSE
        wal = (80 << 20) + min(1_200 << 20, int(WAL_BYTES_PER_S * (p.duration + p.warm_up)))
        if p.wal is None or p.wal == p.data:
            return {"data": data + wal}
        return {"data": data, "wal": wal}

    def tables(self) -> Tables:
        """The nine tables."""
        return TpccTables(self.asked.warehouses)

    def prepare(self, context: RunContext) -> None:
        """As pgbench's; what a reader has to know of this load."""
        super().prepare(context)
        p = self.asked
        context.notes.append(LIKE)
        context.notes.append(told_pace(p))
        if p.homes == "fixed" and p.terminals < p.warehouses:
            context.notes.append(
                f"{p.terminals} terminals are at home in as many of the {p.warehouses} warehouses: "
                'homes = "random" works in all'
            )

    def before_load(self) -> None:
        """Orders that there are before the timed part; the machine's counters."""
        self._orders_before = self._orders()
        self._before = MachineUse.now()

    def after_load(self) -> None:
        """What there is more behind it."""
        self._used = MachineUse.now().since(self._before)
        self._new_orders = self._orders() - self._orders_before

    def _orders(self) -> int:
        import psycopg

        try:
            with self.server().connect() as connection:
                row = connection.execute("SELECT sum(d_next_o_id) FROM district").fetchone()
        except psycopg.Error as error:
            raise self.server().death("orders could not be counted", str(error)) from error
        assert row is not None
        return int(row[0])

    def operations(
        self, log: TransactionLog, run: PgbenchRun, seconds: float
    ) -> tuple[TransactionLog, PgbenchRun]:
        """Transactions, without the pauses between them."""
        return pacing.without_pauses(log, run, seconds) if self.asked.think else (log, run)

    def metrics(self, log: TransactionLog, run: PgbenchRun) -> dict[str, Metric]:
        """New orders a minute first; then pgbench's numbers, and those of each transaction."""
        from nfslab.statistics.quantile_estimator import quantiles

        whole = outcome.metrics(log, run, self.driver)
        minutes = run.printed.measured_s / 60
        new_orders = self._new_orders
        found = {
            "new_orders_per_min": Metric(
                value=new_orders / minutes, unit="1/min", better="higher", primary=True
            ),
            "new_orders": Metric(value=new_orders, unit="1"),
        }
        for script, name in enumerate(MIX):
            mine = (log.script == script) & (log.status == OK)
            count = int(mine.sum())
            found[f"{name}_per_min"] = Metric(value=count / minutes, unit="1/min", better="higher")
            if name == "new_order":
                found["rolled_back"] = Metric(value=count - new_orders, unit="1")
            if not count:
                continue
            levels = (0.5, 0.9, 0.99)
            for level, one in zip(levels, quantiles(log.latency_us[mine], levels), strict=True):
                found[f"{name}_p{100 * level:.0f}_ms"] = Metric(
                    value=one.value / 1000, unit="ms", better="lower"
                )
        tps = whole.pop("tps")
        tps = tps.model_copy(update={"primary": False})
        return found | {"tps": tps} | whole | self._used

    def checks(self, log: TransactionLog, run: PgbenchRun) -> list[CheckRecord]:
        """Shares and response times (clause 5.2)."""
        ok = log.status == OK
        counts = {name: int((ok & (log.script == n)).sum()) for n, name in enumerate(MIX)}
        within = {
            name: float((log.latency_us[ok & (log.script == n)] <= LIMITS_S[name] * 1e6).mean())
            for n, name in enumerate(MIX)
            if counts[name]
        }
        found = [check_mix(counts), check_response(within)]
        if self.asked.think:
            minutes = run.printed.measured_s / 60
            found.append(check_pace(self._new_orders, minutes, self.asked.warehouses))
        return found

    def invariant(
        self, connection: Any, committed: Mapping[str, int], uncounted: int
    ) -> CheckRecord:
        """The conditions that hold after transactions, and rows against what pgbench committed."""
        by_kind = dict(
            zip(MIX, (committed[str(path)] for path in self.driver.scripts), strict=True)
        )
        found = conditions.violations(connection, loaded=False)
        broken = conditions.told(found)
        rows = {
            name: int(connection.execute(query).fetchone()[0])
            for name, query in (
                ("orders", "SELECT count(*) FROM orders"),
                ("payments", "SELECT count(*) FROM history"),
            )
        }
        loaded = self.asked.warehouses * DISTRICTS * CUSTOMERS
        return check_database(
            broken,
            new_orders=rows["orders"] - loaded,
            payments=rows["payments"] - loaded,
            committed=by_kind,
            uncounted=uncounted,
        )


def check_mix(counts: Mapping[str, int]) -> CheckRecord:
    """Are the shares at least those of clause 5.2.3, as far as chance allows?"""
    total = sum(counts.values())
    shares = {name: count / total if total else 0.0 for name, count in counts.items()}
    low = [
        f"{name} {shares[name]:.2%} of {least:.0%}"
        for name, least in LEAST_SHARES.items()
        if shares[name] < least - SIGMAS * math.sqrt(least * (1 - least) / max(1, total))
    ]
    message = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    if low:
        message = f"fewer than clause 5.2.3 asks for: {', '.join(low)}"
    return _check("tpcc_mix", "warning" if low else "ok", message, shares)


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
    return _check("tpcc_pace", "warning" if beyond else "ok", message, values)


def check_response(within: Mapping[str, float]) -> CheckRecord:
    """Are nine in ten done within the limits of clause 5.2.5?"""
    late = [name for name, share in within.items() if share < 0.9]
    message = "nine in ten of each kind are within their limit"
    if late:
        listed = ", ".join(f"{name}: {within[name]:.1%} in {LIMITS_S[name]:g} s" for name in late)
        message = f"slower than clause 5.2.5 allows: {listed}"
    return _check("tpcc_response", "warning" if late else "ok", message, within)


def check_database(
    broken: str,
    *,
    new_orders: int,
    payments: int,
    committed: Mapping[str, int],
    uncounted: int = 0,
) -> CheckRecord:
    """Conditions, and rows against what was committed; `uncounted` more, of any kind, were."""
    wrong = [broken] if broken else []
    wrong += list(_counts(new_orders, payments, committed, uncounted))
    values = {
        "new_orders": new_orders,
        "payments": payments,
        **committed,
        "uncounted": uncounted,
    }
    if wrong:
        return _check("tpcc_consistency", "violation", "; ".join(wrong), values)
    message = (
        f"clause 3.3.2 holds (11 conditions); {new_orders} orders and {payments} payments are there"
    )
    return _check("tpcc_consistency", "ok", message, values)


def _counts(
    new_orders: int, payments: int, committed: Mapping[str, int], uncounted: int
) -> Iterator[str]:
    if not 0 <= payments - committed["payment"] <= uncounted:
        yield f"{payments} payments are there, {committed['payment']} were committed"
    tried = committed["new_order"]
    rolled_back = tried - new_orders
    error = SIGMAS_LOST * math.sqrt(tried * ROLLED_BACK * (1 - ROLLED_BACK)) + 1
    if rolled_back < -uncounted or abs(rolled_back - ROLLED_BACK * tried) > error + uncounted:
        yield f"{rolled_back} of {tried} new orders are not there, 1 % are rolled back"


def _check(
    name: str, verdict: Verdict, message: str, values: Mapping[str, float | int]
) -> CheckRecord:
    return CheckRecord(name=name, verdict=verdict, message=message, values=dict(values))
