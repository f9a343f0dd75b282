"""The queries in SQLite's SQL, with what pins the plan of each, and which plan that is.

NOT INDEXED leaves the table itself, in the order of its ids; INDEXED BY is an error where the index
cannot be used; CROSS JOIN keeps the order of tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.workloads.sql import texts
from nfslab.workloads.sql.data import ITEMS
from nfslab.workloads.sql.sqlite.plans import Intended
from nfslab.workloads.sql.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.workloads.sql.queries import Asked

TABLE: Final = " NOT INDEXED"
RANGE: Final = "SEARCH items USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"
ONE: Final = "SEARCH items USING INTEGER PRIMARY KEY (rowid=?)"
PAGES: Final = "SELECT page_count FROM pragma_page_count"
COPY: Final = f"INSERT INTO copies SELECT {', '.join(ITEMS)} FROM held.rows"


def _range(column: str, index: str) -> Callable[[Asked], Statements[Intended]]:
    return lambda asked: Statements(
        text=texts.scan(texts.within(column, asked), f" INDEXED BY {index}"),
        plan=Intended((f"SEARCH items USING INDEX {index} ({column}>? AND {column}<?)",)),
    )


def _lookups(asked: Asked) -> Statements[Intended]:
    return Statements(
        text=f"SELECT count(*), sum(items.value) FROM json_each('[{texts.keys(asked)}]') AS wanted "
        "CROSS JOIN items NOT INDEXED ON items.id = wanted.value",
        plan=Intended(("SCAN wanted", ONE)),
    )


STATEMENTS: Final[dict[str, Callable[[Asked], Statements[Intended]]]] = {
    "full_scan": lambda _: Statements(text=texts.scan(hint=TABLE), plan=Intended(("SCAN items",))),
    "index_only_scan": lambda _: Statements(
        text=texts.covered(" INDEXED BY items_created"),
        plan=Intended(("SCAN items USING COVERING INDEX items_created",)),
    ),
    "clustered_range": lambda asked: Statements(
        text=texts.scan(texts.within("id", asked), TABLE), plan=Intended((RANGE,))
    ),
    "secondary_range_correlated": _range("created", "items_created"),
    "secondary_range_uncorrelated": _range("code", "items_code"),
    "point_lookups": _lookups,
    "nested_loop_join": lambda _: Statements(
        text=texts.joined(
            "parts NOT INDEXED CROSS JOIN items NOT INDEXED ON items.id = parts.item"
        ),
        plan=Intended(("SCAN parts", ONE)),
    ),
    "sort_spill": lambda _: Statements(
        text=texts.numbered(f"items{TABLE}"), plan=Intended(("SCAN items",), ("ORDER BY",))
    ),
    "aggregate": lambda _: Statements(
        text=texts.grouped(TABLE), plan=Intended(("SCAN items",), ("GROUP BY",))
    ),
    "bulk_copy": lambda _: Statements(
        text=COPY, answer=texts.COPIED, undo=("DELETE FROM copies",), copies=True
    ),
    "create_index": lambda _: Statements(
        text=texts.MADE_INDEX,
        answer=texts.of_index(" INDEXED BY items_made"),
        answer_plan=Intended(("SEARCH items USING COVERING INDEX items_made (code>?)",)),
        undo=("DROP INDEX items_made",),
    ),
    # It makes the whole database anew, and packs its pages.
    "vacuum": lambda _: Statements(
        text="VACUUM",
        answer=texts.kept(TABLE),
        answer_plan=Intended(("SEARCH items USING INTEGER PRIMARY KEY (rowid>?)",)),
        undo=(texts.deleted(1),),
        changes=(texts.deleted(0),),
        mark=PAGES,
        proof=PAGES.replace("page_count", "page_count < {mark}", 1),
    ),
    "update_indexed": lambda asked: Statements(
        text=texts.update(asked, hint=TABLE),
        plan=Intended((RANGE,)),
        answer=texts.updated(asked),
        undo=(texts.update(asked, "-", TABLE),),
    ),
    "checkpoint": lambda asked: Statements(
        text="PRAGMA wal_checkpoint(FULL)", before=(texts.update(asked, hint=TABLE),)
    ),
}
