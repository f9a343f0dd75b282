"""Rows within a bound: the first ones are kept, the others counted."""

from __future__ import annotations

import pyarrow as pa
from nfslab.results.bounded_rows import BoundedRows, RowBound


def batch(*values: int) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64())})


def test_the_first_rows_are_kept_and_the_others_counted() -> None:
    rows = BoundedRows(5)
    assert rows.table() is None
    assert [rows.keep(batch(*v))["n"].to_pylist() for v in ((1, 2, 3), (), (4, 5, 6, 7), (8,))] == [
        [1, 2, 3], [], [4, 5], [],
    ]  # fmt: skip
    table = rows.table()
    assert table is not None
    assert table["n"].to_pylist() == [1, 2, 3, 4, 5]
    assert (rows.rows, rows.left_out) == (5, 3)


def test_without_a_bound_nothing_is_left_out() -> None:
    bound = RowBound(None)
    assert bound.within(batch(1, 2, 3)).num_rows == 3
    assert (bound.rows, bound.left_out) == (3, 0)
    record_batch = batch(1, 2, 3).to_batches()[0]
    assert RowBound(2).within(record_batch).num_rows == 2


def test_a_batch_without_columns_is_no_row() -> None:
    rows = BoundedRows(5)
    rows.keep(pa.table({}))
    assert rows.table() is None
    assert (rows.rows, rows.left_out) == (0, 0)
