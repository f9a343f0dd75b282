"""Plans as MariaDB's EXPLAIN and ANALYZE (FORMAT=JSON) give them: read, compared, shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.workloads.sql.plans import difference, listed

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS: Final = (
    "filesort", "temporary_table", "block-nl-join", "window_functions_computation",
    "duplicates_removal", "materialized", "range-checked-for-each-record",
)  # fmt: skip
"""What else than a read of a table may be in a plan."""
EXTRAS: Final = {"using_index": "the index alone", "mrr_type": "rows fetched in another order"}
Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Intended:
    """A plan: all its reads, all its steps."""

    scans: tuple[str, ...]
    steps: tuple[str, ...] = ()
    spills: bool = False
    """Its sort has to merge what it wrote to files."""
    told: tuple[tuple[str, str, str], ...] = ()
    """(step or table, part, metric) of numbers that an execution tells."""

    @property
    def executed(self) -> bool:
        """Does it need ANALYZE?"""
        return self.spills or bool(self.told)

    def missing(self, plan: Node) -> str:
        """In which way a plan is not this one; empty: it is."""
        steps = [name for name, _ in walk(plan) if name in STEPS]
        scans = [named(node) for name, node in walk(plan) if name == "table"]
        wrong = difference(self.scans, self.steps, scans, steps)
        more = [name for name in steps if name not in self.steps]
        return wrong or (f"there is {listed(more)} in it" if more else "")

    def unproven(self, plan: Node) -> str:
        """What an executed plan was to do, and did not; empty: it did."""
        passes = part_of(plan, "filesort", "r_sort_passes")
        if self.spills and not passes:
            return f"filesort: r_sort_passes is {passes!r}: it did not write to files"
        return ""


def walk(plan: Any) -> Iterator[tuple[str, Any]]:
    """(name, what it holds) of all nodes, outer ones first."""
    if isinstance(plan, dict):
        for name, below in plan.items():
            yield name, below
            yield from walk(below)
    elif isinstance(plan, list):
        for below in plan:
            yield from walk(below)


def named(table: Node) -> str:
    """How a table is read: "range items by PRIMARY"."""
    if "table_name" not in table:
        return str(table.get("message", "?"))
    name = f"{table.get('access_type')} {table['table_name']}"
    if "key" in table and not str(table["key"]).startswith("#hash#"):
        name += f" by {table['key']}"
    more = [words for part, words in EXTRAS.items() if table.get(part)]
    return f"{name} ({', '.join(more)})" if more else name


def part_of(plan: Node, name: str, part: str) -> Any:
    """Of the first step of that name, or of the table; None: there is none."""
    for step, node in walk(plan):
        is_it = step == name or (step == "table" and node.get("table_name") == name)
        if is_it and isinstance(node, dict) and part in node:
            return node[part]
    return None


def shown(plan: Node) -> str:
    """A line for each step and table, outer ones first."""
    lines = [
        named(node) if name == "table" else name
        for name, node in walk(plan)
        if name == "table" or name in STEPS
    ]
    return "\n".join(lines)
