"""What a run's transactions came to, on any engine: orders counted, numbers by kind, checks.

New orders are counted in the database, D_NEXT_O_ID before and after the timed part: one in a
hundred is rolled back and is none. Response times are the client's, of one transaction each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab.results.records import CheckRecord, Metric, Verdict
from nfslab.workloads.tpcc import conditions
from nfslab.workloads.tpcc.machine_use import MachineUse
from nfslab.workloads.tpcc.parameters import MIX
from nfslab.workloads.tpcc.rows import CUSTOMERS, DISTRICTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np
    import numpy.typing as npt

    from nfslab.databases.base import Database, Session

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


@dataclass(frozen=True, slots=True)
class Transactions:
    """Of a timed part, from any client's log."""

    script: npt.NDArray[np.int16]
    """Place in `MIX`."""
    ok: npt.NDArray[np.bool_]
    """It came to its end."""
    latency_ns: npt.NDArray[np.int64]

    def of(self, name: str) -> npt.NDArray[np.int64]:
        """Latencies of a kind's that came to their end."""
        mine: npt.NDArray[np.int64] = self.latency_ns[self.ok & (self.script == [*MIX].index(name))]
        return mine

    def counts(self) -> dict[str, int]:
        """Of each kind."""
        return {name: len(self.of(name)) for name in MIX}


class Tally:
    """New orders and the machine's counters over the timed part of a run."""

    def __init__(self, warehouses: int, database: Database) -> None:
        self._loaded = warehouses * DISTRICTS * CUSTOMERS
        self._database = database
        self.new_orders = self._orders_before = 0
        self._before = MachineUse.now()
        self._used: dict[str, Metric] = {}

    def begin(self) -> None:
        """Orders that there are before the timed part; the machine's counters."""
        self._orders_before = self._orders()
        self._before = MachineUse.now()

    def end(self) -> None:
        """What there is more behind it."""
        self._used = MachineUse.now().since(self._before)
        self.new_orders = self._orders() - self._orders_before

    def _orders(self) -> int:
        with self._database.session() as session:
            return number(session, "SELECT sum(d_next_o_id) FROM district")

    def metrics(self, done: Transactions, whole: dict[str, Metric]) -> dict[str, Metric]:
        """New orders a minute first; then the client's numbers, and those of each transaction."""
        from nfslab.statistics.quantile_estimator import quantiles

        minutes = whole["measured_s"].value / 60
        found = {
            "new_orders_per_min": Metric(
                value=self.new_orders / minutes, unit="1/min", better="higher", primary=True
            ),
            "new_orders": Metric(value=self.new_orders, unit="1"),
        }
        for name in MIX:
            mine = done.of(name)
            found[f"{name}_per_min"] = Metric(
                value=len(mine) / minutes, unit="1/min", better="higher"
            )
            if name == "new_order":
                found["rolled_back"] = Metric(value=len(mine) - self.new_orders, unit="1")
            if not len(mine):
                continue
            levels = (0.5, 0.9, 0.99)
            for level, one in zip(levels, quantiles(mine, levels), strict=True):
                found[f"{name}_p{100 * level:.0f}_ms"] = Metric(
                    value=one.value / 1e6, unit="ms", better="lower"
                )
        tps = whole["tps"].model_copy(update={"primary": False})
        return found | {"tps": tps} | {n: m for n, m in whole.items() if n != "tps"} | self._used

    def checks(self, done: Transactions) -> list[CheckRecord]:
        """Shares and response times (clause 5.2)."""
        within = {
            name: float((mine <= LIMITS_S[name] * 1e9).mean())
            for name in MIX
            if len(mine := done.of(name))
        }
        return [check_mix(done.counts()), check_response(within)]

    def invariant(
        self, session: Session, engine: str, committed: Mapping[str, int],
        *, uncounted: int = 0, rolled_back: int | None = None,
    ) -> CheckRecord:  # fmt: skip
        """The conditions that hold after transactions, and rows against what was committed."""
        broken = conditions.told(conditions.violations(session, engine, loaded=False))
        return check_database(
            broken,
            new_orders=number(session, "SELECT count(*) FROM orders") - self._loaded,
            payments=number(session, "SELECT count(*) FROM history") - self._loaded,
            committed=committed,
            uncounted=uncounted,
            rolled_back=rolled_back,
        )


def number(session: Session, query: str) -> int:
    """What a query of one number yields."""
    return int(session.rows(query)[0][0])


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
    return check("tpcc_mix", "warning" if low else "ok", message, shares)


def check_response(within: Mapping[str, float]) -> CheckRecord:
    """Are nine in ten done within the limits of clause 5.2.5?"""
    late = [name for name, share in within.items() if share < 0.9]
    message = "nine in ten of each kind are within their limit"
    if late:
        listed = ", ".join(f"{name}: {within[name]:.1%} in {LIMITS_S[name]:g} s" for name in late)
        message = f"slower than clause 5.2.5 allows: {listed}"
    return check("tpcc_response", "warning" if late else "ok", message, within)


def check_database(
    broken: str,
    *,
    new_orders: int,
    payments: int,
    committed: Mapping[str, int],
    uncounted: int = 0,
    rolled_back: int | None = None,
) -> CheckRecord:
    """Conditions, and rows against what was committed; `uncounted` more, of any kind, were.

    `rolled_back`: of the new orders; None: the client does not know, it is one in a hundred.
    """
    wrong = [broken] if broken else []
    if not 0 <= payments - committed["payment"] <= uncounted:
        wrong.append(f"{payments} payments are there, {committed['payment']} were committed")
    wrong += _orders_lost(new_orders, committed["new_order"], uncounted, rolled_back)
    values = {
        "new_orders": new_orders,
        "payments": payments,
        **committed,
        "uncounted": uncounted,
    }
    if rolled_back is not None:
        values["rolled_back"] = rolled_back
    if wrong:
        return check("tpcc_consistency", "violation", "; ".join(wrong), values)
    message = (
        f"clause 3.3.2 holds (11 conditions); {new_orders} orders and {payments} payments are there"
    )
    return check("tpcc_consistency", "ok", message, values)


def _orders_lost(
    new_orders: int, tried: int, uncounted: int, rolled_back: int | None
) -> Iterator[str]:
    missing = tried - new_orders
    if rolled_back is not None:
        if missing != rolled_back:
            yield f"{missing} of {tried} new orders are not there, {rolled_back} were rolled back"
        return
    error = SIGMAS_LOST * math.sqrt(tried * ROLLED_BACK * (1 - ROLLED_BACK)) + 1
    if missing < -uncounted or abs(missing - ROLLED_BACK * tried) > error + uncounted:
        yield f"{missing} of {tried} new orders are not there, 1 % are rolled back"


def check(
    name: str, verdict: Verdict, message: str, values: Mapping[str, float | int]
) -> CheckRecord:
    """Of this workload."""
    return CheckRecord(name=name, verdict=verdict, message=message, values=dict(values))
