"""The slowest 1 % of single operations, by the same parts as the mean: where they can be followed.

Means are what sums, and hide what happens to few. Of operations of which each has its parts, those
at or above the 99th percentile of the whole are taken together: means of their parts, which sum to
their mean, beside the means of all. The percentile is that of *all* operations, also of those that
could not be taken apart; where more than a tenth of the slowest could not, nothing is said, since
what is left out is no random part of them (calls that were retransmitted).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nfslab.display import cells
from nfslab.display.numbers import count, quantity
from nfslab.display.sections import Column, Table
from nfslab.evidence.base import Facts
from nfslab.evidence.found import by_point
from nfslab.results.groups import grouped
from nfslab.statistics.latency_parts import SLOW
from nfslab.statistics.quantile_estimator import quantiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from nfslab.display.sections import Cell
    from nfslab.evidence.base import Found

F = TypeVar("F", bound=Facts)

LEAST: Final = 20
"""Slow operations of a run below which nothing is said."""
MOST: Final = 0.05
"""Of all that may be at or above the percentile: where more have the same time, none is slowest."""
SHARE_LEAST: Final = 0.9
"""Of the slowest that were taken apart."""
TITLE: Final = "Above the 99th percentile"
NOTE: Final = (
    "Single operations at or above the 99th percentile of each run, and the same parts of all; "
    "means over the runs."
)


class SlowPart(Facts):
    """One part of an operation."""

    name: str
    ns: float
    """Mean of all operations."""
    slow_ns: float
    """Mean of the slowest."""


class _Wholes:
    """What parts sum to."""

    __slots__ = ()
    parts: Sequence[SlowPart]

    @property
    def mean_ns(self) -> float:
        """Of all operations."""
        return sum(part.ns for part in self.parts)

    @property
    def slow_ns(self) -> float:
        """Of the slowest."""
        return sum(part.slow_ns for part in self.parts)


class SlowestFacts(_Wholes, Facts):
    """A run's slowest 1 % of one kind of operation."""

    of: str
    """What one is: "transaction", "NFS call", "call at the server"."""
    operations: int
    """All of them, of which `threshold_ns` is the 99th percentile."""
    slow: int
    """At or above it."""
    threshold_ns: int
    parts: tuple[SlowPart, ...]
    """Of those taken apart; empty: too few of the slowest were."""
    apart: int
    """Of the slowest, taken apart."""


def slowest(
    of: str, names: Sequence[str], parts_ns: NDArray[Any], wholes_ns: NDArray[Any]
) -> SlowestFacts | None:
    """`parts_ns`: a row a part, a column for each operation that was taken apart. `wholes_ns`: of
    all operations. None: fewer than `LEAST` are the slowest, or more than `MOST` of all."""
    if not wholes_ns.size:
        return None
    threshold_ns = int(quantiles(wholes_ns, [SLOW])[0].value)
    slow = int((wholes_ns >= threshold_ns).sum())
    if not LEAST <= slow <= MOST * wholes_ns.size:
        return None
    mine = parts_ns[:, parts_ns.sum(axis=0) >= threshold_ns]
    apart = int(mine.shape[1])
    made = (
        tuple(
            SlowPart(name=name, ns=float(all_ns.mean()), slow_ns=float(slow_ns.mean()))
            for name, all_ns, slow_ns in zip(names, parts_ns, mine, strict=True)
        )
        if apart >= SHARE_LEAST * slow
        else ()
    )
    return SlowestFacts(of=of, operations=int(wholes_ns.size), slow=slow,
                        threshold_ns=threshold_ns, parts=made, apart=apart)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PointSlowest(_Wholes):
    """Over the runs of a configuration that tell."""

    label: str
    of: str
    runs: int
    operations: int
    """Of all these runs."""
    slow: int
    threshold_ns: float
    parts: Sequence[SlowPart]

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "of": self.of,
            "runs": self.runs,
            "operations": self.operations,
            "slow": self.slow,
            "threshold_ns": self.threshold_ns,
            "mean_ns": self.mean_ns,
            "slow_mean_ns": self.slow_ns,
            "parts": [part.model_dump() for part in self.parts],
        }

    def sentence(self, label_of: Callable[[str], str]) -> str:
        """How long they are, and the part that is most longer than in all."""
        most = max(self.parts, key=lambda part: part.slow_ns - part.ns)
        return (
            f"{self.label}: {plural(self.of)} above p99 ({count(self.slow)} of "
            f"{count(self.operations)}, from {quantity(self.threshold_ns, 'ns')} on) take "
            f"{quantity(self.slow_ns, 'ns')} on average, all {quantity(self.mean_ns, 'ns')}; most "
            f"of it in {label_of(most.name)}: {quantity(most.slow_ns, 'ns')} instead of "
            f"{quantity(most.ns, 'ns')}."
        )


def plural(of: str) -> str:
    """ "calls at the server"."""
    first, *rest = of.split(" at ")
    return " at ".join([f"{first}s", *rest])


def at_point(label: str, runs: Iterable[Sequence[SlowestFacts]]) -> list[PointSlowest]:
    """By kind of operation; parts that a run has not are none of its time."""
    by_kind = grouped((one.of, one) for run in runs for one in run if one.parts)
    made = []
    for of, found in by_kind.items():
        n = len(found)
        sums: dict[str, tuple[float, float]] = {}
        for one in found:
            for part in one.parts:
                ns, slow_ns = sums.get(part.name, (0.0, 0.0))
                sums[part.name] = ns + part.ns / n, slow_ns + part.slow_ns / n
        made.append(
            PointSlowest(
                label=label, of=of, runs=n,
                operations=sum(one.operations for one in found),
                slow=sum(one.slow for one in found),
                threshold_ns=sum(one.threshold_ns for one in found) / n,
                parts=[
                    SlowPart(name=name, ns=ns, slow_ns=slow_ns)
                    for name, (ns, slow_ns) in sums.items()
                ],
            )
        )  # fmt: skip
    return made


def slowest_of(found: Found[F], of: Callable[[F], Sequence[SlowestFacts]]) -> list[PointSlowest]:
    """Of every point, by kind of operation."""
    return [
        one
        for _, label, runs in by_point(found)
        for one in at_point(label, (of(run.facts) for run in runs))
    ]


def slowest_table(rows: Sequence[PointSlowest], label_of: Callable[[str], str]) -> Table:
    """The whole and each part, of all and of the slowest, the part that grew most first."""
    columns = [
        Column("configuration", False), Column("of", False), Column("part", False), Column("mean"),
        Column("mean above p99"), Column("difference"),
    ]  # fmt: skip
    made: list[list[Cell]] = []
    for row in rows:
        hint = (
            f"{count(row.slow)} of {count(row.operations)} in {row.runs} runs, from "
            f"{quantity(row.threshold_ns, 'ns')} on"
        )
        parts = sorted(row.parts, key=lambda part: part.ns - part.slow_ns)
        lines = [(f"whole {row.of}", row.mean_ns, row.slow_ns)]
        lines += [(label_of(part.name), part.ns, part.slow_ns) for part in parts]
        made += [
            [
                cells.text(row.label), cells.text(plural(row.of), hint=hint), cells.text(name),
                cells.latency(ns), cells.latency(slow_ns), cells.latency(slow_ns - ns),
            ]
            for name, ns, slow_ns in lines
        ]  # fmt: skip
    return Table(TITLE, columns, made, NOTE)


def left_out(runs: Iterable[tuple[str, Sequence[SlowestFacts]]]) -> list[str]:
    """Runs (by label) of whose slowest operations too few were taken apart, in sentences."""
    return [
        f"{label}: of the {plural(one.of)} above p99 only {count(one.apart)} of "
        f"{count(one.slow)} could be taken apart: nothing is said of them."
        for label, run in runs
        for one in run
        if not one.parts
    ]
