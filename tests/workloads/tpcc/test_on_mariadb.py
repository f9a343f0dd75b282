"""Order entry on MariaDB: what is loaded, what procedures do, what a run leaves, what breaks."""

from __future__ import annotations

import io
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from nfslab.databases.mariadb import installation
from nfslab.databases.mariadb.database import MariadbSession
from nfslab.errors import RunFailed
from nfslab.results.records import CheckRecord
from nfslab.workloads.base import Outcome
from nfslab.workloads.sysbench import client
from nfslab.workloads.tpcc import conditions, rows
from nfslab.workloads.tpcc.mariadb.files import definition
from nfslab.workloads.tpcc.mariadb.tables import MariadbTpccTables
from nfslab.workloads.tpcc.on_mariadb import TpccOnMariadb
from nfslab.workloads.tpcc.parameters import MIX, TpccParameters
from nfslab.workloads.tpcc.workload import TpccWorkload
from pydantic import ValidationError

from tests.workloads.run_context import Run, run_of
from tests.workloads.tpcc.planted import BROKEN

QUICK = (2, 5, 9, 12)
"""Conditions that are broken in any case; the others with --long."""


def parameters(**more: Any) -> TpccParameters:
    given = {"data": "disk", "engine": "mariadb", "terminals": 3, "duration": 1}
    return TpccParameters(**given | more)


def workload(**more: Any) -> TpccWorkload:
    work = TpccWorkload(parameters(**more))
    if not (answer := work.check()).ok:
        pytest.skip(answer.reason)
    return work


@contextmanager
def prepared(work: TpccWorkload, scratch: Path) -> Iterator[Run]:
    name = f"tpcc-{uuid.uuid4().hex[:8]}"
    with run_of(work, scratch, name=name, places={"data": scratch / f"{name}-data"}) as run:
        work.prepare(run.context)
        yield run


@contextmanager
def session_of(work: TpccWorkload) -> Iterator[MariadbSession]:
    assert isinstance(work.inner, TpccOnMariadb)
    with work.inner.database.session() as session:
        yield session


def carry_out(work: TpccWorkload, run: Run) -> tuple[Outcome, dict[str, CheckRecord]]:
    outcome = work.measure(run.context)
    checks = outcome.checks + work.verify(run.context, outcome)
    return outcome, {check.name: check for check in checks}


@pytest.fixture(scope="module")
def loaded(scratch: Path) -> Iterator[TpccWorkload]:
    work = workload()
    with prepared(work, scratch) as run:
        # Whoever ran before may have loaded it: then nothing is said of how far it is.
        if any("loaded for this run" in note for note in run.context.notes):
            assert "load: 9 of 9 parts of tables" in run.said
        yield work


@pytest.fixture
def session(loaded: TpccWorkload) -> Iterator[MariadbSession]:
    """What is changed is undone."""
    with session_of(loaded) as opened:
        opened.rows("START TRANSACTION")
        yield opened
        opened.rows("ROLLBACK")


def row(session: MariadbSession, query: str) -> tuple[Any, ...]:
    (found,) = session.rows(query)
    return found


@pytest.mark.parametrize("table", rows.TABLES)
def test_what_is_loaded_are_the_rows(session: MariadbSession, table: str) -> None:
    """The same text, read by pandas: rows, values, sums of numbers, lengths of texts."""
    text = rows.csv(table, 0 if table == "item" else 1, MariadbTpccTables(1).seed)
    made = pd.read_csv(
        io.BytesIO(text), header=None, dtype=str, keep_default_na=False, na_values=[""]
    )
    assert row(session, f"SELECT COUNT(*) FROM {table}") == (len(made),)
    for place, (name, kind, *_) in enumerate(session.rows(f"SHOW COLUMNS FROM {table}")):
        values = made[place].dropna()
        if kind.startswith(("int", "decimal")):
            asked, expected = f"SUM({name})", pd.to_numeric(values).sum()
        elif kind == "datetime":
            # One date, without its zone.
            asked = f"SUM({name} = '{rows.LOADED[:19]}')"
            expected = (values == rows.LOADED).sum()
        else:
            asked, expected = f"SUM(LENGTH({name}))", values.str.len().sum()
        found, count = row(session, f"SELECT {asked}, COUNT({name}) FROM {table}")
        assert count == len(values), f"{name}: missing values"
        assert float(found) == pytest.approx(float(expected), rel=1e-9), name


def broken_by(session: MariadbSession) -> set[int]:
    return {one.number for one in conditions.CONDITIONS if row(session, one.violations) != (0,)}


def test_the_conditions_hold_of_what_is_loaded(loaded: TpccWorkload) -> None:
    with session_of(loaded) as session:
        found = conditions.violations(session, "mariadb", loaded=True)
    assert found == dict.fromkeys(range(1, 13), 0)


@pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=() if n in QUICK else pytest.mark.long) for n in BROKEN],
)
def test_each_condition_is_broken_by_what_contradicts_it(
    session: MariadbSession, number: int
) -> None:
    statement, expected = BROKEN[number]
    session.rows(statement)
    assert row(session, "SELECT ROW_COUNT()") == (1,)
    assert number in expected
    assert broken_by(session) == expected


def test_tables_that_are_not_those_of_tpc_c_are_refused(session: MariadbSession) -> None:
    with pytest.raises(RunFailed, match="not those of TPC-C") as caught:
        conditions.require({1: 0, 2: 7})
    assert "3.3.2.2 " in caught.value.why


def test_a_line_that_does_not_fit_is_no_warning_alone(session: MariadbSession) -> None:
    into = "new_order FIELDS TERMINATED BY ','"
    for line, said in ((b"1,1,x\n", "Incorrect integer"), (b"2500,1,1\n", "Duplicate entry")):
        with pytest.raises(RunFailed) as caught:
            session.load_lines(into, line)
        assert said in caught.value.why + caught.value.what


def called(session: MariadbSession, name: str, *numbers: int) -> None:
    session.rows(f"CALL tpcc_{name}({', '.join(map(str, numbers))})")


def ordered(*lines: tuple[int, int, int]) -> list[int]:
    """Of (item, supplying warehouse, quantity): the procedure's arguments."""
    filled = [*lines, *[(0, 0, 0)] * (15 - len(lines))]
    return [len(lines), *(one[place] for place in range(3) for one in filled)]


def test_what_each_procedure_does(scratch: Path) -> None:
    """By hand, beside what the specification says of each row (clauses 2.4 to 2.8)."""
    work = workload()
    with prepared(work, scratch), session_of(work) as session:
        before = dict(session.rows("SELECT s_i_id, s_quantity FROM stock WHERE s_i_id IN (3, 7)"))
        prices = dict(session.rows("SELECT i_id, i_price FROM item WHERE i_id IN (3, 7)"))
        # Another warehouse supplies none here: it is 1 that is asked for, of home 1.
        called(session, "new_order", 1, 4, 9, *ordered((3, 1, 5), (7, 1, 2)))
        assert row(session, "SELECT d_next_o_id FROM district WHERE d_id = 4") == (3002,)
        order = "o_w_id = 1 AND o_d_id = 4 AND o_id = 3001"
        found = row(
            session,
            f"SELECT o_c_id, o_carrier_id, o_ol_cnt, o_all_local FROM orders WHERE {order}",
        )
        assert found == (9, None, 2, 1)
        lines = session.rows(
            "SELECT ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, "
            "ol_dist_info = s_dist_04 FROM order_line JOIN stock ON s_i_id = ol_i_id "
            "WHERE ol_d_id = 4 AND ol_o_id = 3001 ORDER BY ol_number"
        )
        assert list(lines) == [
            (1, 3, 1, None, 5, 5 * prices[3], 1), (2, 7, 1, None, 2, 2 * prices[7], 1),
        ]  # fmt: skip
        for item, quantity in ((3, 5), (7, 2)):
            left = before[item] - quantity + (0 if before[item] >= quantity + 10 else 91)
            asked = "s_quantity, s_ytd, s_order_cnt, s_remote_cnt"
            stock = row(session, f"SELECT {asked} FROM stock WHERE s_i_id = {item}")
            assert stock == (left, quantity, 1, 0)
        # One with an item that is not there leaves nothing.
        called(session, "new_order", 1, 4, 9, *ordered((3, 1, 5), (0, 1, 2)))
        assert row(session, "SELECT d_next_o_id FROM district WHERE d_id = 4") == (3002,)
        assert row(session, "SELECT s_ytd FROM stock WHERE s_i_id = 3") == (5,)

        name = rows.LAST_NAMES[371]
        named = session.rows(
            f"SELECT c_id FROM customer WHERE c_d_id = 2 AND c_last = '{name}' ORDER BY c_first"
        )
        (middle,) = named[(len(named) + 1) // 2 - 1]
        called(session, "payment", 1, 5, 1, 2, 1, 1, 371, 12345)
        asked = "c_balance, c_ytd_payment, c_payment_cnt"
        paid = row(session, f"SELECT {asked} FROM customer WHERE c_d_id = 2 AND c_id = {middle}")
        assert [float(value) for value in paid] == [-133.45, 133.45, 2]
        assert row(session, "SELECT w_ytd FROM warehouse") == (Decimal("300123.45"),)
        assert row(session, "SELECT d_ytd FROM district WHERE d_id = 5") == (Decimal("30123.45"),)
        history = "SELECT h_c_id, h_c_d_id, h_w_id, h_amount FROM history WHERE h_d_id = 5 AND "
        assert row(session, history + "h_amount <> 10")[:3] == (middle, 2, 1)
        bad = "SELECT c_id FROM customer WHERE c_d_id = 1 AND c_credit = 'BC' LIMIT 1"
        (number,) = row(session, bad)
        called(session, "payment", 1, 5, 1, 1, number, 0, 0, 200)
        data = row(session, f"SELECT c_data FROM customer WHERE c_d_id = 1 AND c_id = {number}")
        assert data[0].startswith(f"{number} 1 1 5 1 2.00 ")

        called(session, "delivery", 1, 8)
        assert row(session, "SELECT COUNT(*), MIN(no_o_id) FROM new_order") == (8991, 2102)
        sent = "SELECT COUNT(*) FROM orders WHERE o_id = 2101 AND o_carrier_id = 8"
        assert row(session, sent) == (10,)
        for reading in ((1, 4, 9, 0, 0), (1, 2, 1, 1, 371)):
            called(session, "order_status", *reading)
        called(session, "stock_level", 1, 4, 15)
        found = conditions.violations(session, "mariadb", loaded=False)
        assert set(found.values()) == {0}


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("new_order", [1, 11, 9, *ordered((3, 1, 5))]),
        ("new_order", [1, 4, 9, *ordered((3, 1, 5), (100_001, 1, 2))]),
        ("payment", [1, 5, 1, 2, 3001, 0, 0, 100]),
        ("order_status", [1, 5, 3001, 0, 0]),
        ("stock_level", [2, 1, 15]),
    ],
)
def test_what_is_not_there_ends_a_transaction_without_a_trace(
    loaded: TpccWorkload, name: str, numbers: list[int]
) -> None:
    with session_of(loaded) as session:
        with pytest.raises(RunFailed, match="refused a statement") as caught:
            called(session, name, *numbers)
        assert "not there" in caught.value.why
        assert row(session, "SELECT @@in_transaction, MAX(d_next_o_id) FROM district") == (0, 3001)
        assert float(row(session, "SELECT w_ytd FROM warehouse")[0]) == 300_000


@pytest.mark.parametrize(
    "given",
    [
        {"warm_up": 1},
        *(
            pytest.param({"isolation": isolation, **more}, marks=pytest.mark.long)
            for isolation, more in (
                ("repeatable read", {"warehouses": 2, "homes": "random"}),
                ("serializable", {"terminals": 8, "max_tries": 1000}),
            )
        ),
    ],
)
def test_a_run(given: dict[str, Any], scratch: Path) -> None:
    work = workload(duration=2, **given)
    with prepared(work, scratch) as run:
        outcome, checks = carry_out(work, run)
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


def get_in_the_way(session: MariadbSession, ended: threading.Event) -> None:
    """Districts first, then the warehouse: a payment goes the other way round.

    Of two that wait for each other InnoDB gives up the one that has changed fewer rows.
    """
    while not ended.is_set():
        with suppress(RunFailed):
            session.rows("START TRANSACTION")
            session.rows("UPDATE item SET i_im_id = i_im_id + 1 WHERE i_id <= 300")
            session.rows("SELECT * FROM district ORDER BY d_id FOR UPDATE")
            session.rows("SELECT * FROM warehouse FOR UPDATE")
        session.rows("ROLLBACK")
        ended.wait(0.02)


def test_deadlocks_are_tried_again_and_nothing_is_lost(scratch: Path) -> None:
    """Eight terminals in one warehouse, and somebody who locks against their order."""
    work = workload(terminals=8, duration=2, max_tries=1000)
    with prepared(work, scratch) as run:
        with session_of(work) as rival:
            ended = threading.Event()
            thread = threading.Thread(target=get_in_the_way, args=(rival, ended))
            thread.start()
            try:
                outcome = work.measure(run.context)
            finally:
                ended.set()
                thread.join()
        (check,) = work.verify(run.context, outcome)
    retries = outcome.metrics["retries"].value
    assert retries > 0
    assert outcome.metrics["failed"].value == 0
    assert check.verdict == "ok", check.message
    grown = dict(zip(*outcome.samples["server_status"].to_pydict().values(), strict=True))
    assert grown["Innodb_deadlocks"] >= retries
    assert grown["Com_call_procedure"] == outcome.metrics["transactions"].value + retries


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


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"calls": "statements"}, "each of its transactions is one call of a procedure"),
        ({"think": 1}, "no keying and think times"),
        ({"threads": 2}, "a thread for each terminal"),
        ({"socket": "tcp"}, "private socket"),
        ({"postgres": "system"}, "it chooses a PostgreSQL"),
        ({"data_checksums": True}, "initdb"),
        ({"wal_segment_size": "16M"}, "innodb_log_file_size"),
        ({"planted_delay": {"log_sync": "2ms"}}, "only PostgreSQL's calls"),
        ({"mariadb": {"datadir": "/x"}}, "the roles `data` and `wal`"),
        ({"mariadb": {"max_connections": 3}}, "no room for 3 clients"),
        ({"duration": 1.5}, "whole seconds"),
        ({"terminals": 5000}, "4096 terminals at most"),
        ({"warm_up": 5}, "shorter than its warm-up"),
        ({"engine": "sqlite"}, "'postgres' or 'mariadb'"),
        ({"engine": "postgres", "mariadb": {"port": 1}}, "private socket"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parameters(**given)
    assert said in str(caught.value)


def test_each_engines_settings_may_stand_beside_the_others() -> None:
    """The engine is an axis."""
    both = {"settings": {"shared_buffers": "8MB"}, "mariadb": {"innodb_buffer_pool_size": "8M"}}
    for engine in ("postgres", "mariadb"):
        assert parameters(engine=engine, **both).engine == engine


def test_an_unknown_setting_is_said_with_the_nearest() -> None:
    workload()
    answer = TpccWorkload(parameters(mariadb={"innodb_flush_metod": "fsync"})).check()
    assert (answer.ok, "innodb_flush_method" in answer.fix) == (False, True)


@pytest.mark.parametrize(
    ("program", "package"),
    [("sysbench", "apt-get install sysbench"), ("mariadbd", "apt-get install mariadb-server-core")],
)
def test_a_missing_program_is_said_with_its_package(
    program: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload()
    which = client.shutil.which
    for module in (client, installation):
        monkeypatch.setattr(
            module.shutil, "which",
            lambda name, path=None: None if name == program else which(name, path=path),
        )  # fmt: skip
    answer = TpccWorkload(parameters()).check()
    assert not answer.ok
    assert program in answer.reason
    assert package in answer.fix


def test_other_procedures_are_another_experiment() -> None:
    made = parameters()
    assert made.definition == definition() != parameters(engine="postgres").definition
    answer = TpccWorkload(parameters(definition="earlier")).check()
    assert "others than those" in answer.reason
    assert MariadbTpccTables(2).record()["definition"] == definition()
