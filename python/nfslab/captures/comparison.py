"""Captures side by side: what got faster or slower, by the statistics of `nfslab compare`.

The calls of a capture are no independent observations: they wait behind each other, and one
stall slows a thousand of them. So each capture is cut into equal blocks of time (the core's
lens `blocks`), and each block gives one observation of each operation: its median latency,
its mean latency, its calls per second. Blocks of the two captures are compared as two sets of
repetitions: Welch's t on the logarithms, the ratio of geometric means with its interval, and
Holm's correction over everything that is compared here.

Decisions. An operation is compared with itself; one that the other capture has in another
version of NFS only is compared with its namesake there (in v4: the COMPOUND that it names). The
last block is left out: the end of the capture cuts it. A block tells of an operation when it
holds at least `MIN_ANSWERED` answered calls of it; with fewer than `MIN_BLOCKS` such blocks on a
side the captures' own totals are laid beside each other, and their significance is unknown.

Neighbouring blocks resemble each other where the load drifts slowly: they are then averaged in
batches of twice their correlation time, which is as good as independent. Where fewer than
`MIN_BLOCKS` batches are left, one capture cannot tell its own drift from a difference.

Limits. Two captures are two moments: what else differed between them, no statistic knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nfslab.captures.spelling import operation, protocol
from nfslab.display.numbers import quantity
from nfslab.statistics.comparison import Comparison, compare_many
from nfslab.statistics.observations import Observations

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nfslab._core import BlockRow
    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.statistics.verdicts import Better

    Floats = NDArray[np.float64]
    Key = tuple[int, int, str]
    Row = tuple[BlockRow, CaptureAnalysis]

MIN_BLOCKS = 5
MIN_ANSWERED = 5
BATCH_TIMES = 2.0
"""Length of a batch, in correlation times of the blocks."""

WITHOUT_MEANING = frozenset({"NULL", "COMPOUND"})
"""Not compared across versions: a COMPOUND is whatever it holds."""

UNLIKE = 2.0
"""A note says so where whole captures differ that much more, or less, than their blocks do."""

METHOD = (
    "Each capture is cut into equal blocks of time; a block gives one observation of each "
    "operation, since calls within a block wait behind each other and are not independent. "
    "Base and new are geometric means of the blocks that hold enough answered calls. "
    "Blocks that resemble their neighbours are averaged in batches of twice their correlation "
    "time first. Welch's t on the logarithms; Holm's correction over all lines."
)


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure that a block gives."""

    name: str
    column: Literal["p50_ns", "mean_ns", "calls"]
    unit: str
    better: Better | None


MEASURES = (
    Measure("median latency", "p50_ns", "ns", "lower"),
    Measure("mean latency", "mean_ns", "ns", "lower"),
    Measure("calls per second", "calls", "1/s", None),
)
"""A rate has no direction: a client that waits less sends more, one with a cache sends fewer."""


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure of one operation, in two captures."""

    program: int
    version: int
    operation: str
    label: str
    measure: Measure
    capture: int
    """Index of the capture that is compared with the first."""
    blocks: bool
    """Compared block by block; False: too few blocks, the totals are laid beside each other."""
    whole: tuple[float | None, float | None]
    """The same of the whole captures, the first one in front: a stall weighs there as it lasted."""
    result: Comparison

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "program": self.program,
            "version": self.version,
            "operation": self.operation,
            "figure": self.measure.name,
            "unit": self.measure.unit,
            "capture": self.capture,
            "by_blocks": self.blocks,
            "whole_base": self.whole[0],
            "whole_new": self.whole[1],
            **self.result.as_dict(),
        }


@dataclass(frozen=True, slots=True)
class CaptureComparison:
    """Every capture against the first."""

    figures: list[ComparedFigure]
    widths_ns: list[int]
    """Length of a block, by capture."""
    blocks: list[int]
    """Whole blocks, by capture."""
    notes: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "method": METHOD,
            "block_ns": self.widths_ns,
            "blocks": self.blocks,
            "figures": [figure.as_dict() for figure in self.figures],
            "notes": self.notes,
        }


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is to be compared, before it is."""

    key: Key
    label: str
    measure: Measure
    capture: int
    base: Floats
    new: Floats
    by_blocks: bool
    whole: tuple[float | None, float | None]


def compare_captures(captures: Sequence[CaptureAnalysis]) -> CaptureComparison:
    """Each capture with the first, in all operations that both have. Needs lens `blocks`."""
    notes: list[str] = []
    pairs: list[_Pair] = []
    for index in range(1, len(captures)):
        pairs += _pairs(captures[0], captures[index], index, notes)
    results = _compared(pairs)
    figures = [
        ComparedFigure(
            *pair.key, pair.label, pair.measure, pair.capture, pair.by_blocks, pair.whole, result
        )
        for pair, result in zip(pairs, results, strict=True)
    ]
    notes += _unlike(pairs)
    few = dict.fromkeys(f.label for f in figures if not f.blocks)
    if few:
        notes.insert(
            0,
            f"{', '.join(few)}: fewer than {MIN_BLOCKS} independent blocks with {MIN_ANSWERED} "
            "answered calls on a side; whole captures are compared, significance "
            "unknown",
        )
    shown = [capture.content["blocks"]["blocks"] for capture in captures]
    widths_ns, blocks = [b["width_ns"] for b in shown], [b["whole"] for b in shown]
    return CaptureComparison(figures, widths_ns, blocks, notes)


def _compared(pairs: Sequence[_Pair]) -> list[Comparison]:
    """All of them as one family."""
    if not pairs:
        return []

    def observed(side: str) -> Observations:
        values = [getattr(pair, side) for pair in pairs]
        groups = np.repeat(np.arange(len(pairs)), [v.size for v in values])
        return Observations.of(np.concatenate(values), groups=groups)

    return compare_many(
        observed("base"),
        observed("new"),
        n_groups=len(pairs),
        better=[pair.measure.better for pair in pairs],
    )


def _pairs(
    base: CaptureAnalysis, new: CaptureAnalysis, index: int, notes: list[str]
) -> list[_Pair]:
    mine, theirs = _rows(base), _rows(new)
    partners = _partners(mine, theirs)
    for side, rows, keys in (
        (base, mine, mine.keys() - partners.keys()),
        (new, theirs, theirs.keys() - set(partners.values())),
    ):
        if keys:
            names = sorted(operation(rows[key][0]) for key in keys)
            notes.append(f"only in {side.label}: {', '.join(names)}")
    found = []
    for key in sorted(partners, key=lambda key: -_calls(mine[key][0])):
        label, other = operation(mine[key][0]), partners[key]
        if other != key:
            label = f"{protocol(mine[key][0])}/{operation(theirs[other][0])}"
        for measure in MEASURES:
            pair = _pair(key, label, measure, index, mine[key], theirs[other], notes)
            if pair is not None:
                found.append(pair)
    return found


def _partners(mine: Mapping[Key, Row], theirs: Mapping[Key, Row]) -> dict[Key, Key]:
    """What each operation is compared with: itself, or its namesake of another version."""
    found = {key: key for key in mine.keys() & theirs.keys()}
    for key in sorted(mine.keys() - found.keys()):
        program, _, name = key
        namesakes = [
            other
            for other in sorted(theirs.keys() - set(found.values()))
            if (other[0], other[2]) == (program, name)
        ]
        if namesakes and name not in WITHOUT_MEANING:
            found[key] = namesakes[0]
    return found


def _rows(capture: CaptureAnalysis) -> dict[Key, Row]:
    rows = capture.content["blocks"]["blocks"]["operations"]
    return {(row["program"], row["version"], row["operation"]): (row, capture) for row in rows}


def _calls(row: BlockRow) -> int:
    return sum(row["calls"])


def _pair(
    key: Key,
    label: str,
    measure: Measure,
    index: int,
    base: Row,
    new: Row,
    notes: list[str],
) -> _Pair | None:
    blocks = (_of_blocks(measure, *base), _of_blocks(measure, *new))
    totals = (_of_all(measure, *base), _of_all(measure, *new))
    if min(values.size for values in blocks) >= MIN_BLOCKS:
        independent = (batches(blocks[0]), batches(blocks[1]))
        if min(values.size for values in independent) >= MIN_BLOCKS:
            return _Pair(key, label, measure, index, *independent, by_blocks=True, whole=totals)
        notes.append(
            f"{label}, {measure.name}: neighbouring blocks resemble each other; one capture "
            "cannot tell a difference from its own drift, so the significance is unknown "
            "(captures that are several times as long, or several of each, can)"
        )
    if totals[0] is None or totals[1] is None:
        return None
    whole = (np.array([totals[0]]), np.array([totals[1]]))
    return _Pair(key, label, measure, index, *whole, by_blocks=False, whole=totals)


def _unlike(pairs: Sequence[_Pair]) -> list[str]:
    """A note where a mean over all calls tells otherwise than the blocks: a stall is in few."""
    found = []
    for pair in pairs:
        base, new = pair.whole
        if not pair.by_blocks or pair.measure.column != "mean_ns" or not base or not new:
            continue
        blocks = float(np.exp(np.log(pair.new).mean() - np.log(pair.base).mean()))
        if not 1 / UNLIKE < new / base / blocks < UNLIKE:
            found.append(f"{pair.label} {quantity(base, 'ns')} and {quantity(new, 'ns')}")
    if not found:
        return []
    return [
        "mean latency over all calls differs otherwise than the blocks do, since what few blocks "
        f"hold (a stall) counts little among them: {', '.join(found)}"
    ]


def _of_blocks(measure: Measure, row: BlockRow, capture: CaptureAnalysis) -> Floats:
    """One value a whole block that tells of the operation."""
    shown = capture.content["blocks"]["blocks"]
    whole = shown["whole"]
    told = np.array(row["answered"][:whole]) >= MIN_ANSWERED
    values = row[measure.column][:whole]
    if measure.column == "calls":
        # Blocks without a call are observations of a rate too, where the operation is common.
        rates = np.asarray(values, dtype=np.float64) / (shown["width_ns"] / 1e9)
        common: Floats = rates if np.count_nonzero(told) >= MIN_BLOCKS else rates[:0]
        return common
    return np.array([v for v, ok in zip(values, told, strict=True) if ok and v], dtype=np.float64)


def _of_all(measure: Measure, row: BlockRow, capture: CaptureAnalysis) -> float | None:
    """The same of the whole capture."""
    if measure.column == "calls":
        return _calls(row) / (capture.looked_at_ns / 1e9) if capture.looked_at_ns else None
    key = (row["program"], row["version"], row["operation"])
    for other in capture.content["operations"]:
        if (other["program"], other["version"], other["operation"]) == key:
            name = "p50" if measure.column == "p50_ns" else "mean"
            value = other["latency_ns"][name]
            return float(value) if value else None
    return None


def batches(values: Floats) -> Floats:
    """Means of neighbouring blocks that are together long enough to be independent."""
    time = correlation_time(values)
    size = int(np.ceil(BATCH_TIMES * time)) if time > 1 else 1
    count = values.size // size
    means: Floats = values[: count * size].reshape(count, size).mean(axis=1)
    return means


def correlation_time(values: Floats) -> float:
    """In how many blocks a drift is forgotten: 1 of independent ones.

    The sum of the autocorrelations in front of the first that is not positive (Geyer's initial
    positive sequence), each raised by the 1/n that the mean takes; 1 if that of neighbours is
    within one standard error of 0.
    """
    n = values.size
    deviations = values - values.mean()
    spread = float(np.dot(deviations, deviations))
    time = 1.0
    for lag in range(1, n // 2) if spread > 0 else ():
        r = float(np.dot(deviations[lag:], deviations[:-lag])) / spread + 1 / n
        if r <= (n**-0.5 if lag == 1 else 0.0):
            break
        time += 2 * r
    return time
