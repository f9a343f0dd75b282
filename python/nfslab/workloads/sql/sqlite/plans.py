"""Plans as SQLite's EXPLAIN QUERY PLAN gives them: read, compared, shown."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.workloads.sql.plans import difference, listed

if TYPE_CHECKING:
    from collections.abc import Sequence

READ: Final = re.compile(r"(SCAN|SEARCH) (items|parts|copies|wanted)\b")
"""Of a table: reads of what the statement itself makes are named by the version's own counting."""
SORT: Final = "USE TEMP B-TREE FOR "
AGAIN: Final = re.compile(r" VIRTUAL TABLE INDEX .*")


@dataclass(frozen=True, slots=True)
class Intended:
    """A plan: all its reads of tables, all its sorts."""

    scans: tuple[str, ...]
    sorts: tuple[str, ...] = ()
    """What they are for: "GROUP BY"."""

    def missing(self, lines: Sequence[str]) -> str:
        """In which way a plan is not this one; empty: it is."""
        scans = [AGAIN.sub("", line) for line in lines if READ.match(line)]
        sorts = [line.removeprefix(SORT) for line in lines if line.startswith(SORT)]
        others = [name for name in sorts if name not in self.sorts]
        wrong = difference(self.scans, self.sorts, scans, sorts)
        return wrong or (f"there is a sort for {listed(others)} in it" if others else "")


def lines_of(rows: Sequence[tuple[Any, ...]]) -> list[str]:
    """Of the rows that EXPLAIN QUERY PLAN yields: id, parent, nothing, text."""
    return [str(row[3]) for row in rows]


def shown(rows: Sequence[tuple[Any, ...]]) -> str:
    """A line a step, by depth."""
    depth, lines = {0: -1}, []
    for number, parent, _, text in rows:
        depth[number] = depth.get(parent, -1) + 1
        lines.append(f"{'  ' * depth[number]}{text}")
    return "\n".join(lines)
