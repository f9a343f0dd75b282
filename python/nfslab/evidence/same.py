"""What the runs of a configuration have of one thing: rows of tables by point, and their cells.

Medians over the runs stand for a point; counts of what should not have happened are sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from nfslab.display import cells
from nfslab.display.sections import Column
from nfslab.evidence.base import Facts
from nfslab.evidence.found import by_point
from nfslab.evidence.over_time import middle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.display.sections import Cell, Shown, Tone
    from nfslab.evidence.base import Found

    ToCell = Callable[["Same[Any]"], Cell]

F = TypeVar("F", bound=Facts)
S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Same(Generic[S]):
    """One row: the same thing in every run of a point that has it."""

    point: str
    runs: Sequence[S]
    target: str = ""
    """The mount, or server."""
    name: str = ""
    """The operation, device or the like."""


POINT: Final[Shown[Same[Any]]] = (Column("configuration", False), lambda one: cells.text(one.point))
MOUNT: Final[Shown[Same[Any]]] = (Column("mount", False), lambda one: cells.text(one.target))
RUNS: Final[Shown[Same[Any]]] = (Column("runs"), lambda one: cells.count(len(one.runs)))
OPERATION: Final[Shown[Same[Any]]] = (Column("operation", False), lambda one: cells.text(one.name))


def at_points(found: Found[F]) -> list[Same[F]]:
    """The facts of each point's runs."""
    return [Same(label, [run.facts for run in runs]) for _, label, runs in by_point(found)]


def median(figure: Callable[[Any], float | None], unit: str) -> ToCell:
    """Of a figure of each run."""
    shown = {"B": cells.size, "share": cells.share}.get(unit)
    if shown is None:
        return lambda one: cells.quantity(middle(map(figure, one.runs)), unit)
    return lambda one: shown(middle(map(figure, one.runs)))


def total(figure: Callable[[Any], int | None], tone: Tone = "") -> ToCell:
    """A count of all runs together."""
    return lambda one: cells.count(sum(figure(run) or 0 for run in one.runs), tone)


def noted(found: Found[Any]) -> list[str]:
    """The notes of the runs' facts, each with its run."""
    notes = (f"{run.label}: {note}" for run in found.runs for note in run.facts.notes)
    return list(dict.fromkeys(notes))
