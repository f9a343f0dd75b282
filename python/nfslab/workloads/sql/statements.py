"""What a query is made of on any engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

P = TypeVar("P")
"""How an engine describes an intended plan."""


@dataclass(frozen=True, kw_only=True)
class Statements(Generic[P]):
    """A query as it is run."""

    text: str = ""
    """What is timed."""
    plan: P | None = None
    """None: it is no query that has one."""
    first: tuple[str, ...] = ()
    """Within each execution, before `text`."""
    then: str = ""
    """Within each execution, behind it: what yields its answer; empty: it does itself."""
    before: tuple[str, ...] = ()
    """Before it is executed, not timed."""
    undo: tuple[str, ...] = ()
    answer: str = ""
    """What yields the answer behind it, not timed; empty: it does itself."""
    answer_plan: P | None = None
    changes: tuple[str, ...] = ()
    """Done on the loaded database before the run's session begins."""
    copies: bool = False
    """It takes rows that the client has in memory."""
    mark: str = ""
    """Asked before it is executed; `proof` may name what that yielded {mark}."""
    proof: str = ""
    """Asked behind it: its value is true where the query did what it is there for."""
