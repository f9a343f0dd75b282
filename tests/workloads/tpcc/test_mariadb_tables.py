"""Order entry on MariaDB: what is loaded, what contradicts the conditions, what procedures do."""

from __future__ import annotations

import io
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest
from nfslab.databases.mariadb.database import MariadbSession
from nfslab.errors import RunFailed
from nfslab.workloads.tpcc import conditions, rows
from nfslab.workloads.tpcc.mariadb.tables import MariadbTpccTables
from nfslab.workloads.tpcc.mariadb.workload import TpccOnMariadb

from tests.workloads.tpcc.on_mariadb import prepared, row, session_of, workload
from tests.workloads.tpcc.planted import BROKEN

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def loaded(scratch: Path) -> Iterator[TpccOnMariadb]:
    work = workload()
    with prepared(work, scratch) as run:
        # Whoever ran before may have loaded it: then nothing is said of how far it is.
        if any("loaded for this run" in note for note in run.context.notes):
            assert "load: 9 of 9 parts of tables" in run.said
        yield work


@pytest.fixture
def session(loaded: TpccOnMariadb) -> Iterator[MariadbSession]:
    """What is changed is undone."""
    with session_of(loaded) as opened:
        opened.rows("START TRANSACTION")
        yield opened
        opened.rows("ROLLBACK")


@pytest.mark.parametrize("table", ["warehouse", "district", "customer", "new_order"])
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


def test_the_conditions_hold_of_what_is_loaded(loaded: TpccOnMariadb) -> None:
    with session_of(loaded) as session:
        found = conditions.violations(session, "mariadb", loaded=True)
    assert found == dict.fromkeys(range(1, 13), 0)


def test_each_condition_is_broken_by_what_contradicts_it(session: MariadbSession) -> None:
    for number, (statement, expected) in BROKEN.items():
        session.rows("START TRANSACTION")
        session.rows(statement)
        assert row(session, "SELECT ROW_COUNT()") == (1,)
        (condition,) = (one for one in conditions.CONDITIONS if one.number == number)
        assert number in expected
        assert row(session, condition.violations) != (0,), number
        session.rows("ROLLBACK")


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
