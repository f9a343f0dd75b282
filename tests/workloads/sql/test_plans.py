"""Plans as PostgreSQL writes them, compared with intended ones."""

from __future__ import annotations

from typing import Any

from nfslab.workloads.sql.postgres.plans import Intended, named, shown

SCAN = {"Node Type": "Seq Scan", "Relation Name": "items"}
BY_INDEX = {"Node Type": "Index Scan", "Relation Name": "items", "Index Name": "items_pkey"}


def over(kind: str, *below: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {"Node Type": kind, "Plans": list(below)} | parts


def test_a_plan_is_shown_by_its_nodes() -> None:
    plan = over("Aggregate", over("Nested Loop", SCAN, BY_INDEX), Strategy="Hashed")
    assert shown(plan).splitlines() == [
        "HashAggregate",
        "  Nested Loop",
        "    Seq Scan on items",
        "    Index Scan using items_pkey on items",
    ]
    assert named({"Node Type": "Bitmap Index Scan", "Index Name": "i"}).endswith("using i")


def test_the_intended_plan_and_others() -> None:
    intended = Intended(("Seq Scan on items",), ("HashAggregate",))
    assert intended.missing(over("Aggregate", SCAN, Strategy="Hashed")) == ""
    assert intended.missing(over("Aggregate", SCAN, Strategy="Sorted")) == (
        "there is no HashAggregate in it"
    )
    said = intended.missing(over("Aggregate", BY_INDEX, Strategy="Hashed"))
    assert said == ("it reads by Index Scan using items_pkey on items, not by Seq Scan on items")
    # One more look at a table is another plan, too; so is the other order.
    assert intended.missing(over("Aggregate", SCAN, SCAN, Strategy="Hashed"))
    both = Intended(("Seq Scan on items", named(BY_INDEX)))
    assert both.missing(over("Nested Loop", SCAN, BY_INDEX)) == ""
    assert both.missing(over("Nested Loop", BY_INDEX, SCAN))


def test_what_an_executed_plan_has_to_tell() -> None:
    intended = Intended((), facts=(("Sort", "Sort Space Type", "Disk"),))
    assert intended.executed
    assert not Intended(()).executed
    told = {"Node Type": "Sort", "Sort Space Type": "Disk"}
    assert intended.unproven(over("Aggregate", told)) == ""
    said = intended.unproven(over("Aggregate", told | {"Sort Space Type": "Memory"}))
    assert said == "Sort: Sort Space Type is 'Memory', not 'Disk'"
    assert "is None" in intended.unproven(SCAN)
