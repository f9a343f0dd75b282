"""The universal scalability law as a section: contention, coherency, peak, knee, or a refusal.

Offered loads are not told of here: there the number at work is what comes out, not what was set,
and `offered_load` finds their peak and knee without a law.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nfslab.display.figures import Axis, Figure, Lines, Panel, Series
from nfslab.display.numbers import ABSENT, number, p_value, percent
from nfslab.display.sections import Cell, Column, Section, Table
from nfslab.evidence.base import EvidenceKind, Facts
from nfslab.evidence.scalability.curves import CONCURRENT, axis_of, curves_of, metric_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.display.figures import Scale
    from nfslab.evidence.base import Found, SealedRun
    from nfslab.evidence.scalability.curves import Curve
    from nfslab.report.model import AxisInfo, MetricInfo
    from nfslab.statistics.scalability import Bounded, Scalability

DRAWN = 60
"""Places of the law's line."""
INTRO = (
    "C(N) = λN / (1 + σ(N−1) + κN(N−1)): σ is the share that is done by one at a time "
    "(contention), κ what each pair costs the others (coherency). With κ the throughput has a "
    "peak; the knee is where throughput over response time is largest."
)
COLUMNS = (
    Column("curve", numeric=False),
    Column("contention σ"),
    Column("coherency κ"),
    Column("peak"),
    Column("knee"),
    Column("largest misfit"),
    Column("p of the misfit"),
    Column("", numeric=False),
)


class ScalabilityFacts(Facts):
    """One run of a closed load."""


class ScalabilityEvidence(EvidenceKind[ScalabilityFacts]):
    """Throughput over clients or threads."""

    kind: ClassVar[str] = "scalability"
    title: ClassVar[str] = "Scalability"
    Facts: ClassVar[type[Facts]] = ScalabilityFacts

    def present(self, run: SealedRun) -> bool:
        """Did an axis set how many work at once, in a load that is closed?"""
        load = run.record.load
        if load is not None and load.kind == "open":
            return False
        words = {path.rpartition(".")[2] for path in run.record.settings}
        return not CONCURRENT.isdisjoint(words | run.record.factors.keys())

    def facts(self, run: SealedRun) -> ScalabilityFacts:
        """That it is one."""
        return ScalabilityFacts()

    def section(self, found: Found[ScalabilityFacts]) -> Section | None:
        """All curves of the experiment."""
        if found.analysis is None:
            return None
        axis, metric = axis_of(found.analysis), metric_of(found.analysis)
        curves = curves_of(found.analysis)
        if axis is None or metric is None or not any(curve.law for curve in curves):
            return None
        drawn = [curve for curve in curves if curve.law is not None]
        return Section(
            self.title,
            anchor=self.kind,
            intro=INTRO,
            sentences=[said for curve in drawn if (said := _sentence(curve, axis.name))],
            tables=[Table("The law at each curve", COLUMNS, [_row(curve) for curve in curves])],
            figures=[_figure(drawn, axis, metric)],
        )

    def content(self, found: Found[ScalabilityFacts]) -> Any:
        """The curves with all digits."""
        curves = [] if found.analysis is None else curves_of(found.analysis)
        return [curve.as_dict() for curve in curves] if any(c.law for c in curves) else []


def _sentence(curve: Curve, axis: str) -> str:
    law = curve.law
    assert law is not None
    where = f"{curve.label}: " if curve.label else ""
    if not curve.fits:
        level = number(curve.levels[curve.farthest])
        return (
            f"{where}the law does not fit: at {axis}={level} throughput is {percent(law.misfit)} "
            "off. Something changes along the axis that is neither contention nor coherency. Of "
            f"what was measured, throughput is largest at {axis}={number(curve.highest)}, "
            f"throughput over response time at {number(curve.knee)}."
        )
    said = f"{where}contention {_within(law.contention, percent)}"
    said += f", coherency {_within(law.coherency, percent)}"
    return f"{said}. {_peak(law, axis, curve.levels[-1])}"


def _peak(law: Scalability, axis: str, largest: float) -> str:
    if math.isinf(law.peak.high):
        least = f" below {axis}={number(law.peak.low)}" if law.peak.low > 1 else ""
        return f"No peak is shown{least}."
    beyond = ""
    if law.peak.value > largest:
        beyond = f", beyond what was measured ({number(largest)})"
    peak, knee = _within(law.peak, _places), _within(law.knee, _places)
    return f"Peak at {axis}={peak}{beyond}; knee at {knee}."


def _places(value: float | None) -> str:
    return number(value, 2)


def _within(bounded: Bounded, shown: Any) -> str:
    return f"{shown(bounded.value)} ({shown(bounded.low)} to {shown(bounded.high)})"


def _row(curve: Curve) -> Sequence[Cell]:
    law = curve.law
    name = Cell(curve.label or "all")
    if law is None:
        return [name, *([Cell(ABSENT)] * 6), Cell(curve.why, tone="faint")]
    parameters = (
        (law.contention, percent), (law.coherency, percent), (law.peak, _places),
        (law.knee, _places),
    )  # fmt: skip
    return [
        name,
        *(
            Cell(_within(one, shown), one.value) if curve.fits else Cell(ABSENT)
            for one, shown in parameters
        ),
        Cell(percent(law.misfit), law.misfit),
        Cell(p_value(law.misfit_p), law.misfit_p),
        Cell("fits" if curve.fits else "does not fit"),
    ]


def _figure(curves: Sequence[Curve], axis: AxisInfo, metric: MetricInfo) -> Figure:
    series = []
    for curve in curves:
        assert curve.law is not None
        label = curve.label or metric.name
        x = np.geomspace(curve.levels[0], curve.levels[-1], DRAWN)
        law = curve.law.rate(x)
        series += [
            Series(label, curve.levels, curve.means, draw="dots", group=label),
            Series(f"{label}, law", x, law, group=label, dash=not curve.fits),
        ]
    scale: Scale = "log" if axis.log else "linear"
    levels = [str(level) for level in axis.levels]
    panel = Panel("", Axis(metric.name, metric.unit, low=0.0), series)
    drawing = Lines(Axis(axis.name, "", scale, levels=levels, at=axis.numbers or ()), [panel])
    caption = "Dots: geometric means over the blocks. Lines: the law; dashed where it does not fit."
    return Figure.of("scalability-law", "Throughput and the scalability law", caption, drawing)
