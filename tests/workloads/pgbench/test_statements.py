"""pgbench's report of each command: formats of 13 to 18, and what real ones print.

15 and 18: recorded here (Debian's 15.18 with several scripts, --max-tries and a statement of two
lines; 18.4 of the embedded PostgreSQL). 13 and 14: the format of their printf, "   %11.3f  %s".
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from nfslab.workloads.pgbench.outcome import statements
from nfslab.workloads.pgbench.printed import read_printed_report
from nfslab.workloads.pgbench.statements import read_statements

from tests.workloads.postgres import available, needs_postgres
from tests.workloads.run_context import carry_out, run_of, unique_name
from tests.workloads.test_pgbench import workload

VERSION_13 = """\
number of transactions actually processed: 10000/10000
latency average = 15.844 ms
tps = 622.977698 (excluding connections establishing)
statement latencies in milliseconds:
         0.002  \\set aid random(1, 100000 * :scale)
         0.326  BEGIN;
      1053.514  UPDATE pgbench_accounts SET abalance = 1;
"""
FAILURES_15 = """\
statement latencies in milliseconds and failures:
         0.001           0  \\set aid random(1, 100000 * :scale)
         0.235          12  BEGIN;
"""
RETRIES_18 = """\
number of transactions actually processed: 50/50
latency average = 1.1 ms
tps = 100.5 (without initial connection time)
SQL script 1: <builtin: TPC-B (sort of)>
 - weight: 2 (targets 66.7% of total)
 - 33 transactions (66.0% of total)
 - number of transactions actually processed: 31 (tps = 60.1)
 - latency average = 1.101 ms
 - statement latencies in milliseconds, failures and retries:
         0.304           2         110 BEGIN;
         1.002           0           0 1;
SQL script 2: /tmp/own script.sql
 - weight: 1 (targets 33.3% of total)
 - 17 transactions (34.0% of total)
 - number of transactions actually processed: 17 (tps = 40.1)
 - statement latencies in milliseconds, failures and retries:
        -nan           0           0 SELECT 1
         0.000           0           0 SELECT 'tps = 5 (x)'\x0ctps = 7 (x);
"""


def rows(text: str) -> list[list[tuple[str, int | None, int | None, int | None]]]:
    return [
        [(one.text, one.mean_ns, one.failures, one.retries) for one in script]
        for script in read_statements(text.split("\n"))
    ]


def test_the_three_formats() -> None:
    set_aid = "\\set aid random(1, 100000 * :scale)"
    assert rows(VERSION_13) == [
        [
            (set_aid, 2_000, None, None),
            ("BEGIN;", 326_000, None, None),
            ("UPDATE pgbench_accounts SET abalance = 1;", 1_053_514_000, None, None),
        ]
    ]
    assert rows(FAILURES_15) == [[(set_aid, 1_000, 0, None), ("BEGIN;", 235_000, 12, None)]]
    assert rows(RETRIES_18) == [
        [("BEGIN;", 304_000, 2, 110), ("1;", 1_002_000, 0, 0)],
        [("SELECT 1", None, 0, 0), ("SELECT 'tps = 5 (x)'\x0ctps = 7 (x);", 0, 0, 0)],
    ]
    assert rows("tps = 5 (x)\n") == []


def test_commands_change_nothing_of_the_report_around_them() -> None:
    """A command's text holds what some take for the end of a line, and a rate behind it."""
    report = read_printed_report(RETRIES_18)
    assert report.tps == 100.5
    assert [script.processed for script in report.scripts] == [31, 17]
    table = statements(report, ["tpcb-like", "/tmp/own script.sql"])
    assert table is not None
    assert table["script"].to_pylist() == [0, 0, 1, 1]
    assert table["position"].to_pylist() == [0, 1, 0, 1]
    assert table["transactions"].to_pylist() == [31, 31, 17, 17]
    assert table["script_name"].to_pylist()[2] == "own script.sql"
    assert table["mean_ns"].to_pylist() == [304_000, 1_002_000, None, 0]
    # Of scripts that are not all told there is no table, rather than a wrong one.
    assert statements(report, ["tpcb-like"]) is None
    assert statements(read_printed_report(VERSION_13.partition("statement")[0]), ["x"]) is None


OWN = """\
\\set n random(1, 10)
-- a comment before
SELECT abalance
  FROM pgbench_accounts
 WHERE aid = :n;
\\sleep 2 ms
SELECT 1;
SELECT 1;
SELECT '{long}';
"""


@needs_postgres
@pytest.mark.long
@pytest.mark.parametrize("postgres", ["system", "embedded"])
def test_real_ones_sum_to_the_mean_transaction(postgres: str, scratch: Path) -> None:
    """Two scripts; one has a statement of three lines, a pause, a statement twice, a long one."""
    if not available(postgres):
        pytest.skip(f"no PostgreSQL {postgres!r} here")
    script = scratch / "own.sql"
    script.write_text(OWN.format(long="x" * 300))
    work = workload(
        postgres=postgres, builtin={"select-only": 3}, scripts=[script], script_weights=[1],
        transactions=150, max_tries=2,
        # Several would add to a script's counts without a lock, and may lose some.
        threads=1,
    )  # fmt: skip
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
    assert {check.verdict for check in checks.values()} <= {"ok", "unknown"}
    table = outcome.samples["statements"].to_pylist()
    own = [row for row in table if row["script"] == 1]
    assert [row["text"] for row in own[:-1]] == [
        "\\set n random(1, 10)", "SELECT abalance", "\\sleep 2 ms", "SELECT 1;", "SELECT 1;",
    ]  # fmt: skip
    assert own[-1]["text"].startswith("SELECT 'xxxx")
    assert own[2]["mean_ns"] >= 2_000_000, "the pause is a command of its own"
    assert {(row["failures"], row["retries"]) for row in table} == {(0, 0)}
    counts = {row["script"]: row["transactions"] for row in table}
    logged = outcome.samples["transactions"]["script"].to_pylist()
    assert counts == {script: logged.count(script) for script in (0, 1)}
    # The mean of all is the commands' sum: to half of the last digit each, and little between.
    summed = sum(row["mean_ns"] * counts[row["script"]] for row in table) / sum(counts.values())
    mean_ns = outcome.metrics["latency_mean_ms"].value * 1e6
    assert summed <= mean_ns + 500 * len(table)
    assert math.isclose(summed, mean_ns, rel_tol=0.1), "hardly anything lies between them"
