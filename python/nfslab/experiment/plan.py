"""Which runs an experiment consists of, in which order, and which of them are missing.

Randomised complete blocks: every point once per block, each block in an order of its own
drawn from (seed, block). Drift of the machine then spreads over all points and can be
told apart by the block. "fixed" keeps the file's order within each block.

A run is found again by (point, block). The newest attempt counts; a failed one is made
again by the next call, as a further attempt, unless it is to be kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nfslab.experiment.identity import block_order, run_id
from nfslab.results.catalogue import newest_attempts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from nfslab.experiment.sections import ExperimentSection
    from nfslab.experiment.setup import Point
    from nfslab.results.records import CatalogueLine


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One run that is to be made."""

    point: Point
    block: int
    attempt: int = 1

    @property
    def run_id(self) -> str:
        """Name of its folder."""
        return run_id(self.block, self.point.point_id, self.attempt)


def planned_runs(
    points: Sequence[Point], repetitions: int, order: Literal["blocks", "fixed"], seed: int
) -> list[PlannedRun]:
    """Every run of the experiment in the order in which they are to be made."""
    runs = []
    for block in range(repetitions):
        places = block_order(seed, block, len(points)) if order == "blocks" else range(len(points))
        runs += [PlannedRun(points[place], block) for place in places]
    return runs


def blocks_now(section: ExperimentSection, sealed: Iterable[CatalogueLine]) -> int:
    """Blocks that are decided on: those that were begun, too, where blocks are added."""
    least, most = section.blocks
    begun = max((line.block + 1 for line in sealed), default=0)
    return max(least, min(most, begun))


def missing_runs(
    planned: Iterable[PlannedRun],
    sealed: Iterable[CatalogueLine],
    *,
    keep_failed: bool,
    taken: Collection[str] = (),
) -> list[PlannedRun]:
    """What is left to be made: no attempt yet, or the newest one failed.

    `taken` are names of run folders that cannot be read: they count as no run, but their
    names are not free.
    """
    newest = {(line.point_id, line.block): line for line in newest_attempts(sealed)}
    missing = []
    for run in planned:
        before = newest.get((run.point.point_id, run.block))
        if before is not None:
            if before.status == "ok" or keep_failed:
                continue
            run = PlannedRun(run.point, run.block, before.attempt + 1)
        while run.run_id in taken:
            run = PlannedRun(run.point, run.block, run.attempt + 1)
        missing.append(run)
    return missing


def next_position(sealed: Iterable[CatalogueLine]) -> int:
    """The place in the order of carrying out that the next run takes."""
    return 1 + max((line.position for line in sealed), default=-1)
