"""The highest load under a limit, in as few points as possible.

The load is doubled until a point misses the limit, then the gap between the best good and the
least bad one is halved (by their geometric mean: precision is a ratio) until it is small enough.
A point whose generator was the limit says nothing of the server; it bounds the search from
above, and the result says so.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from nfslab.quantities import parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Mapping

POINTS_MAX: Final = 60
"""Points of one search: 20 doublings and the halvings of any sensible precision."""
FIGURES: Final = ("mean", "p50", "p90", "p99", "p99.9")
_GOAL: Final = re.compile(r"(mean|p50|p90|p99|p99\.9)\s*<\s*(.+)")

Verdict = Literal["good", "bad", "invalid"]


@dataclass(frozen=True, slots=True)
class Goal:
    """A response time that must not be reached."""

    figure: str
    """One of FIGURES."""
    limit_s: float

    def __str__(self) -> str:
        return f"{self.figure} < {self.limit_s * 1e3:g} ms"

    def verdict(self, metrics: Mapping[str, float], *, valid: bool) -> Verdict:
        """Of a run's metrics: "invalid" if its generator or an error was the limit.

        A saturated point is "bad" however short its responses: the server did not do that load.
        """
        if not valid:
            return "invalid"
        value_ms = metrics.get(f"response_{self.figure.replace('.', '')}_ms")
        if value_ms is None or metrics["saturated"]:
            return "bad"
        return "good" if value_ms < self.limit_s * 1e3 else "bad"


def goal(text: str) -> Goal:
    """Of a text such as mean<10ms or p99<50ms; ValueError otherwise."""
    match = _GOAL.fullmatch(text.strip())
    if match is None:
        known = ", ".join(FIGURES)
        raise ValueError(f"{text!r} is no goal; write {known} and a limit: p99<20ms")
    limit_s = parse_duration_s(match[2].strip())
    if limit_s <= 0:
        raise ValueError(f"{text!r}: the limit is above 0")
    return Goal(match[1], limit_s)


@dataclass(slots=True)
class Search:
    """Asks for loads (`next_load`) and is told of each what came of it (`tell`)."""

    start: float
    precision: float
    """0.05: the answer is at most 5 % below a load that misses the goal."""
    good: float | None = None
    bad: float | None = None
    limited: float | None = None
    """The least load at which the generator itself was the limit."""
    told: list[tuple[float, Verdict]] = field(default_factory=list)

    def next_load(self) -> float | None:
        """The load to try; None when the answer is known as well as was asked."""
        if len(self.told) >= POINTS_MAX:
            return None
        above = min((edge for edge in (self.bad, self.limited) if edge is not None), default=None)
        if above is None:
            return self.start if self.good is None else self.good * 2
        if self.good is None:
            return above / 2 if above / 2 >= 1 else None
        if above / self.good <= 1 + self.precision:
            return None
        return math.sqrt(self.good * above)

    def tell(self, load: float, verdict: Verdict) -> None:
        """What came of a load. A good one above a bad one is noise: the bad one counts."""
        self.told.append((load, verdict))
        if verdict == "good":
            self.good = max(load, self.good or load)
        elif verdict == "bad":
            self.bad = min(load, self.bad or load)
        else:
            self.limited = min(load, self.limited or load)

    @property
    def bounded_by_generator(self) -> bool:
        """Whether the answer is only a lower bound: above it the generator was the limit."""
        return self.limited is not None and (self.bad is None or self.limited < self.bad)
