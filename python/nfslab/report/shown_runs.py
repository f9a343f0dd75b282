"""Which runs' evidence a report reads: one of every point, then second ones, while there is room.

Summing up single calls takes seconds a run where there are millions. So a report reads the evidence
of some runs, counts those that it leaves out, and names those whose evidence cannot be read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from nfslab.errors import ResultsError
from nfslab.results.catalogue import RUNS
from nfslab.results.outcomes import locate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from nfslab.report.model import Analysis

RUNS_MOST = 12


class _Placed(Protocol):
    @property
    def point(self) -> int: ...
    @property
    def block(self) -> int: ...


Run = TypeVar("Run", bound=_Placed)
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class CountedRun:
    """A run that is in the figures."""

    folder: Path
    point: int
    block: int

    @property
    def run_id(self) -> str:
        """Its name."""
        return self.folder.name


@dataclass(frozen=True, slots=True)
class ShownRun(Generic[Found]):
    """A counted run and what was read of it."""

    run_id: str
    point: int
    block: int
    found: Found


@dataclass(slots=True)
class ShownRuns(Generic[Found]):
    """What is shown, in the order of points and blocks."""

    runs: list[ShownRun[Found]] = field(default_factory=list)
    left_out: int = 0
    """Runs that have this evidence and are not shown."""
    problems: list[str] = field(default_factory=list)
    """Runs whose evidence cannot be read, and why."""


def counted_runs(analysis: Analysis, has: Callable[[Path], bool]) -> list[CountedRun]:
    """Counted runs whose folder has this evidence, by point and block."""
    folder = locate(Path(analysis.path)) / RUNS
    found = [
        CountedRun(folder / run.run_id, run.point, run.block)
        for run in analysis.runs
        if run.counted and run.point is not None and has(folder / run.run_id)
    ]
    return sorted(found, key=lambda run: (run.point, run.block))


def first_of_each_point(runs: Iterable[Run]) -> list[Run]:
    """First runs of all points, then second ones: the order in which room is given away."""
    seen: dict[int, int] = {}
    ranked = []
    for run in sorted(runs, key=lambda run: (run.point, run.block)):
        seen[run.point] = seen.get(run.point, 0) + 1
        ranked.append((seen[run.point], run.point, run))
    return [run for _, _, run in sorted(ranked, key=lambda entry: entry[:2])]


def read_shown(
    analysis: Analysis,
    has: Callable[[Path], bool],
    read: Callable[[Path], Found | None],
    most: int = RUNS_MOST,
) -> ShownRuns[Found]:
    """The evidence of an experiment's counted runs, of as many as may be.

    `has` and `read` get a run's folder; `read` may raise ResultsError, and None is nothing to show.
    """
    candidates = counted_runs(analysis, has)
    shown: ShownRuns[Found] = ShownRuns(left_out=max(0, len(candidates) - most))
    for run in first_of_each_point(candidates)[:most]:
        try:
            found = read(run.folder)
        except ResultsError as error:
            shown.problems.append(problem(run.run_id, error))
            continue
        if found is not None:
            shown.runs.append(ShownRun(run.run_id, run.point, run.block, found))
    shown.runs.sort(key=lambda run: (run.point, run.block))
    return shown


def problem(name: str, error: ResultsError) -> str:
    """What a report says of a run whose evidence cannot be read."""
    return f"{name}: " + ": ".join(part for part in (error.what, error.why) if part)
