"""Plans as EXPLAIN (FORMAT JSON) gives them: read, compared with the intended one, shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.workloads.sql.plans import difference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

AGGREGATES: Final = {"Hashed": "HashAggregate", "Sorted": "GroupAggregate"}
Node = dict[str, Any]
"""A node of a plan, as PostgreSQL names its parts."""


@dataclass(frozen=True, slots=True)
class Intended:
    """A plan, as far as it matters."""

    scans: tuple[str, ...]
    """All nodes that read a table or an index, as `named` calls them, outer ones first."""
    nodes: tuple[str, ...] = ()
    """Others that have to be there."""
    facts: tuple[tuple[str, str, object], ...] = ()
    """(node's type, part, value) that EXPLAIN (ANALYZE) has to tell."""
    told: tuple[tuple[str, str], ...] = ()
    """(node's type, part) of numbers that are kept with the run."""

    @property
    def executed(self) -> bool:
        """Does it need EXPLAIN (ANALYZE)?"""
        return bool(self.facts or self.told)

    def missing(self, plan: Node) -> str:
        """In which way a plan is not this one; empty: it is."""
        nodes = list(walk(plan))
        scans = [named(node) for node in nodes if _reads(node)]
        return difference(self.scans, self.nodes, scans, [named(node) for node in nodes])

    def unproven(self, plan: Node) -> str:
        """Which of `facts` does not hold in an executed plan; empty: all do."""
        for kind, part, value in self.facts:
            found = part_of(plan, kind, part)
            if found != value:
                return f"{kind}: {part} is {found!r}, not {value!r}"
        return ""


def walk(plan: Node) -> Iterator[Node]:
    """The node and all below it, outer ones first."""
    yield plan
    for below in plan.get("Plans", ()):
        yield from walk(below)


def _reads(node: Mapping[str, Any]) -> bool:
    return "Relation Name" in node or "Index Name" in node or "Function Name" in node


def named(node: Mapping[str, Any]) -> str:
    """As EXPLAIN's text has it: "Index Scan using items_pkey on items"."""
    name = AGGREGATES.get(str(node.get("Strategy")), str(node["Node Type"]))
    if "Index Name" in node:
        name += f" using {node['Index Name']}"
    on = node.get("Relation Name", node.get("Function Name"))
    return f"{name} on {on}" if on else name


def part_of(plan: Node, kind: str, part: str) -> object:
    """Of the first node of that type; None: there is none."""
    return next((node.get(part) for node in walk(plan) if node["Node Type"] == kind), None)


def shown(plan: Node, depth: int = 0) -> str:
    """A line a node."""
    lines = [f"{'  ' * depth}{named(plan)}"]
    lines += [shown(below, depth + 1) for below in plan.get("Plans", ())]
    return "\n".join(lines)
