"""The queries in SQLite's SQL, with what pins the plan of each, and which plan that is.

NOT INDEXED leaves the table itself, in the order of its ids; INDEXED BY is an error where the index
cannot be used; CROSS JOIN keeps the order of tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nfslab.workloads.sql.data import ITEMS
from nfslab.workloads.sql.queries import DELETED
from nfslab.workloads.sql.sqlite.plans import Intended
from nfslab.workloads.sql.statements import (
    COPIED,
    MADE_INDEX,
    Statements,
    covered,
    deleted,
    grouped,
    joined,
    kept,
    numbered,
    of_index,
    scan,
    update,
    updated,
    within,
)

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
        text=scan(within(column, asked), f" INDEXED BY {index}"),
        plan=Intended((f"SEARCH items USING INDEX {index} ({column}>? AND {column}<?)",)),
    )


def _lookups(asked: Asked) -> Statements[Intended]:
    keys = ",".join(map(str, asked.keys.tolist()))
    return Statements(
        text=f"SELECT count(*), sum(items.value) FROM json_each('[{keys}]') AS wanted "
        "CROSS JOIN items NOT INDEXED ON items.id = wanted.value",
        plan=Intended(("SCAN wanted", ONE)),
    )


STATEMENTS: Final[dict[str, Callable[[Asked], Statements[Intended]]]] = {
    "full_scan": lambda _: Statements(text=scan(hint=TABLE), plan=Intended(("SCAN items",))),
    "index_only_scan": lambda _: Statements(
        text=covered(" INDEXED BY items_created"),
        plan=Intended(("SCAN items USING COVERING INDEX items_created",)),
    ),
    "clustered_range": lambda asked: Statements(
        text=scan(within("id", asked), TABLE), plan=Intended((RANGE,))
    ),
    "secondary_range_correlated": _range("created", "items_created"),
    "secondary_range_uncorrelated": _range("code", "items_code"),
    "point_lookups": _lookups,
    "nested_loop_join": lambda _: Statements(
        text=joined("parts NOT INDEXED CROSS JOIN items NOT INDEXED ON items.id = parts.item"),
        plan=Intended(("SCAN parts", ONE)),
    ),
    "sort_spill": lambda _: Statements(
        text=numbered(f"items{TABLE}"), plan=Intended(("SCAN items",), ("ORDER BY",))
    ),
    "aggregate": lambda _: Statements(
        text=grouped(TABLE), plan=Intended(("SCAN items",), ("GROUP BY",))
    ),
    "bulk_copy": lambda _: Statements(
        text=COPY, answer=COPIED, undo=("DELETE FROM copies",), copies=True
    ),
    "create_index": lambda _: Statements(
        text=MADE_INDEX,
        answer=of_index(" INDEXED BY items_made"),
        answer_plan=Intended(("SEARCH items USING COVERING INDEX items_made (code>?)",)),
        undo=("DROP INDEX items_made",),
    ),
    # It makes the whole database anew, and packs its pages.
    "vacuum": lambda _: Statements(
        text="VACUUM",
        answer=kept(TABLE),
        answer_plan=Intended(("SEARCH items USING INTEGER PRIMARY KEY (rowid>?)",)),
        undo=(deleted(1, DELETED),),
        changes=(deleted(0, DELETED),),
        mark=PAGES,
        proof=PAGES.replace("page_count", "page_count < {mark}", 1),
    ),
    "update_indexed": lambda asked: Statements(
        text=update(asked, hint=TABLE),
        plan=Intended((RANGE,)),
        answer=updated(asked),
        undo=(update(asked, "-", TABLE),),
    ),
    "checkpoint": lambda asked: Statements(
        text="PRAGMA wal_checkpoint(FULL)", before=(update(asked, hint=TABLE),)
    ),
}
