"""The queries by name: what each asks for, and its right answer, made without a database.

An engine's dialect has the text and the plan of each; its answer has to be this one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import numpy as np

from nfslab.workloads.sql.data import FILLER, GROUPS, ITEMS_PER_PART, Data, weight

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.workloads.sql.data import Integers

Query = Literal[
    "full_scan", "index_only_scan", "clustered_range", "secondary_range_correlated",
    "secondary_range_uncorrelated", "point_lookups", "hash_join", "merge_join",
    "nested_loop_join", "sort_spill", "aggregate", "bulk_copy", "create_index", "vacuum",
    "update_indexed", "checkpoint",
]  # fmt: skip
QUERIES: Final[tuple[str, ...]] = get_args(Query)
WRITING: Final = frozenset(
    ("bulk_copy", "create_index", "vacuum", "update_indexed", "checkpoint")
)  # fmt: skip
"""What they do has to be undone before they can be done again."""
RANGES: Final = frozenset(
    ("clustered_range", "secondary_range_correlated", "secondary_range_uncorrelated",
     "update_indexed", "checkpoint")
)  # fmt: skip
COPIED_MOST: Final = 2_000_000
DELETED: Final = 10
"""One row in so many is deleted before VACUUM."""

Answer = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What determines a query's answer."""

    rows: int
    """Of `items`."""
    share: float
    """Of the rows, that a range has."""
    lookups: int

    @property
    def data(self) -> Data:
        """The rows."""
        return Data(self.rows)

    @property
    def span(self) -> tuple[int, int]:
        """First value of a range, and the first one behind it."""
        wide = max(1, round(self.rows * self.share))
        low = (self.rows - wide) // 2
        return low, low + wide

    @property
    def keys(self) -> Integers:
        """The ids that are looked up: different ones, in no order."""
        return self.data.code(np.arange(self.lookups))

    @property
    def copied(self) -> int:
        """Rows that bulk_copy loads; the client holds them in memory."""
        return min(self.data.parts, COPIED_MOST)


def answer(query: str, asked: Asked, *, again: bool = False) -> Answer:
    """What it has to yield; `again`: once more after it ran before."""
    return ANSWERS[query](asked) if query != "vacuum" else _left(asked, 2 if again else 1)


def _all(column: str) -> Callable[[Asked], Answer]:
    return lambda asked: [asked.data.total(column)]


def _within(column: str) -> Callable[[Asked], Answer]:
    def found(asked: Asked) -> Answer:
        low, high = asked.span
        return [asked.data.total("value", lambda c: (c[column] >= low) & (c[column] < high))]

    return found


def _looked_up(asked: Asked) -> Answer:
    values = (asked.keys * 7919 + 13) % 1000
    return [(asked.lookups, int(values.sum()))]


def _joined(asked: Asked) -> Answer:
    count, total = asked.data.total("value", lambda c: c["id"] % ITEMS_PER_PART == 0)
    for chunk in asked.data.chunks():
        parts, rest = np.divmod(chunk["id"], ITEMS_PER_PART)
        total += int(weight(parts[rest == 0]).sum())
    return [(count, total)]


def _sorted(asked: Asked) -> Answer:
    """Rows, those that are not at their place, bytes of filler."""
    return [(asked.rows, 0, asked.rows * FILLER)]


def _grouped(asked: Asked) -> Answer:
    counts, sums = np.zeros((2, GROUPS), dtype=np.int64)
    for chunk in asked.data.chunks():
        counts += np.bincount(chunk["grp"], minlength=GROUPS)
        np.add.at(sums, chunk["grp"], chunk["value"])
    found = zip(range(GROUPS), counts.tolist(), sums.tolist(), strict=True)
    return [row for row in found if row[1]]


def _copied(asked: Asked) -> Answer:
    return [asked.data.total("value", lambda c: c["id"] < asked.copied)]


def _left(asked: Asked, tenths: int) -> Answer:
    return [asked.data.total("id", lambda c: c["id"] % DELETED >= tenths)]


def _updated(asked: Asked) -> Answer:
    """Each row's `code` is greater by the number of rows than before."""
    low, high = asked.span
    count, codes = asked.data.total("code", lambda c: (c["id"] >= low) & (c["id"] < high))
    return [(count, codes + count * asked.rows)]


ANSWERS: Final[dict[str, Callable[[Asked], Answer]]] = {
    "full_scan": _all("value"),
    "index_only_scan": _all("created"),
    "clustered_range": _within("id"),
    "secondary_range_correlated": _within("created"),
    "secondary_range_uncorrelated": _within("code"),
    "point_lookups": _looked_up,
    "hash_join": _joined,
    "merge_join": _joined,
    "nested_loop_join": _joined,
    "sort_spill": _sorted,
    "aggregate": _grouped,
    "bulk_copy": _copied,
    "create_index": _all("code"),
    "update_indexed": _updated,
    "checkpoint": lambda _: [(True,)],
}
"""Of all but vacuum, whose answer depends on what was deleted."""
