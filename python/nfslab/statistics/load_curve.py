"""What points of offered load mean together: peak, knee, overload, overall response time.

A point is saturated when less was achieved than SATURATED_BELOW of what was asked for: the offered
load, or what arrived of an open load in the window if that was less. Arrivals are random: of 3,000
that are planned, less than 98 % come in 13 % of windows, and a server that answers them all is not
saturated. Nor is one that does what was offered when chance sends more. Where the arrivals are not
known (closed loads, whose arrivals wait for answers; published figures), the offered load is what
was asked for. Processes of a closed load think for random times: of N operations chance alone makes
a share of 1/sqrt(N) (one standard deviation), and two of these are allowed for.

Peak and knee are a server's limits: without a saturated point neither was reached.

The knee is the point with the largest ratio of throughput to response time (the "power" of L.
Kleinrock, "Power and deterministic rules of thumb for probabilistic problems in computer
communications", ICC 1979). The overall response time is the area under the curve of response time
against achieved load, by trapezoids, divided by the largest achieved load, as SPEC SFS states it.
It ends at the peak: what was offered beyond leads back along other response times. From the least
load down to none it is continued with that point's response time. A point is overloaded when it is
saturated, more was offered than at the peak, and clearly less was achieved.

Points that are not valid are in none of these.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SATURATED_BELOW: Final = 0.98
CHANCE_DEVIATIONS: Final = 2.0


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """One point of the curve."""

    offered_ops_per_s: float
    achieved_ops_per_s: float
    response_s: float | None
    """Mean; None when nothing was answered."""
    valid: bool = True
    arrived_ops_per_s: float | None = None
    """Of an open load, in the window in which the achieved load was counted; None: not known."""
    closed_operations: float | None = None
    """Of a closed load, answered in the window; None: of another, or not known."""

    @property
    def asked_ops_per_s(self) -> float:
        """What the server had to do, and no more than was offered."""
        if self.arrived_ops_per_s is None:
            return self.offered_ops_per_s
        return min(self.offered_ops_per_s, self.arrived_ops_per_s)

    @property
    def is_saturated(self) -> bool:
        """Was clearly less achieved than asked for?"""
        by_chance = 0.0
        if self.closed_operations is not None:
            by_chance = CHANCE_DEVIATIONS / math.sqrt(max(self.closed_operations, 1.0))
        return self.achieved_ops_per_s < (SATURATED_BELOW - by_chance) * self.asked_ops_per_s


@dataclass(frozen=True, slots=True)
class LoadCurve:
    """What the valid points say; indices are into the points that were given."""

    highest: int | None
    """The point with the highest achieved load."""
    knee: int | None
    """None where nothing is saturated: not reached."""
    saturated: tuple[int, ...]
    overall_response_s: float | None

    @property
    def peak(self) -> int | None:
        """The highest point, if anything is saturated; else the peak was not reached."""
        return self.highest if self.saturated else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"peak": self.peak, "saturated": list(self.saturated)}


def load_curve(points: Sequence[LoadPoint]) -> LoadCurve:
    """Peak, knee, saturation and overall response time of these points, in any order."""
    usable = [
        (number, point, point.response_s)
        for number, point in enumerate(points)
        if point.valid and point.response_s is not None and point.achieved_ops_per_s > 0
    ]
    saturated = tuple(n for n, point in enumerate(points) if point.valid and point.is_saturated)
    if not usable:
        return LoadCurve(None, None, saturated, None)
    highest = max(usable, key=lambda entry: entry[1].achieved_ops_per_s)[0]
    timed = [entry for entry in usable if entry[2] > 0]
    knee = max(timed, key=lambda e: e[1].achieved_ops_per_s / e[2])[0] if timed else None
    most_offered = points[highest].offered_ops_per_s
    curve = sorted(
        (point.achieved_ops_per_s, response)
        for _, point, response in usable
        if point.offered_ops_per_s <= most_offered
    )
    return LoadCurve(highest, knee if saturated else None, saturated, _area(curve) / curve[-1][0])


def overloaded(points: Sequence[LoadPoint]) -> tuple[int, ...]:
    """Valid, saturated points at which more was offered than at the peak, and clearly less
    achieved."""
    place = load_curve(points).peak
    if place is None:
        return ()
    peak = points[place]
    return tuple(
        number
        for number, point in enumerate(points)
        if point.valid
        and point.is_saturated
        and point.offered_ops_per_s > peak.offered_ops_per_s
        and point.achieved_ops_per_s < SATURATED_BELOW * peak.achieved_ops_per_s
    )


def _area(curve: Sequence[tuple[float, float]]) -> float:
    """Under the trapezoids, and the rectangle before the first point."""
    area = curve[0][0] * curve[0][1]
    for (left, low), (right, high) in itertools.pairwise(curve):
        area += (right - left) * (low + high) / 2
    return area
