"""The queries in PostgreSQL's SQL, what pins the plan of each, and which plan that is.

Every kind of node that a query does not use is switched off. What cannot be switched off (there
is no other plan, or a later version has a new one) is found by the comparison with the plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.workloads.sql import texts
from nfslab.workloads.sql.postgres.plans import Intended
from nfslab.workloads.sql.statements import Statements

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


@dataclass(frozen=True, kw_only=True)
class PostgresStatements(Statements[Intended]):
    """A query as it is run."""

    uses: tuple[str, ...] = ()
    """Of `NODES`, those that are not switched off."""
    grows: bool = False
    """It makes a table longer, row by row."""

    def pins(self) -> dict[str, str]:
        """Settings of its session."""
        nodes = {f"enable_{n}": "on" if n in self.uses else "off" for n in NODES}
        return PINNED | nodes


def statements(query: str, asked: Asked) -> PostgresStatements:
    """Of one query."""
    return _MADE[query](asked)


def _scan(condition: str, scans: str, uses: str) -> PostgresStatements:
    return PostgresStatements(text=texts.scan(condition), plan=Intended((scans,)), uses=(uses,))


def _range(column: str, index: str) -> Callable[[Asked], PostgresStatements]:
    return lambda asked: _scan(
        texts.within(column, asked), f"Index Scan using {index} on items", "indexscan"
    )


def _lookups(asked: Asked) -> PostgresStatements:
    return PostgresStatements(
        text=f"SELECT count(*), sum(value) FROM unnest('{{{texts.keys(asked)}}}'::int[]) AS key "
        "JOIN items ON items.id = key",
        plan=Intended(("Function Scan on unnest", "Index Scan using items_pkey on items"),
                      ("Nested Loop",)),
        uses=("nestloop", "indexscan"),
    )  # fmt: skip


def _join(node: str, uses: tuple[str, ...], *scans: str, **more: Any) -> PostgresStatements:
    return PostgresStatements(
        text=texts.joined("items JOIN parts ON parts.item = items.id"),
        plan=Intended(scans, (node,), **more),
        uses=uses,
    )


_ITEMS: Final = "Seq Scan on items"
_PARTS: Final = "Seq Scan on parts"
_BY_ID: Final = "Index Scan using items_pkey on items"

_MADE: Final[dict[str, Callable[[Asked], PostgresStatements]]] = {
    "full_scan": lambda _: _scan("", _ITEMS, "seqscan"),
    "index_only_scan": lambda _: PostgresStatements(
        text=texts.covered(),
        plan=Intended(
            ("Index Only Scan using items_created on items",),
            facts=(("Index Only Scan", "Heap Fetches", 0),),
        ),
        uses=("indexonlyscan", "indexscan"),
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
    "sort_spill": lambda _: PostgresStatements(
        text=texts.numbered("items"),
        plan=Intended(
            (_ITEMS,),
            ("Sort",),
            facts=(("Sort", "Sort Space Type", "Disk"),),
            told=(("Sort", "Sort Space Used"),),
        ),
        uses=("seqscan", "sort"),
    ),
    "aggregate": lambda _: PostgresStatements(
        text=texts.grouped(),
        plan=Intended((_ITEMS,), ("HashAggregate",)),
        uses=("seqscan", "hashagg"),
    ),
    "bulk_copy": lambda _: PostgresStatements(
        answer=texts.COPIED,
        undo=("TRUNCATE copies",),
        copies=True,
        grows=True,
    ),
    "create_index": lambda _: PostgresStatements(
        text=texts.MADE_INDEX,
        answer=texts.of_index(),
        answer_plan=Intended(("Index Only Scan using items_made on items",)),
        undo=("DROP INDEX items_made",),
        uses=("indexonlyscan", "indexscan"),
    ),
    "vacuum": lambda _: PostgresStatements(
        text="VACUUM (INDEX_CLEANUP ON, PARALLEL 0, TRUNCATE OFF) items",
        answer=texts.kept(),
        # No page that the index knows has a dead row, or one that somebody may not see.
        answer_plan=Intended(
            ("Index Only Scan using items_pkey on items",),
            facts=(("Index Only Scan", "Heap Fetches", 0),),
        ),
        uses=("indexscan", "indexonlyscan"),
        undo=(texts.deleted(1),),
        changes=(texts.deleted(0),),
    ),
    "update_indexed": lambda asked: PostgresStatements(
        text=texts.update(asked),
        plan=Intended(("ModifyTable on items", _BY_ID)),
        uses=("indexscan",),
        answer=texts.updated(asked),
        undo=(texts.update(asked, "-"),),
        grows=True,
    ),
    "checkpoint": lambda asked: PostgresStatements(
        text="CHECKPOINT",
        before=(
            texts.update(asked),
            "DROP TABLE IF EXISTS mark",
            "CREATE TEMP TABLE mark AS SELECT pg_current_wal_insert_lsn() AS at",
        ),
        answer="SELECT redo_lsn >= at FROM pg_control_checkpoint(), mark",
        uses=("indexscan", "nestloop", "seqscan"),
    ),
}
