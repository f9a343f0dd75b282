"""Curves over an axis of clients or threads, and the universal scalability law of each.

A curve is one combination of the other axes; it takes the blocks that have a counted run at all of
its levels. The metric is the primary one, where more of it is better: a rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nfslab.statistics.scalability import (
    BLOCKS_LEAST,
    LEVELS_LEAST,
    Scalability,
    scalability,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nfslab.report.model import Analysis, AxisInfo, MetricInfo

CONCURRENT: Final = frozenset({"clients", "threads", "processes", "workers", "jobs", "connections"})
"""Last words of parameters (or names of axes) that say how many work at once."""


def is_concurrency(name: str, parameters: list[str]) -> bool:
    """Does this axis set how many work at once, and nothing else?"""
    last = {parameter.rpartition(".")[2] for parameter in parameters}
    return last <= CONCURRENT or (len(parameters) == 1 and name in CONCURRENT)


@dataclass(frozen=True, slots=True)
class Curve:
    """One combination of the other axes."""

    label: str
    """Such as "placement=apart"; empty where there is no other axis."""
    factors: dict[str, Any]
    levels: list[float]
    means: list[float]
    """Geometric, over the blocks that are whole."""
    law: Scalability | None
    why: str
    """Why there is no law; empty when there is one."""

    @property
    def fits(self) -> bool:
        """Is the law there, and not refused?"""
        return self.law is not None and not self.law.refused

    @property
    def farthest(self) -> int:
        """Place of the level that lies farthest from the law."""
        assert self.law is not None
        return int(np.argmax(np.abs(np.log(self.means / self.law.rate(self.levels)))))

    @property
    def highest(self) -> float | None:
        """The measured level with the largest mean."""
        return self.levels[int(np.argmax(self.means))] if self.means else None

    @property
    def knee(self) -> float | None:
        """The measured level with the largest throughput over response time, C² / N."""
        power = np.square(self.means) / self.levels if self.means else None
        return None if power is None else self.levels[int(np.argmax(power))]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "label": self.label,
            "factors": self.factors,
            "levels": self.levels,
            "means": self.means,
            "highest_level": self.highest,
            "knee_level": self.knee,
            "law": None if self.law is None else self.law.as_dict(),
            "why": self.why,
        }


def axis_of(analysis: Analysis) -> AxisInfo | None:
    """The first axis of clients or threads with levels enough; None: there is none."""
    for axis in analysis.axes:
        if (
            axis.numbers is not None
            and min(axis.numbers) >= 1
            and len(set(axis.numbers)) >= LEVELS_LEAST
            and is_concurrency(axis.name, axis.parameters)
        ):
            return axis
    return None


def metric_of(analysis: Analysis) -> MetricInfo | None:
    """The primary metric, where it is a rate."""
    metric = analysis.metric(analysis.primary) if analysis.primary else None
    return metric if metric is not None and metric.better == "higher" else None


def curves_of(analysis: Analysis) -> list[Curve]:
    """In the order of the points; empty without such an axis, or a rate."""
    axis, metric = axis_of(analysis), metric_of(analysis)
    if axis is None or axis.numbers is None or metric is None:
        return []
    number = {repr(level): value for level, value in zip(axis.levels, axis.numbers, strict=True)}
    values: dict[int, dict[int, float]] = {}
    for run in analysis.runs:
        if run.counted and run.point is not None and run.metrics.get(metric.name, 0.0) > 0:
            values.setdefault(run.point, {})[run.block] = run.metrics[metric.name]
    groups: dict[tuple[tuple[str, str], ...], dict[float, int]] = {}
    for point in analysis.points:
        others = {key: level for key, level in point.factors.items() if key != axis.name}
        key = tuple((name, repr(level)) for name, level in others.items())
        level = number.get(repr(point.factors.get(axis.name)))
        if level is not None:
            groups.setdefault(key, {})[level] = point.index
    return [_curve(analysis, axis.name, places, values) for places in groups.values()]


def _curve(
    analysis: Analysis, axis: str, places: dict[float, int], values: dict[int, dict[int, float]]
) -> Curve:
    measured = {level: values[point] for level, point in places.items() if values.get(point)}
    factors = {
        name: level
        for name, level in analysis.points[next(iter(places.values()))].factors.items()
        if name != axis
    }
    label = ", ".join(f"{name}={level}" for name, level in factors.items())
    levels = sorted(measured)
    if len(levels) < LEVELS_LEAST:
        return Curve(label, factors, levels, [], None, f"{len(levels)} levels have runs")
    whole = sorted(set.intersection(*(set(runs) for runs in measured.values())))
    if len(whole) < BLOCKS_LEAST:
        why = f"{len(whole)} blocks have a run at every level; {BLOCKS_LEAST} are needed"
        return Curve(label, factors, levels, [], None, why)
    rates: NDArray[np.float64] = np.array(
        [[measured[level][block] for level in levels] for block in whole]
    )
    means = np.exp(np.log(rates).mean(axis=0)).tolist()
    return Curve(label, factors, levels, means, scalability(levels, rates), "")
