"""The rows of the data set: a permutation, correlations, and CSV that says the same."""

from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.workloads.sql import data as made
from nfslab.workloads.sql.data import CHUNK, FILLER, ITEMS, PAGE, PARTS, Data, rows_of


def items(rows: int, most: int | None = None) -> pd.DataFrame:
    text = b"".join(Data(rows).items_csv(most))
    return pd.read_csv(io.BytesIO(text), header=None, names=list(ITEMS), dtype={"filler": str})


@given(st.integers(1, 5000))
def test_code_is_a_permutation(rows: int) -> None:
    assert sorted(Data(rows).code(np.arange(rows)).tolist()) == list(range(rows))


def test_one_column_is_in_order_the_other_is_not() -> None:
    found = Data(100_000).items(0, 100_000)
    assert abs(np.corrcoef(found["id"], found["code"])[0, 1]) < 0.02
    assert abs(np.corrcoef(found["code"][:-1], found["code"][1:])[0, 1]) < 0.02
    assert np.corrcoef(found["id"], found["created"])[0, 1] > 0.999
    assert (np.diff(found["created"]) < 0).any(), "not in order row by row"


def test_rows_are_whole_pages() -> None:
    assert rows_of(PAGE) == rows_of(2 * PAGE - 1) == made.ROWS_PER_PAGE
    # Header of 23 bytes to 8, five integers, a byte of length; to 8; the line pointer.
    assert (PAGE - 24) // (24 + 5 * 4 + 1 + FILLER + 4) == made.ROWS_PER_PAGE


def test_csv_in_chunks_has_the_same_columns() -> None:
    rows = CHUNK + 7
    found, data = items(rows), Data(rows)
    assert found["id"].tolist() == list(range(rows))
    for name in ("created", "code", "grp", "value"):
        assert data.total(name) == (rows, int(found[name].sum())), name
    assert set(found["filler"].str.len()) == {FILLER}
    assert found["filler"].is_unique
    assert data.total("value", lambda c: c["code"] < 10)[0] == 10
    assert items(rows, 100).equals(found[:100])


def test_parts_refer_to_items_that_there_are() -> None:
    for rows in (8, 9, 11):
        data = Data(rows)
        text = b"".join(data.parts_csv())
        found = pd.read_csv(io.BytesIO(text), header=None, names=list(PARTS))
        assert len(found) == data.parts
        assert (found["item"] == 4 * found["id"]).all()
        assert found["item"].max() < rows


def test_other_rows_have_another_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made.definition()
    monkeypatch.setattr(made, "__file__", __file__)
    assert made.definition() != before
