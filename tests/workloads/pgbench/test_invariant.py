"""The TPC-B invariant: what it says of each kind of load, and a planted violation."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.workloads.pgbench.invariant import Balances, check_balances
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.workloads.postgres import needs_postgres
from tests.workloads.run_context import run_of


@pytest.mark.parametrize(
    ("balances", "committed", "verdict"),
    [
        (Balances(7, 7, 7, 7, 3), {"tpcb-like": 3}, "ok"),
        (Balances(8, 7, 7, 7, 3), {"tpcb-like": 3}, "violation"),
        (Balances(7, 8, 7, 7, 3), {"tpcb-like": 3}, "violation"),
        (Balances(7, 7, 8, 7, 3), {"tpcb-like": 3}, "violation"),
        (Balances(7, 7, 7, 8, 3), {"tpcb-like": 3}, "violation"),
        (Balances(7, 7, 7, 7, 2), {"tpcb-like": 3}, "violation"),  # a commit was lost
        (Balances(7, 7, 7, 7, 4), {"tpcb-like": 3}, "violation"),  # one was done twice
        (Balances(8, 8, 8, 7, 3), {"tpcb-like": 3}, "violation"),  # a history row's delta
        (Balances(7, 0, 0, 7, 3), {"simple-update": 3}, "ok"),
        (Balances(7, 1, 1, 7, 3), {"simple-update": 3}, "violation"),
        (Balances(7, 5, 5, 7, 3), {"simple-update": 1, "tpcb-like": 2}, "ok"),
        (Balances(7, 5, 4, 7, 3), {"simple-update": 1, "tpcb-like": 2}, "violation"),
        (Balances(0, 0, 0, 0, 0), {"select-only": 9}, "ok"),
        (Balances(1, 0, 0, 1, 1), {"select-only": 9}, "violation"),
    ],
)
def test_each_rule(balances: Balances, committed: dict[str, int], verdict: str) -> None:
    assert check_balances(balances, committed).verdict == verdict


@pytest.mark.parametrize(
    ("rows", "verdict"), [(2, "violation"), (3, "ok"), (5, "ok"), (6, "violation")]
)
def test_committed_ones_that_nobody_counted(rows: int, verdict: str) -> None:
    check = check_balances(Balances(7, 7, 7, 7, rows), {"tpcb-like": 3}, uncounted=2)
    assert check.verdict == verdict


def test_own_scripts_may_do_anything() -> None:
    check = check_balances(None, {"/x.sql": 3})
    assert (check.verdict, check.values["applicable"]) == ("unknown", False)


@needs_postgres
@pytest.mark.system
def test_a_planted_change_is_a_violation(scratch: Path) -> None:
    work = PgbenchWorkload(PgbenchParameters(data="disk", transactions=20))
    with run_of(work, scratch, name="harm", places={"data": scratch / "harm-data"}) as run:
        work.prepare(run.context)
        outcome = work.measure(run.context)
        assert work.verify(run.context, outcome)[0].verdict == "ok"
        for table, change in (
            ("accounts", "SET abalance = abalance {} 1 WHERE aid = 4711"),
            ("tellers", "SET tbalance = tbalance {} 1 WHERE tid = 3"),
            ("branches", "SET bbalance = bbalance {} 1 WHERE bid = 1"),
        ):
            with work.database.session() as session:
                session.rows(f"UPDATE pgbench_{table} {change.format('+')}")
                check = work.verify(run.context, outcome)[0]
                session.rows(f"UPDATE pgbench_{table} {change.format('-')}")
            assert check.verdict == "violation", table
            assert "should be equal" in check.message
        assert work.verify(run.context, outcome)[0].verdict == "ok"
        one = "(SELECT min(ctid) FROM pgbench_history)"
        with work.database.session() as session:
            session.rows(f"DELETE FROM pgbench_history WHERE ctid = {one}")
        assert work.verify(run.context, outcome)[0].verdict == "violation"
