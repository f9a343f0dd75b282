"""Latencies that were taken apart, in tables and bars: one look for all kinds that have some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.display.figures import Axis, Figure, Part, Stacked, Whole
from nfslab.display.numbers import ABSENT, percent, quantity
from nfslab.display.sections import Cell, Column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.statistics.latency_parts import PartsSummary

NS = 1e9


def part_columns(names: Sequence[str]) -> list[Column]:
    """One a part."""
    return [Column(name, hint="mean, and share of the time") for name in names]


def part_cells(mean_ns: Sequence[float], share: Sequence[float | None]) -> list[Cell]:
    """Mean and share of each part."""
    return [
        Cell(f"{quantity(mean, 'ns')} ({percent(part)})" if part is not None else ABSENT, mean)
        for mean, part in zip(mean_ns, share, strict=True)
    ]


def whole_of(label: str, one: PartsSummary) -> Whole:
    """The bar of a group of calls: their mean, in seconds by part."""
    return Whole(label, [mean / NS for mean in one.mean_ns], hint=f"{one.calls:,} calls")


def stacked(
    id: str,
    title: str,
    caption: str,
    parts: Sequence[tuple[str, str]],
    wholes: Sequence[Whole],
) -> Figure:
    """Bars of mean latencies; `parts` are names with their colours."""
    named = [Part(label, colour) for label, colour in parts]
    return Figure.of(id, title, caption, Stacked(Axis("mean latency", "s"), named, wholes))
