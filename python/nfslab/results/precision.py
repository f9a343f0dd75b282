"""Are the comparisons of the primary metric as narrow as the experiment asked for?

One answer for the runner, which adds blocks until they are, and for reports, which say so. It
follows from the sealed runs alone: an interrupted experiment decides as one that was not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfslab.display.numbers import counted, percent
from nfslab.results.baseline import baseline_pairs, choose_baseline, compare_pairs
from nfslab.results.emulation import emulated_points
from nfslab.results.selection import point_label
from nfslab.statistics.sequential import blocks_needed, half_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.results.outcomes import Outcomes
    from nfslab.results.records import Stopping
    from nfslab.statistics.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Precision:
    """How narrow the widest interval is."""

    stopping: Stopping
    blocks: int
    metric: str
    comparisons: int
    label: str
    """Of the point whose interval is the widest."""
    half_width: float | None
    """As a share of the ratio; None: not known of every comparison."""
    needed: int
    """Blocks that would do if the spread stays."""

    @property
    def reached(self) -> bool:
        """Is it narrow enough? Where nothing can be compared, more blocks would not help."""
        if not self.comparisons:
            return True
        return self.half_width is not None and self.half_width <= self.stopping.until

    @property
    def ended(self) -> bool:
        """Narrow enough, or as many blocks as allowed."""
        return self.blocks >= self.stopping.at_least and (
            self.reached or self.blocks >= self.stopping.at_most
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        width = self.half_width
        return {
            **self.stopping.model_dump(),
            "blocks": self.blocks,
            "metric": self.metric,
            "half_width": width if width is None or math.isfinite(width) else None,
            "widest": self.label,
            "reached": self.reached,
        }


def precision_of(outcomes: Outcomes, stopping: Stopping | None = None) -> Precision | None:
    """The precision so far by this rule, or by that of the record; None without one."""
    stopping = stopping or outcomes.record.stopping
    if stopping is None:
        return None
    found = _compared(outcomes)
    metric, blocks = outcomes.primary or "", outcomes.record.repetitions
    if not found:
        return Precision(stopping, blocks, metric, 0, "", None, blocks)
    widths = [(half_width(result), result, label) for label, result in found]
    unknown = next((label for width, _, label in widths if width is None), None)
    if unknown is not None:
        return Precision(stopping, blocks, metric, len(found), unknown, None, blocks)
    width, result, label = max(widths, key=lambda one: one[0] or 0.0)
    needed = blocks_needed(result, stopping.until)
    return Precision(stopping, blocks, metric, len(found), label, width, needed)


def _compared(outcomes: Outcomes) -> Sequence[tuple[str, Comparison]]:
    """(label, comparison) of the primary metric, of points that have any good run.

    Not of emulated ones: more of them would narrow nothing.
    """
    axis, level, _ = choose_baseline(outcomes.record.axes)
    if axis is None or outcomes.primary is None:
        return []
    emulated = emulated_points(outcomes)
    pairs = [
        pair
        for pair in baseline_pairs(outcomes.points, axis.name, level)
        if emulated.isdisjoint(pair)
    ]
    compared = compare_pairs(outcomes, pairs, [outcomes.primary]).get(outcomes.primary, [])
    return [
        (point_label(outcomes.points[new]), result)
        for (_, new), result in zip(pairs, compared, strict=True)
        if result.n_base and result.n_new
    ]


def precision_sentence(precision: Precision | None) -> str:
    """For the run's end and for reports; empty where the number of repetitions was given."""
    if precision is None:
        return ""
    p, aim = precision, percent(precision.stopping.until)
    after = f"After {counted(p.blocks, 'repetition')}"
    if not p.comparisons:
        return f"{after} there is nothing to compare, so no interval to narrow."
    if p.half_width is None:
        said = f"{after} the interval of {p.metric} at {p.label} is not known"
    else:
        widest = "the widest interval" if p.comparisons > 1 else "the interval"
        where = f" (at {p.label})" if p.comparisons > 1 else ""
        said = f"{after} {widest} of {p.metric} is ±{percent(p.half_width)} of its ratio{where}"
    if p.reached:
        return f"{said}: {aim} was asked for."
    if not p.ended:
        return f"{said}; {aim} is asked for, and more are to come."
    more = f": {aim} would take about {p.needed}" if p.needed > p.blocks else ""
    return f"{said}. No more than {counted(p.stopping.at_most, 'repetition')} are allowed{more}."
