"""How long is it going to take? From the workload's guess, then from what was measured.

A point that has been measured takes what its runs took (the median). For a point that has
not, the workload's own estimate is scaled by how far the estimates of the measured points
were off: a guess that is wrong by a factor is usually wrong by that factor everywhere.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from nfslab.experiment.preflight import needed_bytes
from nfslab.targets.registry import target_class

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.setup import Point
    from nfslab.results.records import CatalogueLine

KEPT_DURATIONS = 64
"""Newest durations kept of a point; enough for a median."""


class Forecast:
    """Seconds of runs that are still to come."""

    def __init__(self, points: Iterable[Point]) -> None:
        self._estimates = {point.point_id: estimated_run_s(point) for point in points}
        self._taken: dict[str, list[float]] = defaultdict(list)

    def learn(self, line: CatalogueLine) -> None:
        """A run has ended; failed ones say nothing about how long a good one takes.

        Runs of points that are not asked for now (`--continue`) say nothing either.
        """
        if line.status == "ok" and line.point_id in self._estimates:
            taken = self._taken[line.point_id]
            taken.append(line.duration_ns / 1e9)
            del taken[:-KEPT_DURATIONS]

    @property
    def measured(self) -> bool:
        """Is it more than the workload's guess?"""
        return any(self._taken.values())

    def run_s(self, point_id: str) -> float:
        """Expected seconds of one run of this point."""
        return self._one_s(point_id, self._scale())

    def total_s(self, runs: Iterable[PlannedRun]) -> float:
        """Expected seconds of all these runs."""
        scale = self._scale()
        counts = Counter(run.point.point_id for run in runs)
        return sum(count * self._one_s(point_id, scale) for point_id, count in counts.items())

    def _one_s(self, point_id: str, scale: float) -> float:
        taken = self._taken.get(point_id)
        return statistics.median(taken) if taken else self._estimates[point_id] * scale

    def _scale(self) -> float:
        """How much longer than estimated the measured points took."""
        ratios = [
            statistics.median(taken) / self._estimates[point_id]
            for point_id, taken in self._taken.items()
            if taken and self._estimates.get(point_id, 0) > 0
        ]
        return statistics.median(ratios) if ratios else 1.0


RUN_S: Final = 1.0
"""What every run takes besides: targets, provenance, collectors, sealing (0.8 to 1.3 s of runs of
the quickstart)."""


GUEST_S: Final = 60.0
"""What a virtual machine takes until the run in it begins, and after it, where it is emulated."""


def estimated_run_s(point: Point) -> float:
    """The workload's guess for one run, the pause before it, and what the runner and filling the
    targets take, within its limit."""
    limits = point.setup.limits
    guests = (point.setup.machine.kernel, point.setup.client.kernel)
    around_s = GUEST_S if any(guests) else 0.0
    guess = point.setup.workload.make().estimate_s() + limits.settle_s + RUN_S
    for name, size in needed_bytes(point).items():
        guess += size / target_class(point.setup.targets[name].kind).fill_bytes_per_s
    return around_s + min(max(guess, 0.001), limits.run_s)
