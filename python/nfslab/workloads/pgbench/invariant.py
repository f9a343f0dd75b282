"""Is what was measured true: did the database do every transaction, and only those?

pgbench's TPC-B moves one amount through four tables in each transaction, so after any
number of them (TPC-B 1990, clause 2.2.3.2, as far as pgbench's tables go):

    sum of account balances = sum of the history's deltas     (both update scripts)
    rows of the history     = committed transactions           (both update scripts)
    sum of teller balances  = sum of branch balances           (always)
    ... and both equal the history's deltas when tpcb-like was the only script

A select-only run has to leave all of it at zero. Scripts of one's own may do anything:
there the check does not apply, and says so. A storage that loses a write that was
reported as stable is seen here only if the server had to read it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab.results.records import CheckRecord

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import psycopg

    from nfslab.databases.base import Session

NAME: Final = "tpcb_invariant"
UPDATING: Final = frozenset({"tpcb-like", "simple-update"})
SUMS: Final = {
    "accounts": "SELECT coalesce(sum(abalance), 0) FROM pgbench_accounts",
    "tellers": "SELECT coalesce(sum(tbalance), 0) FROM pgbench_tellers",
    "branches": "SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches",
    "history": "SELECT coalesce(sum(delta), 0) FROM pgbench_history",
    "history_rows": "SELECT count(*) FROM pgbench_history",
}


@dataclass(frozen=True, slots=True)
class Balances:
    """The four sums and the number of history rows."""

    accounts: int
    tellers: int
    branches: int
    history: int
    history_rows: int


def read_balances(connection: psycopg.Connection[Any]) -> Balances:
    """Read all five in one snapshot."""
    values: dict[str, int] = {}
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for name, query in SUMS.items():
            row = connection.execute(query).fetchone()
            assert row is not None
            values[name] = int(row[0])
    return Balances(**values)


def balances_at_rest(session: Session) -> Balances:
    """The same of any engine, when nobody else is at work."""
    return Balances(**{name: int(session.rows(query)[0][0]) for name, query in SUMS.items()})


def check_balances(
    balances: Balances | None, committed: Mapping[str, int], uncounted: int = 0
) -> CheckRecord:
    """Compare with the committed transactions of each built-in script (warm-up included).

    `uncounted`: so many more were committed, nobody knows of which script.
    None instead of balances: scripts of one's own ran, the check does not apply.
    """
    if balances is None:
        return CheckRecord(
            name=NAME,
            verdict="unknown",
            message="not applicable: own scripts may change the tables in other ways",
            values={"applicable": False},
        )
    b = balances
    least = sum(count for name, count in committed.items() if name in UPDATING)
    expected_rows = min(max(b.history_rows, least), least + uncounted)
    only_tpcb = committed.get("simple-update", 0) == 0
    rules = [
        ("accounts and history", b.accounts, b.history),
        ("tellers and branches", b.tellers, b.branches),
        ("history rows and committed transactions", b.history_rows, expected_rows),
    ]
    if only_tpcb:
        rules.append(("branches and history", b.branches, b.history))
    if committed.get("tpcb-like", 0) == 0:
        rules.append(("branches and nothing", b.branches, 0))
    broken = [f"{what}: {left} and {right}" for what, left, right in rules if left != right]
    values = {
        "accounts": b.accounts,
        "tellers": b.tellers,
        "branches": b.branches,
        "history": b.history,
        "history_rows": b.history_rows,
        "committed": expected_rows,
        "applicable": True,
    }
    if broken:
        return CheckRecord(
            name=NAME,
            verdict="violation",
            message="the database does not hold what was committed; "
            "these should be equal: " + "; ".join(broken),
            values=values,
        )
    return CheckRecord(
        name=NAME,
        verdict="ok",
        message=f"balances and history agree with {expected_rows} committed transactions",
        values=values,
    )
