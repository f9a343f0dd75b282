"""Real runs: the loaded tables, the twelve conditions and what breaks each, metrics, checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from nfslab.machine.cpu_times import CpuTimes
from nfslab.workloads.tpcc.conditions import CONDITIONS, told
from nfslab.workloads.tpcc.machine_use import MachineUse
from nfslab.workloads.tpcc.parameters import CONSTANTS, MIX, TpccParameters
from nfslab.workloads.tpcc.postgres.scripts import definition, script
from nfslab.workloads.tpcc.postgres.tables import TpccTables
from nfslab.workloads.tpcc.postgres.workload import TpccOnPostgres
from nfslab.workloads.tpcc.tally import check_database, check_mix, check_response
from pydantic import ValidationError

from tests.workloads.postgres import NEWEST, needs_postgres, newest_postgres
from tests.workloads.run_context import Run, carry_out, run_of, scratch_folder, unique_name
from tests.workloads.tpcc.planted import BROKEN


def workload(**values: object) -> TpccOnPostgres:
    given = {"data": "disk", "wal": "log", "terminals": 3, "threads": 2, "duration": 2}
    return TpccOnPostgres(TpccParameters.model_validate(given | values))


@pytest.fixture(scope="module")
def loaded() -> Iterator[Run]:
    work = workload(warehouses=1, postgres=NEWEST)
    with scratch_folder() as folder, run_of(work, folder, name=unique_name()) as run:
        work.prepare(run.context)
        yield run


@pytest.fixture
def connection(loaded: Run) -> Iterator[psycopg.Connection[object]]:
    where = psycopg.conninfo.make_conninfo(
        loaded.context.services.postgres.conninfo, dbname="pgbench"
    )
    with psycopg.connect(where) as opened:
        yield opened
        opened.rollback()


@needs_postgres
@pytest.mark.long
def test_each_condition_is_broken_by_what_contradicts_it(
    connection: psycopg.Connection[object],
) -> None:
    """Asked are those that it breaks, and one more."""
    for number, (statement, expected) in BROKEN.items():
        assert connection.execute(statement).rowcount == 1
        assert number in expected
        asked = expected | {number % len(BROKEN) + 1}
        found = {
            one.number: connection.execute(one.violations).fetchone()
            for one in CONDITIONS
            if one.number in asked
        }
        assert {one for one, row in found.items() if row != (0,)} == expected
        connection.rollback()


@needs_postgres
@newest_postgres
def test_a_run(postgres: str, scratch: Path) -> None:
    work = workload(
        postgres=postgres,
        warehouses=1,
        max_tries=1000,
        warm_up=1,
        duration=1,
        load="fresh",
    )
    assert work.check().ok
    with run_of(work, scratch, name=unique_name()) as run:
        outcome, checks = carry_out(work, run)
    metrics = {key: metric.value for key, metric in outcome.metrics.items()}
    assert [key for key, one in outcome.metrics.items() if one.primary] == ["new_orders_per_min"]
    # How many answers are slow is right to say of a busy machine.
    broken = {check.name for check in checks.values() if check.verdict != "ok"}
    assert broken <= {"tpcc_response"}, checks
    rows = checks["tpcc_consistency"].values
    # With the warm-up's, which is in no metric.
    assert rows["new_orders"] > metrics["new_orders"] > 0
    assert metrics["new_orders_per_min"] == pytest.approx(
        metrics["new_orders"] / metrics["measured_s"] * 60
    )
    by_kind = outcome.samples["transactions"]["script"].to_pylist()
    assert metrics["new_order_per_min"] * metrics["measured_s"] / 60 == pytest.approx(
        by_kind.count(0)
    )
    assert metrics["rolled_back"] == by_kind.count(0) - metrics["new_orders"]
    assert sum(by_kind.count(script) for script in range(len(MIX))) == metrics["transactions"]
    assert metrics["payment_p50_ms"] <= metrics["payment_p90_ms"] <= metrics["payment_p99_ms"]
    assert metrics["failed"] == 0
    assert 0 < metrics["memory_used_pct"] < 100
    assert 0 < metrics["cpu_user_pct"] + metrics["cpu_sys_pct"] < 100.001
    assert metrics["io_per_s"] >= 0


@pytest.mark.system
def test_other_scripts_or_procedures_are_another_experiment() -> None:
    now = workload()
    assert now.parameters.definition == definition()
    assert now.check().ok
    before = workload(definition="0" * 64).check()
    assert not before.ok
    assert "others than those of this experiment" in before.reason
    assert TpccTables(2).record()["definition"] == definition()


@pytest.mark.parametrize("name", MIX)
def test_scripts_have_no_template_left_and_know_their_variables(name: str) -> None:
    for calls in ("procedure", "statements"):
        text = script(name, calls)
        assert not re.search(r"\{[{%]|\n\n", text)
        body = re.sub(r"^--.*$", "", text, flags=re.MULTILINE)
        given = {*CONSTANTS, "warehouses", "fixed_homes", "client_id"}
        given |= set(re.findall(r"^\\set (\w+)", body, re.MULTILINE))
        given |= set(re.findall(r"\bAS (\w+)", body))
        given |= {"w_tax", "d_tax", "w_name", "d_name", "c_credit"}  # columns, by \\gset
        used = set(re.findall(r"(?<!:):(\w+)", body))
        assert used <= given, used - given


def test_what_the_machine_did_by_its_counters() -> None:
    """Of two processors in 10 s: 4 s user, 1 nice, 2 system, 13 idle."""
    before = MachineUse(0, CpuTimes((100,) * 8, 2), 500)
    after = MachineUse(10 * 10**9, CpuTimes((500, 200, 300, 1400, 100, 100, 100, 100), 2), 750)
    found = {name: metric.value for name, metric in after.since(before).items()}
    assert (found["cpu_user_pct"], found["cpu_sys_pct"]) == (25, 10)
    assert found["io_per_s"] == 25


def test_shares_below_the_least_are_told() -> None:
    counts = {"new_order": 4500, "payment": 4300, "order_status": 400, "delivery": 400,
              "stock_level": 400}  # fmt: skip
    assert check_mix(counts).verdict == "ok"
    assert check_mix(counts | {"payment": 4260}).verdict == "ok", "by chance"
    told_ = check_mix(counts | {"delivery": 200, "new_order": 4700})
    assert (told_.verdict, "delivery" in told_.message) == ("warning", True)


def test_slow_answers_are_told() -> None:
    within = {"new_order": 0.95, "payment": 1.0, "stock_level": 0.85}
    assert check_response(within | {"stock_level": 0.9}).verdict == "ok"
    assert "stock_level" in check_response(within).message


def test_rows_that_do_not_fit_what_was_committed() -> None:
    committed = {"new_order": 1000, "payment": 900}
    good = {"new_orders": 990, "payments": 900}
    assert check_database("", committed=committed, **good).verdict == "ok"
    for wrong in ({"payments": 899}, {"new_orders": 1001}, {"new_orders": 900}):
        told_ = check_database("", committed=committed, **(good | wrong))
        assert told_.verdict == "violation"
    assert check_database("3.3.2.1", committed=committed, **good).verdict == "violation"
    assert told({1: 0, 2: 3}).startswith("3.3.2.2 ")


def test_payments_that_pgbench_did_not_count() -> None:
    committed = {"new_order": 1000, "payment": 900}
    for payments, verdict in ((899, "violation"), (900, "ok"), (902, "ok"), (903, "violation")):
        found = check_database(
            "", new_orders=990, payments=payments, committed=committed, uncounted=2
        )
        assert found.verdict == verdict


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"terminals": 300, "settings": {"max_connections": 100}}, "max_connections"),
        ({"warm_up": 5}, "shorter than its warm-up"),
        ({"warehouses": 0}, "warehouses"),
        ({"isolation": "dirty"}, "isolation"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        workload(**given)
