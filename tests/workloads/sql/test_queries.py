"""Right answers, held against pandas on the same rows."""

from __future__ import annotations

import io

import pandas as pd
import pytest
from nfslab.workloads.sql.data import ITEMS, PARTS
from nfslab.workloads.sql.queries import ANSWERS, QUERIES, Asked, answer

ASKED = Asked(rows=2200, share=0.05, lookups=50)


@pytest.fixture(scope="module")
def items() -> pd.DataFrame:
    text = b"".join(ASKED.data.items_csv())
    return pd.read_csv(io.BytesIO(text), header=None, names=list(ITEMS), dtype={"filler": str})


def test_every_query_has_an_answer() -> None:
    assert set(QUERIES) == {*ANSWERS, "vacuum"}
    assert all(answer(query, ASKED) for query in QUERIES)


def test_a_range_has_its_share_of_the_rows() -> None:
    low, high = ASKED.span
    assert high - low == 110
    assert (low, high) == (1045, 1155)
    assert Asked(10, 0.001, 1).span == (4, 5), "one at least"


@pytest.mark.parametrize(
    ("query", "column"),
    [
        ("clustered_range", "id"),
        ("secondary_range_correlated", "created"),
        ("secondary_range_uncorrelated", "code"),
    ],
)
def test_ranges(items: pd.DataFrame, query: str, column: str) -> None:
    low, high = ASKED.span
    kept = items[(items[column] >= low) & (items[column] < high)]
    assert answer(query, ASKED) == [(len(kept), kept["value"].sum())]


def test_joins(items: pd.DataFrame) -> None:
    text = b"".join(ASKED.data.parts_csv())
    parts = pd.read_csv(io.BytesIO(text), header=None, names=list(PARTS))
    both = items.merge(parts, left_on="id", right_on="item")
    for query in ("hash_join", "merge_join", "nested_loop_join"):
        assert answer(query, ASKED) == [(len(both), (both["value"] + both["weight"]).sum())]


def test_groups_lookups_and_what_is_left(items: pd.DataFrame) -> None:
    groups = items.groupby("grp")["value"].agg(["size", "sum"]).reset_index()
    assert answer("aggregate", ASKED) == [tuple(row) for row in groups.to_numpy().tolist()]
    keys = ASKED.keys.tolist()
    assert len(set(keys)) == 50
    assert answer("point_lookups", ASKED) == [(50, items["value"][keys].sum())]
    for again, digits in ((False, [0]), (True, [0, 1])):
        left = items[~(items["id"] % 10).isin(digits)]["id"]
        assert answer("vacuum", ASKED, again=again) == [(len(left), left.sum())]


def test_scans_sort_copy_index_and_update(items: pd.DataFrame) -> None:
    assert answer("full_scan", ASKED) == [(2200, items["value"].sum())]
    assert answer("index_only_scan", ASKED) == [(2200, items["created"].sum())]
    assert answer("create_index", ASKED) == [(2200, items["code"].sum())]
    assert answer("sort_spill", ASKED) == [(2200, 0, items["filler"].str.len().sum())]
    assert answer("bulk_copy", ASKED) == [(550, items["value"][:550].sum())]
    low, high = ASKED.span
    assert answer("update_indexed", ASKED) == [(110, (items["code"] + 2200)[low:high].sum())]
