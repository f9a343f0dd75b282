"""The queries in MariaDB's SQL, with the hints that pin the plan of each, and which plan that is.

What a hint cannot decide (a later version has another plan) is found by the comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.workloads.sql import texts
from nfslab.workloads.sql.mariadb.plans import Intended
from nfslab.workloads.sql.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.workloads.sql.queries import Asked

PINNED: Final = {
    "optimizer_switch": "'mrr=off,rowid_filter=off,index_merge=off'",
    "join_cache_level": "0",
    "max_statement_time": "0",
}
"""Of every query: rows are fetched as the index yields them, joins have no buffer."""
HASH_JOIN: Final = {"join_cache_level": "3"}
NONE: Final = " USE INDEX ()"
BY_ID: Final = " FORCE INDEX (PRIMARY)"
TABLE_ID: Final = (
    "SELECT TABLE_ID FROM information_schema.INNODB_SYS_TABLES WHERE NAME = 'sql/items'"
)


def _range(column: str, index: str) -> Callable[[Asked], Statements[Intended]]:
    return lambda asked: Statements(
        text=texts.scan(texts.within(column, asked), f" FORCE INDEX ({index})"),
        plan=Intended((f"range items by {index}",)),
    )


def _lookups(asked: Asked) -> Statements[Intended]:
    return Statements(
        text="SELECT STRAIGHT_JOIN count(*), sum(value) FROM "
        f"JSON_TABLE('[{texts.keys(asked)}]', '$[*]' COLUMNS (id int PATH '$')) AS wanted "
        f"JOIN items{BY_ID} ON items.id = wanted.id",
        plan=Intended(("ALL wanted", "eq_ref items by PRIMARY")),
    )


def _rebuilt() -> Statements[Intended]:
    # InnoDB's OPTIMIZE TABLE makes the table anew: then it has another number.
    return Statements(
        text="OPTIMIZE TABLE items",
        answer=texts.kept(BY_ID),
        answer_plan=Intended(("range items by PRIMARY (the index alone)",)),
        undo=(texts.deleted(1),),
        changes=(texts.deleted(0),),
        mark=TABLE_ID,
        proof=TABLE_ID.replace("TABLE_ID", "TABLE_ID <> {mark}", 1),
    )


STATEMENTS: Final[dict[str, Callable[[Asked], Statements[Intended]]]] = {
    "full_scan": lambda _: Statements(text=texts.scan(hint=NONE), plan=Intended(("ALL items",))),
    "index_only_scan": lambda _: Statements(
        text=texts.covered(" FORCE INDEX (items_created)"),
        plan=Intended(("index items by items_created (the index alone)",)),
    ),
    "clustered_range": _range("id", "PRIMARY"),
    "secondary_range_correlated": _range("created", "items_created"),
    "secondary_range_uncorrelated": _range("code", "items_code"),
    "point_lookups": _lookups,
    "hash_join": lambda _: Statements(
        text=texts.joined(f"parts{NONE} STRAIGHT_JOIN items{NONE} ON parts.item = items.id"),
        plan=Intended(
            ("ALL parts", "hash_ALL items"),
            ("block-nl-join",),
            told=(("items", "r_loops", "join_scans"),),
        ),
    ),
    "nested_loop_join": lambda _: Statements(
        text=texts.joined(f"parts{NONE} STRAIGHT_JOIN items{BY_ID} ON parts.item = items.id"),
        plan=Intended(("ALL parts", "eq_ref items by PRIMARY")),
    ),
    # A sort within a derived table would be written once more. Each group is one row, which is
    # counted and compared as it comes out of the sort; none is kept.
    "sort_spill": lambda _: Statements(
        first=("SET @place = 0, @misplaced = 0, @bytes = 0",),
        text=f"SELECT SQL_BIG_RESULT code, min(filler) AS kept FROM items{NONE} GROUP BY code "
        "HAVING (@misplaced := @misplaced + ((@place := @place + 1) <> code + 1)) "
        "+ (@bytes := @bytes + length(kept)) < 0",
        then="SELECT @place, @misplaced, @bytes",
        plan=Intended(
            ("ALL items",),
            ("filesort",),
            spills=True,
            told=(("filesort", "r_sort_passes", "sort_passes"),),
        ),
    ),
    "aggregate": lambda _: Statements(
        text=f"{texts.grouped(NONE)} ORDER BY NULL",
        plan=Intended(("ALL items",), ("temporary_table",)),
    ),
    "bulk_copy": lambda _: Statements(answer=texts.COPIED, undo=("TRUNCATE copies",), copies=True),
    "create_index": lambda _: Statements(
        text=texts.MADE_INDEX,
        answer=texts.of_index(" FORCE INDEX (items_made)"),
        answer_plan=Intended(("range items by items_made (the index alone)",)),
        undo=("DROP INDEX items_made ON items",),
    ),
    "vacuum": lambda _: _rebuilt(),
    "update_indexed": lambda asked: Statements(
        text=texts.update(asked, hint=BY_ID),
        plan=Intended(("range items by PRIMARY",)),
        answer=texts.updated(asked),
        undo=(texts.update(asked, "-", BY_ID),),
    ),
}
