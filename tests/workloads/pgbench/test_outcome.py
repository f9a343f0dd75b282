"""From two accounts of a run to its figures: by hand, and what happens when they differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from nfslab.errors import RunFailed
from nfslab.workloads.pgbench.execution import PgbenchRun
from nfslab.workloads.pgbench.outcome import (
    check_log,
    clock_step_ns,
    disagreements,
    histogram_table,
    late_count,
    metrics,
    timed_part,
)
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.printed import PrintedReport, ScriptReport
from nfslab.workloads.pgbench.transaction_log import FAILED, OK, SKIPPED, TransactionLog

S_US = 10**6
EPOCH_US = 1_800_000_000 * S_US
BOOT_OFFSET_NS = EPOCH_US * 1000 - 500 * 10**9
"""The wall clock said EPOCH when the monotonic clock said 500 s."""


def log_of(*rows: tuple[int, int, int], lag: list[int] | None = None) -> TransactionLog:
    """(completion after EPOCH, latency, status), all of client 0, in microseconds."""
    columns = list(zip(*rows, strict=True))
    count = len(rows)
    return TransactionLog(
        completed_us=np.asarray(columns[0], np.int64) + EPOCH_US,
        client=np.zeros(count, np.int32),
        transaction=np.arange(1, count + 1),
        latency_us=np.asarray(columns[1], np.int64),
        script=np.zeros(count, np.int16),
        status=np.asarray(columns[2], np.int8),
        lag_us=np.asarray(lag, np.int64) if lag is not None else None,
        retries=np.zeros(count, np.int32),
    )


FOUR = log_of((1000, 1000, OK), (3000, 2000, OK), (3500, 0, SKIPPED), (4000, 0, FAILED))
REPORT = PrintedReport(
    processed=2,
    tps=500.0,
    connections_included=False,
    failed=1,
    skipped=1,
    late=1,
    retries=0,
    latency_mean_ms=1.5,
    latency_measured=True,
    initial_connect_ms=3.0,
)
RUN = PgbenchRun(
    printed=REPORT,
    started_ns=500 * 10**9 - 5_000_000,
    realtime_offset_ns=(BOOT_OFFSET_NS, BOOT_OFFSET_NS + 10),
    client_cpu_s=0.01,
    server_cpu_s=0.02,
)


def parameters(**values: Any) -> PgbenchParameters:
    given = {"data": "d", "transactions": 4, "latency_limit": "1.5ms", "rate": 100, "max_tries": 2}
    return PgbenchParameters(**(given | values))


def printed(**changes: Any) -> PgbenchRun:
    return replace(RUN, printed=replace(REPORT, **changes))


def test_two_accounts_that_agree() -> None:
    assert disagreements(FOUR, RUN, parameters()) == []
    assert check_log(FOUR, RUN, parameters()).verdict == "ok"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"processed": 3}, "committed: 2 in the log, 3 printed"),
        ({"failed": 0}, "failed: 1 in the log, 0 printed"),
        ({"skipped": 2}, "skipped: 1 in the log, 2 printed"),
        ({"late": 0}, "late: 1 in the log, 0 printed"),
        ({"retries": 5}, "retries: 0 in the log, 5 printed"),
        ({"latency_mean_ms": 1.502}, "mean latency (ms): 1.5 in the log, 1.502 printed"),
        ({"scripts": [ScriptReport("a", 1)]}, "script 0: 2 in the log, 1 printed"),
    ],
)
def test_every_disagreement_fails_the_run(changes: dict[str, Any], words: str) -> None:
    check = check_log(FOUR, printed(**changes), parameters())
    assert check.verdict == "violation"
    assert words in check.message


@pytest.mark.parametrize(("counted", "agrees"), [(1, True), (2, True), (3, False)])
def test_several_threads_may_count_too_few_of_a_script(counted: int, agrees: bool) -> None:
    run = printed(scripts=[ScriptReport("a", counted)])
    two = parameters(clients=2, threads=2)
    assert (disagreements(FOUR, run, two) == []) is agrees


def test_a_mean_that_is_no_measured_one_is_not_compared() -> None:
    run = printed(latency_mean_ms=9.0, latency_measured=False)
    assert disagreements(FOUR, run, parameters()) == []


def test_rounding_of_the_printed_mean_is_no_disagreement() -> None:
    log = log_of((1000, 1000, OK), (3000, 1001, OK), (3500, 0, SKIPPED), (4000, 0, FAILED))
    for shown in (1.0, 1.001):  # 1.0005 ms, printed with three digits
        run = printed(latency_mean_ms=shown, late=0)
        assert disagreements(log, run, parameters()) == []


def test_a_gap_in_the_log_fails_the_run() -> None:
    log = replace(FOUR, transaction=np.asarray([1, 2, 4, 5]))
    assert "transaction 4 follows 2" in check_log(log, RUN, parameters()).message


def test_late_means_above_the_limit() -> None:
    log = log_of((0, 1499, OK), (1, 1500, OK), (2, 1501, OK), (3, 0, FAILED), (4, 0, SKIPPED))
    assert late_count(log, 0.0015) == 1
    # pgbench cuts the limit to whole microseconds: 1.5009 ms is 1500 us.
    assert late_count(log, 0.0015009) == 1
    assert late_count(log, 0.0014990) == 2


def test_figures_by_hand() -> None:
    values = {k: m.value for k, m in metrics(FOUR, RUN, parameters()).items()}
    assert values == {
        "tps": 500.0,
        "transactions": 2,
        "failed": 1,
        "skipped": 1,
        "late": 1,
        "retries": 0,
        "measured_s": 0.004,
        "latency_mean_ms": 1.5,
        "latency_p50_ms": 1.0,
        "latency_p90_ms": 2.0,
        "latency_p99_ms": 2.0,
        "latency_max_ms": 2.0,
        "initial_connect_ms": 3.0,
        "client_cpu_s_per_transaction": 0.005,
        "server_cpu_s_per_transaction": 0.01,
    }


def test_no_transaction_is_no_figure() -> None:
    log = log_of((3500, 0, SKIPPED), (4000, 0, FAILED))
    with pytest.raises(RunFailed, match="no transaction") as caught:
        metrics(log, printed(processed=0, tps=0.0), parameters())
    assert caught.value.why == "1 failed, 1 skipped"


def test_the_timed_part_begins_with_the_first_transaction() -> None:
    timed = timed_part(FOUR, RUN, open_loop=False)
    assert timed.start_log_ns == EPOCH_US * 1000
    assert timed.start_ns == 500 * 10**9
    assert timed.end_ns - timed.start_ns == 4_000_000, "2 transactions at 500 a second"
    assert FOUR.table(timed.start_log_ns)["t_ns"].to_pylist() == [
        1_000_000,
        3_000_000,
        3_500_000,
        4_000_000,
    ]


def test_with_a_rate_the_first_one_may_come_later() -> None:
    """pgbench started 5 ms before, connecting took 3 ms: 2 ms before the first transaction.

    But the last one ended 4 ms after it, and the whole timed part is 4 ms: 0, not -2.
    """
    assert timed_part(FOUR, RUN, open_loop=True).start_ns == 500 * 10**9
    longer = printed(processed=2, tps=200.0)  # 10 ms
    assert timed_part(FOUR, longer, open_loop=True).start_ns == 500 * 10**9 - 2_000_000


def test_time_stamps_of_version_13_are_monotonic() -> None:
    log = replace(FOUR, completed_us=FOUR.completed_us - EPOCH_US + 500 * S_US)
    timed = timed_part(log, RUN, open_loop=False)
    assert timed.start_ns == timed.start_log_ns == 500 * 10**9


def test_a_moved_clock_is_told() -> None:
    assert clock_step_ns(RUN) == 0
    moved = replace(RUN, realtime_offset_ns=(BOOT_OFFSET_NS, BOOT_OFFSET_NS - 2_000_000))
    assert clock_step_ns(moved) == -2_000_000


def test_the_histogram_counts_every_committed_one() -> None:
    log = log_of((0, 0, OK), (1, 7, OK), (2, 7, OK), (3, 5_000_000_000, OK), (4, 0, FAILED))
    rows = histogram_table(log).to_pylist()
    assert rows[0] == {"low_ns": 0, "high_ns": 0, "count": 1}, "logged as 0 us"
    assert rows[1]["low_ns"] <= 7000 <= rows[1]["high_ns"]
    assert rows[1]["count"] == 2
    assert rows[-1]["high_ns"] is None, "more than an hour"
    assert sum(row["count"] for row in rows) == 4
