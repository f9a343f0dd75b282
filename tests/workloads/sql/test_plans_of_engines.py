"""Plans as MariaDB and SQLite write them, compared with intended ones."""

from __future__ import annotations

from typing import Any

from nfslab.workloads.sql.dialect import Counts
from nfslab.workloads.sql.mariadb import plans as mariadb
from nfslab.workloads.sql.sqlite import plans as sqlite

SCAN = {"table": {"table_name": "items", "access_type": "ALL"}}
BY_ID = {"table": {"table_name": "items", "access_type": "eq_ref", "key": "PRIMARY"}}
COVERED = {
    "table": {"table_name": "items", "access_type": "index", "key": "by", "using_index": True}
}


def block(*below: Any, **more: Any) -> dict[str, Any]:
    return {"query_block": {"select_id": 1, "nested_loop": list(below)} | more}


def sorted_block(**told: Any) -> dict[str, Any]:
    return block({"read_sorted_file": {"filesort": {"sort_key": "items.code", **told, **SCAN}}})


def test_tables_of_mariadb_by_how_they_are_read() -> None:
    names = [mariadb.named(one["table"]) for one in (SCAN, BY_ID, COVERED)]
    assert names == ["ALL items", "eq_ref items by PRIMARY", "index items by by (the index alone)"]
    assert mariadb.named({"message": "No tables used"}) == "No tables used"
    hashed = {"table_name": "items", "access_type": "hash_ALL", "key": "#hash#$hj"}
    assert mariadb.named(hashed) == "hash_ALL items", "its key is made by the join"


def test_the_intended_plan_of_mariadb_and_others() -> None:
    intended = mariadb.Intended(("ALL items",))
    assert intended.missing(block(SCAN)) == ""
    assert intended.missing(block(BY_ID)) == (
        "it reads by eq_ref items by PRIMARY, not by ALL items"
    )
    assert intended.missing(block(SCAN, SCAN)), "one more look at a table"
    assert intended.missing(sorted_block()) == "there is filesort in it"
    needs = mariadb.Intended(("ALL items",), ("filesort",))
    assert needs.missing(sorted_block()) == ""
    assert needs.missing(block(SCAN)) == "there is no filesort in it"
    assert mariadb.shown(sorted_block()) == "filesort\nALL items"


def test_a_sort_of_mariadb_has_to_merge() -> None:
    spills = mariadb.Intended(("ALL items",), ("filesort",), spills=True)
    assert spills.executed
    assert not mariadb.Intended(()).executed
    assert spills.unproven(sorted_block(r_sort_passes=5)) == ""
    for plan in (sorted_block(r_sort_passes=0), sorted_block()):
        assert "did not write to files" in spills.unproven(plan)
    assert mariadb.part_of(block(BY_ID), "items", "key") == "PRIMARY"
    assert mariadb.part_of(block(BY_ID), "parts", "key") is None


def test_the_intended_plan_of_sqlite_and_others() -> None:
    intended = sqlite.Intended(("SCAN items",))
    assert intended.missing(["SCAN items"]) == ""
    by_index = "SEARCH items USING INDEX items_code (code>?)"
    assert intended.missing([by_index]) == f"it reads by {by_index}, not by SCAN items"
    assert intended.missing(["SCAN items", "USE TEMP B-TREE FOR GROUP BY"]) == (
        "there is a sort for GROUP BY in it"
    )
    ordered = sqlite.Intended(("SCAN items",), ("ORDER BY",))
    lines = ["CO-ROUTINE sorted", "CO-ROUTINE (subquery-3)", "SCAN items",
             "USE TEMP B-TREE FOR ORDER BY", "SCAN (subquery-3)", "SCAN sorted"]  # fmt: skip
    assert ordered.missing(lines) == "", "what the statement itself makes is not compared"
    assert ordered.missing(["SCAN items"]) == "there is no ORDER BY in it"
    wanted = sqlite.Intended(("SCAN wanted",))
    assert wanted.missing(["SCAN wanted VIRTUAL TABLE INDEX 1:"]) == ""
    automatic = "SEARCH items USING AUTOMATIC COVERING INDEX (id=?)"
    assert intended.missing([automatic]), "an index that the query makes for itself"


def test_a_plan_of_sqlite_is_shown_by_depth() -> None:
    rows = [(2, 0, 0, "CO-ROUTINE sorted"), (5, 2, 0, "SCAN items"), (70, 0, 0, "SCAN sorted")]
    assert sqlite.shown(rows) == "CO-ROUTINE sorted\n  SCAN items\nSCAN sorted"
    assert sqlite.lines_of(rows)[1] == "SCAN items"


def test_a_difference_of_counts_has_what_both_know() -> None:
    before, now = Counts(read=10, hit=1, fetched=5), Counts(read=30, hit=None, fetched=6)
    assert now.since(before) == Counts(read=20, fetched=1)
    # Where no file was made nothing was written to one; of some, nobody knows how much.
    assert Counts(files=3).since(Counts(files=3)).temporary == 0
    assert Counts(files=4).since(Counts(files=3)).temporary is None
    assert Counts(temporary=9).since(Counts(temporary=4)).temporary == 5
