"""What is loaded: numbers of rows, ranges and shares of the specification (clause 4.3.3.1)."""

from __future__ import annotations

import io
from collections import Counter
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from nfslab.workloads.tpcc.parameters import CONSTANTS
from nfslab.workloads.tpcc.rows import LAST_NAMES, NAME_CONSTANT, TABLES, csv, nurand

SEED = 5


@lru_cache(maxsize=16)
def rows(table: str, warehouse: int = 3) -> pd.DataFrame:
    text = csv(table, warehouse, SEED)
    return pd.read_csv(io.BytesIO(text), header=None, keep_default_na=False, na_values=[""])


def test_numbers_of_rows_and_columns() -> None:
    found = {table: rows(table).shape for table in TABLES if table != "order_line"}
    assert found == {
        "item": (100_000, 5), "warehouse": (1, 9), "district": (10, 11), "stock": (100_000, 17),
        "customer": (30_000, 21), "history": (30_000, 8), "orders": (30_000, 8),
        "new_order": (9_000, 3),
    }  # fmt: skip


def test_the_same_seed_makes_the_same_rows_and_another_others() -> None:
    first = csv("district", 1, 1)
    assert csv("district", 1, 1) == first
    assert csv("district", 2, 1) != first
    assert csv("district", 1, 2) != first


@pytest.mark.parametrize(("table", "column"), [("item", 4), ("stock", 16)])
def test_a_tenth_of_the_data_is_original(table: str, column: int) -> None:
    data = rows(table)[column].astype(str)
    assert data.str.contains("ORIGINAL").sum() == 10_000
    assert (data.str.len().min(), data.str.len().max()) == (26, 50)


def test_customers() -> None:
    found = rows("customer")
    first = found[found[1] == 7]
    assert list(first[0]) == list(range(1, 3001))
    # The first thousand of a district have all names, 0 to 999 (clause 4.3.3.1).
    assert list(first[5][:1000]) == LAST_NAMES
    assert LAST_NAMES[371] == "PRICALLYOUGHT"  # clause 4.3.2.3
    assert (found[13] == "BC").sum() == 3_000
    assert set(found[14]) == {50_000}
    assert found[15].between(0, 0.5).all()
    assert (found[20].str.len().min(), found[20].str.len().max()) == (300, 500)
    assert found[11].astype(str).str.fullmatch(r"\d{1,16}").all()
    assert found[10].astype(str).str.endswith("11111").all()


def test_orders_and_their_lines_agree() -> None:
    orders, lines, new = rows("orders"), rows("order_line"), rows("new_order")
    assert lines.shape[1] == 10
    for _, of in orders.groupby(1):
        assert sorted(of[3]) == list(range(1, 3001)), "each customer has one order"
    counts = lines.groupby([1, 0]).size()
    asked = orders.set_index([1, 0])[6]
    assert (counts.sort_index() == asked.sort_index()).all()
    assert (asked.min(), asked.max()) == (5, 15)
    delivered = lines[0] <= 2100
    assert (lines[8][delivered] == 0).all()
    assert lines[8][~delivered].between(0.01, 9_999.99).all()
    assert (lines[6].isna() == ~delivered).all()
    assert (orders[5].isna() == (orders[0] > 2100)).all()
    assert orders[5].dropna().between(1, 10).all()
    assert set(new[0]) == set(range(2101, 3001))


def test_prices_and_taxes() -> None:
    assert rows("item")[3].between(1, 100).all()
    assert rows("district")[8].between(0, 0.2).all()
    assert rows("warehouse")[8].tolist() == [300_000]
    assert set(rows("district")[9]) == {30_000}
    assert set(rows("district")[10]) == {3_001}


def test_nurand_by_its_formula() -> None:
    """Every value's chance, counted over all pairs of draws (clause 2.1.6)."""
    least, most, most_or, constant = 1, 30, 7, 5
    pairs = [(a, x) for a in range(most_or + 1) for x in range(least, most + 1)]
    chance = Counter(((a | x) + constant) % (most - least + 1) + least for a, x in pairs)
    drawn = nurand(np.random.default_rng(1), most_or, least, most, constant, 200_000)
    counts = Counter(drawn.tolist())
    assert set(counts) <= set(range(least, most + 1))
    for value in range(least, most + 1):
        expected = 200_000 * chance[value] / len(pairs)
        assert abs(counts[value] - expected) <= 5 * max(1, expected) ** 0.5, value


def test_the_constant_of_the_run_is_as_far_from_the_loads_as_it_has_to_be() -> None:
    apart = abs(CONSTANTS["c_name"] - NAME_CONSTANT)
    assert 65 <= apart <= 119  # clause 2.1.6.1
    assert apart not in (96, 112)
