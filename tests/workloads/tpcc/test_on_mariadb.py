"""Order entry on MariaDB: what a run leaves, what is tried again, what its checks find."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from nfslab.results.records import CheckRecord
from nfslab.workloads.base import Outcome
from nfslab.workloads.tpcc.mariadb.workload import TpccOnMariadb
from nfslab.workloads.tpcc.parameters import MIX

from tests.workloads.run_context import Run
from tests.workloads.tpcc.on_mariadb import prepared, row, session_of, workload

pytestmark = pytest.mark.long


def carry_out(work: TpccOnMariadb, run: Run) -> tuple[Outcome, dict[str, CheckRecord]]:
    outcome = work.measure(run.context)
    checks = outcome.checks + work.verify(run.context, outcome)
    return outcome, {check.name: check for check in checks}


@pytest.mark.parametrize("given", [{"warm_up": 1, "wal": "log"}])
def test_a_run(given: dict[str, Any], scratch: Path) -> None:
    work = workload(duration=2, **given)
    with prepared(work, scratch) as run:
        outcome, checks = carry_out(work, run)
        log = run.context.places["wal" if "wal" in given else "data"].path
        assert (log / "redo" / "ib_logfile0").stat().st_size > 0
        in_effect = run.context.places["data"].facts["mariadb"]["settings"]["tx_isolation"]
        assert in_effect == given.get("isolation", "read committed").upper().replace(" ", "-")
        with session_of(work) as session:
            (orders,) = row(session, "SELECT SUM(d_next_o_id - 3001) FROM district")
    metrics = {key: metric.value for key, metric in outcome.metrics.items()}
    assert [key for key, one in outcome.metrics.items() if one.primary] == ["new_orders_per_min"]
    # How many answers are slow is right to say of a busy machine.
    broken = {check.name for check in checks.values() if check.verdict != "ok"}
    assert broken <= {"tpcc_response"}, checks
    there = checks["tpcc_consistency"].values
    assert there["new_orders"] == orders
    assert orders >= metrics["new_orders"] > 0
    assert (orders > metrics["new_orders"]) == ("warm_up" in given), "which is in no metric"
    assert there["new_order"] - there["rolled_back"] == orders, "exactly"
    by_kind = Counter(outcome.samples["transactions"]["script"].to_pylist())
    for script, name in enumerate(MIX):
        assert metrics[f"{name}_per_min"] * metrics["measured_s"] / 60 == pytest.approx(
            by_kind[script]
        )
    assert by_kind.total() == metrics["transactions"]
    assert metrics["rolled_back"] == by_kind[0] - metrics["new_orders"]
    assert metrics["new_orders_per_min"] == pytest.approx(
        metrics["new_orders"] / metrics["measured_s"] * 60
    )
    assert metrics["payment_p50_ms"] <= metrics["payment_p90_ms"] <= metrics["payment_p99_ms"]
    assert metrics["failed"] == 0
    assert 0 < metrics["memory_used_pct"] < 100
    # The server counts calls for itself.
    grown = dict(zip(*outcome.samples["server_status"].to_pydict().values(), strict=True))
    assert grown["Com_call_procedure"] == metrics["transactions"] + metrics["retries"]


def test_a_lock_that_does_not_come_leaves_half_of_nothing(scratch: Path) -> None:
    """MariaDB rolls back one statement alone then: the procedure has to do the rest.

    District 1 is locked all the time; a payment has changed its warehouse before.
    """
    work = workload(max_tries=2, duration=2, mariadb={"innodb_lock_wait_timeout": 1})
    with prepared(work, scratch) as run:
        with session_of(work) as holding:
            holding.rows("START TRANSACTION")
            holding.rows("SELECT * FROM district WHERE d_id = 1 FOR UPDATE")
            outcome = work.measure(run.context)
            holding.rows("ROLLBACK")
        (check,) = work.verify(run.context, outcome)
    failed = outcome.metrics["failed"].value
    assert failed >= 1
    assert outcome.metrics["retries"].value >= failed
    assert outcome.samples["transactions"]["latency_ns"].null_count == failed
    assert check.verdict == "ok", check.message


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_id = 1 AND c_d_id = 1",
         "3.3.2.12 "),
        # The last order is lost as a whole: conditions hold, counts do not.
        ("lost", "new orders are not there"),
    ],
)  # fmt: skip
def test_a_planted_change_is_a_violation(harm: str, said: str, scratch: Path) -> None:
    work = workload()
    last = "(SELECT d_next_o_id - 1 FROM district WHERE d_id = 1)"
    lost = [
        f"DELETE FROM order_line WHERE ol_d_id = 1 AND ol_o_id = {last}",
        f"DELETE FROM orders WHERE o_d_id = 1 AND o_id = {last}",
        f"DELETE FROM new_order WHERE no_d_id = 1 AND no_o_id = {last}",
        "UPDATE district SET d_next_o_id = d_next_o_id - 1 WHERE d_id = 1",
    ]
    with prepared(work, scratch) as run:
        outcome = work.measure(run.context)
        with session_of(work) as session:
            for statement in lost if harm == "lost" else [harm]:
                session.rows(statement)
        (check,) = work.verify(run.context, outcome)
    assert check.verdict == "violation"
    assert said in check.message
    assert ("3.3.2." in check.message) == (harm != "lost")
