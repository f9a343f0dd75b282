"""The queries in PostgreSQL's SQL, what pins the plan of each, and which plan that is.

Every kind of node that a query does not use is switched off. What cannot be switched off (there
is no other plan, or a later version has a new one) is found by the comparison with the plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.workloads.sql.postgres.plans import Intended
from nfslab.workloads.sql.queries import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.workloads.sql.queries import Asked

NODES: Final = (
    "seqscan", "indexscan", "indexonlyscan", "bitmapscan", "tidscan", "hashjoin", "mergejoin",
    "nestloop", "hashagg", "sort", "incremental_sort", "material", "memoize",
)  # fmt: skip
PINNED: Final = {
    "max_parallel_workers_per_gather": "0",
    "max_parallel_maintenance_workers": "0",
    "jit": "off",
    "synchronize_seqscans": "off",
}
"""Of every query: the same pages in the same order at each execution."""


@dataclass(frozen=True, slots=True)
class Statements:
    """A query as it is run."""

    text: str
    """What is timed."""
    plan: Intended | None = None
    """None: it is no query that has one."""
    uses: tuple[str, ...] = ()
    """Of `NODES`, those that are not switched off."""
    before: tuple[str, ...] = ()
    """Before it is executed, not timed."""
    undo: tuple[str, ...] = ()
    answer: str = ""
    """What yields the answer behind it, not timed; empty: it does itself."""
    answer_plan: Intended | None = None
    changes: tuple[str, ...] = ()
    """Done on the loaded database before the run's server starts."""
    copies: bool = False
    """It is a COPY of rows that the client sends."""
    grows: bool = False
    """It makes a table longer, row by row."""

    def pins(self) -> dict[str, str]:
        """Settings of its session."""
        nodes = {f"enable_{n}": "on" if n in self.uses else "off" for n in NODES}
        return PINNED | nodes


def statements(query: str, asked: Asked) -> Statements:
    """Of one query."""
    return _MADE[query](asked)


def _scan(condition: str, scan: str, uses: str) -> Statements:
    return Statements(
        f"SELECT count(*), sum(value) FROM items{condition}", Intended((scan,)), (uses,)
    )


def _range(column: str, index: str) -> Callable[[Asked], Statements]:
    def made(asked: Asked) -> Statements:
        low, high = asked.span
        condition = f" WHERE {column} >= {low} AND {column} < {high}"
        return _scan(condition, f"Index Scan using {index} on items", "indexscan")

    return made


def _lookups(asked: Asked) -> Statements:
    keys = ",".join(map(str, asked.keys.tolist()))
    return Statements(
        f"SELECT count(*), sum(value) FROM unnest('{{{keys}}}'::int[]) AS key "
        "JOIN items ON items.id = key",
        Intended(("Function Scan on unnest", "Index Scan using items_pkey on items"),
                 ("Nested Loop",)),
        ("nestloop", "indexscan"),
    )  # fmt: skip


def _join(node: str, uses: tuple[str, ...], *scans: str, **more: Any) -> Statements:
    return Statements(
        "SELECT count(*), sum(items.value + parts.weight) "
        "FROM items JOIN parts ON parts.item = items.id",
        Intended(scans, (node,), **more),
        uses,
    )


def _update(asked: Asked, sign: str = "+") -> str:
    low, high = asked.span
    return f"UPDATE items SET code = code {sign} {asked.rows} WHERE id >= {low} AND id < {high}"


_ITEMS: Final = "Seq Scan on items"
_PARTS: Final = "Seq Scan on parts"
_BY_ID: Final = "Index Scan using items_pkey on items"

_MADE: Final[dict[str, Callable[[Asked], Statements]]] = {
    "full_scan": lambda _: _scan("", _ITEMS, "seqscan"),
    "index_only_scan": lambda _: Statements(
        "SELECT count(created), sum(created) FROM items",
        Intended(
            ("Index Only Scan using items_created on items",),
            facts=(("Index Only Scan", "Heap Fetches", 0),),
        ),
        ("indexonlyscan", "indexscan"),
    ),
    "clustered_range": _range("id", "items_pkey"),
    "secondary_range_correlated": _range("created", "items_created"),
    "secondary_range_uncorrelated": _range("code", "items_code"),
    "point_lookups": _lookups,
    "hash_join": lambda _: _join(
        "Hash Join", ("hashjoin", "seqscan"), _ITEMS, _PARTS, told=(("Hash", "Hash Batches"),)
    ),
    "merge_join": lambda _: _join(
        "Merge Join", ("mergejoin", "indexscan"), _BY_ID, "Index Scan using parts_item on parts"
    ),
    "nested_loop_join": lambda _: _join(
        "Nested Loop", ("nestloop", "seqscan", "indexscan"), _PARTS, _BY_ID
    ),
    "sort_spill": lambda _: Statements(
        "SELECT count(*), count(*) FILTER (WHERE place <> code + 1), sum(length(filler)) FROM "
        "(SELECT code, filler, row_number() OVER (ORDER BY code) AS place FROM items) AS sorted",
        Intended(
            (_ITEMS,),
            ("Sort",),
            facts=(("Sort", "Sort Space Type", "Disk"),),
            told=(("Sort", "Sort Space Used"),),
        ),
        ("seqscan", "sort"),
    ),
    "aggregate": lambda _: Statements(
        "SELECT grp, count(*), sum(value) FROM items GROUP BY grp",
        Intended((_ITEMS,), ("HashAggregate",)),
        ("seqscan", "hashagg"),
    ),
    "bulk_copy": lambda _: Statements(
        "",
        answer="SELECT count(*), sum(value) FROM copies",
        undo=("TRUNCATE copies",),
        copies=True,
        grows=True,
    ),
    "create_index": lambda _: Statements(
        "CREATE INDEX items_made ON items (code, value)",
        answer="SELECT count(value), sum(code) FROM items WHERE code >= 0",
        answer_plan=Intended(("Index Only Scan using items_made on items",)),
        undo=("DROP INDEX items_made",),
        uses=("indexonlyscan", "indexscan"),
    ),
    "vacuum": lambda _: Statements(
        "VACUUM (INDEX_CLEANUP ON, PARALLEL 0, TRUNCATE OFF) items",
        answer="SELECT count(id), sum(id) FROM items WHERE id >= 0",
        # No page that the index knows has a dead row, or one that somebody may not see.
        answer_plan=Intended(
            ("Index Only Scan using items_pkey on items",),
            facts=(("Index Only Scan", "Heap Fetches", 0),),
        ),
        uses=("indexscan", "indexonlyscan"),
        undo=(f"DELETE FROM items WHERE id % {DELETED} = 1",),
        changes=(f"DELETE FROM items WHERE id % {DELETED} = 0",),
    ),
    "update_indexed": lambda asked: Statements(
        _update(asked),
        Intended(("ModifyTable on items", _BY_ID)),
        ("indexscan",),
        answer=f"SELECT count(*), sum(code) FROM items WHERE code >= {asked.rows}",
        undo=(_update(asked, "-"),),
        grows=True,
    ),
    "checkpoint": lambda asked: Statements(
        "CHECKPOINT",
        before=(
            _update(asked),
            "DROP TABLE IF EXISTS mark",
            "CREATE TEMP TABLE mark AS SELECT pg_current_wal_insert_lsn() AS at",
        ),
        answer="SELECT redo_lsn >= at FROM pg_control_checkpoint(), mark",
        uses=("indexscan", "nestloop", "seqscan"),
    ),
}
