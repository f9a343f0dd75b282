"""What differs between two points, part by part: means over the runs, differences over the blocks.

Means are what sums: a point's part is the mean over its counted runs, so that parts sum to the
whole here as in each run, and the differences of the parts sum to that of the whole. The interval
of a difference is Student's on the differences within blocks (`statistics.comparison`), each part
alone at 95 %, and wider by what samples may be off (`PartFacts.doubt_ns`). Whether a difference is
*shown* is judged with Holm's correction over the parts of the same level of that comparison.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from nfslab.evidence.found import by_point
from nfslab.results.groups import grouped
from nfslab.statistics.comparison import compare_many
from nfslab.statistics.observations import Observations
from nfslab.statistics.verdicts import EMULATED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from nfslab.evidence.anatomy.parts import AnatomyFacts
    from nfslab.evidence.base import Found, RunFacts
    from nfslab.report.model import Analysis, ComparisonResult

    Sides = tuple[Sequence[RunFacts[AnatomyFacts]], Sequence[RunFacts[AnatomyFacts]]]

WHOLE: tuple[str, ...] = ()
"""No path: the whole operation."""
LEAST_EQUAL: Final = 3
"""Runs of a side whose times are equal: they are a constant (a modelled time), and no chance."""
EQUAL: Final = 1e-6
"""Of a time."""


@dataclass(frozen=True, slots=True)
class PointAnatomy:
    """A point's operation: means over its runs."""

    point: int
    label: str
    operation: str
    runs: int
    mean_ns: float
    parts_ns: Mapping[str, float]
    """By path, also of parts within parts."""
    error_ns: Mapping[str, float]
    """Of what was sampled: half of a 95 % interval of the mean over the runs."""
    bias_ns: Mapping[str, float]
    """Of what was sampled: how far all samples may be off one way."""

    def of(self, paths: Sequence[str]) -> float:
        """These parts together; without a path the whole."""
        return sum(self.parts_ns.get(path, 0.0) for path in paths) if paths else self.mean_ns

    def top(self) -> dict[str, float]:
        """The parts that sum to the mean."""
        return {path: ns for path, ns in self.parts_ns.items() if "/" not in path}

    def within(self, part: str) -> dict[str, float]:
        """The parts that sum to that part; empty: not known."""
        depth = part.count("/") + 1
        return {
            path: ns
            for path, ns in self.parts_ns.items()
            if path.startswith(f"{part}/") and path.count("/") == depth
        }


@dataclass(frozen=True, slots=True)
class Difference:
    """A part at a point against the same part at its base."""

    path: str
    base_ns: float
    new_ns: float
    interval_ns: tuple[float, float] | None
    """95 %, of this part alone, widened by what samples may be off; None: too few blocks."""
    shown: bool

    @property
    def difference_ns(self) -> float:
        """New - base."""
        return self.new_ns - self.base_ns


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Two points, part by part."""

    result: ComparisonResult
    """Of the primary metric."""
    base: PointAnatomy
    new: PointAnatomy
    whole: Difference
    parts: Sequence[Difference]
    """Of the top level, the largest difference first."""
    inner: Sequence[Difference]
    """Of parts within parts."""
    sides: Sides
    """Runs of base and new."""

    @property
    def shown(self) -> bool:
        """Is a difference shown, of the primary metric (among all comparisons) and of the time?"""
        return self.result.result.shown and self.whole.shown


def point_anatomies(found: Found[AnatomyFacts]) -> list[PointAnatomy]:
    """Of every point with runs."""
    return [_mean(point, label, runs) for point, label, runs in by_point(found)]


def _mean(point: int, label: str, runs: Sequence[RunFacts[AnatomyFacts]]) -> PointAnatomy:
    n = len(runs)
    tables = [run.facts.by_path() for run in runs]
    sums: dict[str, float] = {}
    squares: dict[str, float] = {}
    for table in tables:
        for path, part in table.items():
            sums[path] = sums.get(path, 0.0) + part.ns
            if part.error_ns is not None:
                squares[path] = squares.get(path, 0.0) + part.error_ns**2
    biased: dict[str, float] = {}
    for table in tables:
        for path, part in table.items():
            if part.doubt_ns > 0:
                biased[path] = biased.get(path, 0.0) + part.doubt_ns / n
    return PointAnatomy(
        bias_ns=biased,
        point=point,
        label=label,
        operation=runs[0].facts.operation,
        runs=n,
        mean_ns=sum(run.facts.mean_ns for run in runs) / n,
        parts_ns={path: total / n for path, total in sums.items()},
        error_ns={path: total**0.5 / n for path, total in squares.items()},
    )


def compared(found: Found[AnatomyFacts], analysis: Analysis) -> list[Compared]:
    """Every comparison of the primary metric whose two points were taken apart.

    An emulated processor's times are compared with nothing, nor are their parts.
    """
    points = {one.point: one for one in point_anatomies(found)}
    runs = grouped((run.point, run) for run in found.runs)
    made = []
    for result in analysis.comparisons.get(analysis.primary or "", []):
        if result.result.verdict == EMULATED:
            continue
        base, new = points.get(result.base_point), points.get(result.point)
        if base is not None and new is not None and base.operation == new.operation:
            sides = runs[result.base_point], runs[result.point]
            made.append(_compare(result, base, new, sides))
    return made


def _compare(
    result: ComparisonResult,
    base: PointAnatomy,
    new: PointAnatomy,
    sides: Sides,
) -> Compared:
    paths = list(dict.fromkeys([*base.parts_ns, *new.parts_ns]))
    top = [(path,) for path in paths if "/" not in path]
    inner = [(path,) for path in paths if "/" in path]
    alpha = result.result.alpha
    (whole,) = _differences([WHOLE], base, new, sides, alpha)
    parts = _differences(top, base, new, sides, alpha)
    return Compared(
        result=result,
        base=base,
        new=new,
        whole=whole,
        parts=sorted(parts, key=lambda one: -abs(one.difference_ns)),
        inner=_differences(inner, base, new, sides, alpha),
        sides=sides,
    )


def _differences(
    groups: Sequence[tuple[str, ...]],
    base: PointAnatomy,
    new: PointAnatomy,
    sides: Sides,
    alpha: float,
) -> list[Difference]:
    """Of each group of paths that is counted as one; `WHOLE` is the operation.

    `alpha`: the level at which the primary metric is compared.
    """
    if not groups:
        return []
    observed = [_observations(side, groups) for side in sides]
    results = compare_many(
        *observed, n_groups=len(groups), better="lower", alpha=alpha, ratios=False
    )
    made = []
    constants = [_constants(side, len(groups)) for side in observed]
    for number, (paths, one) in enumerate(zip(groups, results, strict=True)):
        ends = one.interval_unadjusted
        if ends is None and all(number in side for side in constants):
            made.append(_constant(paths, *(side[number] for side in constants)))
            continue
        bias_ns = max(sum(at.bias_ns.get(p, 0.0) for p in paths) for at in (base, new))
        wide = None if ends is None else (ends.low - bias_ns, ends.high + bias_ns)
        shown = one.shown and wide is not None and not wide[0] <= 0 <= wide[1]
        made.append(Difference("+".join(paths), base.of(paths), new.of(paths), wide, shown))
    return made


def _constants(side: Observations, n_groups: int) -> dict[int, float]:
    """Groups whose values are all equal, with the value."""
    found = {}
    for number in range(n_groups):
        values = side.values[side.groups == number]
        if values.size >= LEAST_EQUAL and np.ptp(values) <= EQUAL * abs(values[0]):
            found[number] = float(values[0])
    return found


def _constant(paths: Sequence[str], base_ns: float, new_ns: float) -> Difference:
    """Two constants: there is no spread, and no test of it."""
    ends = (new_ns - base_ns,) * 2
    shown = abs(new_ns - base_ns) > EQUAL * max(base_ns, new_ns)
    return Difference("+".join(paths), base_ns, new_ns, ends, shown)


def _observations(
    runs: Iterable[RunFacts[AnatomyFacts]], groups: Sequence[tuple[str, ...]]
) -> Observations:
    values: list[float] = []
    numbers: list[int] = []
    blocks: list[int] = []
    for run in runs:
        table = run.facts.by_path()
        for number, paths in enumerate(groups):
            known = [table[path].ns for path in paths if path in table]
            values.append(run.facts.mean_ns if paths == WHOLE else sum(known))
            numbers.append(number)
            blocks.append(run.block)
    return Observations.of(values, groups=numbers, blocks=blocks)


def together(pair: Compared, paths: Sequence[str]) -> Difference | None:
    """These parts counted as one; None: neither point has any of them."""
    return _together(pair, tuple(paths))


@functools.lru_cache(maxsize=256)  # causes ask the same of a pair, many times
def _together(pair: Compared, paths: tuple[str, ...]) -> Difference | None:
    if not any(path in side.parts_ns for side in (pair.base, pair.new) for path in paths):
        return None
    (found,) = _differences([paths], pair.base, pair.new, pair.sides, pair.result.result.alpha)
    return found


def of_figures(
    pair: Compared, name: str, figure: Callable[[RunFacts[AnatomyFacts]], float]
) -> Difference:
    """The same of a time of each run that is no part of the anatomy, ns of an operation."""
    values = [[figure(run) for run in side] for side in pair.sides]
    observed = [
        Observations.of(known, blocks=[run.block for run in side])
        for known, side in zip(values, pair.sides, strict=True)
    ]
    alpha = pair.result.result.alpha
    (one,) = compare_many(*observed, n_groups=1, better="lower", alpha=alpha, ratios=False)
    base_ns, new_ns = (sum(known) / len(known) for known in values)
    ends = one.interval_unadjusted
    wide = None if ends is None else (ends.low, ends.high)
    return Difference(name, base_ns, new_ns, wide, one.shown)
