"""Keying and think times: the book's figures, and pauses that are no transactions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nfslab.workloads.pgbench.execution import PgbenchRun
from nfslab.workloads.pgbench.printed import PrintedReport, ScriptReport
from nfslab.workloads.pgbench.statements import CommandReport
from nfslab.workloads.pgbench.transaction_log import TransactionLog
from nfslab.workloads.tpcc.parameters import MIX, TERMINALS
from nfslab.workloads.tpcc.postgres.pacing import (
    MOST_PER_WAREHOUSE,
    last_pause_s,
    mean_cycle_s,
    paced,
    without_pauses,
)
from nfslab.workloads.tpcc.postgres.workload import TpccOnPostgres, check_pace

from tests.workloads.postgres import needs_postgres
from tests.workloads.run_context import carry_out, run_of, unique_name
from tests.workloads.test_tpcc import workload

OK, FAILED = 0, 1


def test_ten_terminals_without_any_response_time_enter_what_the_specification_says() -> None:
    cycle_s = mean_cycle_s(MIX, 1.0)
    a_minute = TERMINALS * 60 / cycle_s * MIX["new_order"] / sum(MIX.values())
    assert a_minute == pytest.approx(MOST_PER_WAREHOUSE, abs=0.005)
    assert mean_cycle_s(MIX, 0.5) == pytest.approx(cycle_s / 2)


def test_the_longest_of_pauses() -> None:
    """Mean of the largest of n exponentials: the n-th harmonic number."""
    for terminals in (1, 10, 1000):
        harmonic = sum(1 / k for k in range(1, terminals + 1))
        assert last_pause_s(terminals, 1.0) == pytest.approx(18 + 12 * harmonic, rel=0.1)


def log_of(rows: list[tuple[int, int, int, int]]) -> TransactionLog:
    """(client, number, script, status), a second apart."""
    client, number, script, status = np.array(rows).T
    seconds = np.arange(1, len(rows) + 1, dtype=np.int64)
    return TransactionLog(
        completed_us=seconds * 1_000_000,
        client=client.astype(np.int32),
        transaction=number,
        latency_us=np.where(status == OK, seconds * 1000, 0),
        script=script.astype(np.int16),
        status=status.astype(np.int8),
        lag_us=None,
        retries=np.zeros(len(rows), np.int32),
    )


@pytest.mark.parametrize("first", [0, 1])
def test_every_other_turn_of_a_client_is_a_transaction(first: int) -> None:
    turns = [
        (0, 0, 1, OK), (1, 0, 0, OK),  # both begin with a pause
        (0, 1, 0, FAILED), (1, 1, 1, OK),  # what failed is followed by a transaction
        (0, 2, 0, OK), (0, 3, 0, OK), (1, 2, 0, OK),
    ]  # fmt: skip
    commands = [CommandReport(text, 5, 0, 0) for text in ("\\if :pausing", "\\sleep :pause us",
                "\\else", "\\set w 1", "CALL x();", "\\set pausing 1", "\\endif")]  # fmt: skip
    printed = PrintedReport(
        processed=6, failed=1, tps=3.0, connections_included=False, latency_mean_ms=9.0,
        scripts=[ScriptReport("a", 4), ScriptReport("b", 2)], statements=[commands, commands],
    )  # fmt: skip
    run = PgbenchRun(printed, 0, (0, 0), 1.0, None)
    log, run = without_pauses(
        log_of([(client, number + first, *rest) for client, number, *rest in turns]), run, 4.0
    )
    assert list(log.completed_us) == [3_000_000, 4_000_000, 5_000_000]
    assert list(log.status) == [FAILED, OK, OK]
    assert (run.printed.processed, run.printed.failed, run.printed.measured_s) == (2, 1, 4.0)
    assert [one.processed for one in run.printed.scripts] == [1, 1]
    assert [[one.text for one in part] for part in run.printed.statements] == [
        ["\\set w 1", "CALL x();"]
    ] * 2


def test_a_script_says_last_that_it_pauses_next() -> None:
    """What is tried again begins at the first line, with the variables as they are then."""
    text = paced("\\set w 1\nCALL x();\n", "payment", 1.0)
    said = "\\set keying 3000000\n\\set longest 120000000\n\\set pausing 1\n\\endif\n"
    assert text.endswith(f"CALL x();\n{said}")


@needs_postgres
@pytest.mark.long
def test_a_paced_run(scratch: Path) -> None:
    """`tpcc_consistency`: the rows in the database are those of the turns taken for transactions.

    With one try, transactions fail and skip the rest of their script.
    """
    think, terminals, seconds = 0.004, 20, 3
    work: TpccOnPostgres = workload(
        think=think, terminals=terminals, duration=seconds, warm_up=1, warehouses=1,
        isolation="serializable", max_tries=1, load="fresh",
    )  # fmt: skip
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
        assert any("load: 9 of 9 parts" in text for text in run.said)
    metrics = {key: metric.value for key, metric in outcome.metrics.items()}
    assert metrics["measured_s"] == pytest.approx(seconds)
    assert checks["pgbench_log"].verdict == checks["tpcc_consistency"].verdict == "ok", checks
    assert checks["tpcc_pace"].verdict == "warning", "0.004 of the book's times are not the book"
    assert metrics["failed"] > 0
    turns = metrics["transactions"] + metrics["failed"]
    offered = terminals * seconds / mean_cycle_s(MIX, think)
    # A pause leads to one transaction that ends well; what fails is followed by the next at once.
    # No more than terminals without any response time: pauses are drawn, so within 6 sigma.
    assert 0 < metrics["transactions"] < offered + 6 * offered**0.5
    table = outcome.samples["transactions"]
    assert len(table) == turns
    assert min(table["t_ns"].to_pylist()) >= 0


def test_more_than_the_book_allows_is_told() -> None:
    assert check_pace(new_orders=257, minutes=10, warehouses=2).verdict == "ok"
    assert check_pace(new_orders=310, minutes=10, warehouses=2).verdict == "ok", "by chance"
    assert check_pace(new_orders=330, minutes=10, warehouses=2).verdict == "warning"
