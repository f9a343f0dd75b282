"""Common grids for everything over time: bin widths, latency decades.

All runs of an experiment share one bin width, so that lines lie on each other and heat maps
can share one colour scale. The width follows from the longest run, the number of runs (a
report has a size limit) and the rate: a bin that holds a handful of events shows noise only.
Widths are 1, 2 or 5 times a power of ten, so that bin edges are round numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

NS = 1_000_000_000
EVENTS_A_BIN = 20
"""Wanted in a bin of a typical run: a Poisson count of 20 scatters by a fifth."""
BINS_LEAST = 24
"""Bins of the longest run, however slow it was."""
DECADE_CELLS = 16
"""Heat map cells a decade: 15 % of a latency each."""
BINS_BY_RUNS = ((60, 300), (300, 160), (1200, 80))
"""Runs up to -> bins of the longest run; beyond the last: `BINS_MANY`."""
BINS_MANY = 40


@dataclass(frozen=True, slots=True)
class Grid:
    """Bin widths of one report. `rate_ns` for counts, `cell_ns` for heat maps."""

    rate_ns: int
    cell_ns: int
    decade_cells: int


def nice_ns(width_ns: float) -> int:
    """The next 1, 2 or 5 times a power of ten nanoseconds that is not below `width_ns`."""
    if width_ns <= 1:
        return 1
    power = 10 ** math.floor(math.log10(width_ns))
    return next(int(m * power) for m in (1, 2, 5, 10) if m * power >= width_ns * 0.999999)


def grid_for(spans_ns: Sequence[int], events: Sequence[int], runs: int) -> Grid:
    """The grid for runs of these lengths and numbers of events."""
    bins = next((n for most, n in BINS_BY_RUNS if runs <= most), BINS_MANY)
    longest = max(spans_ns, default=NS)
    rates = [n / span for n, span in zip(events, spans_ns, strict=True) if n and span > 0]
    wanted = EVENTS_A_BIN / float(np.median(rates)) if rates else 0.0
    width = max(longest / bins, min(wanted, longest / BINS_LEAST))
    return Grid(
        rate_ns=nice_ns(width),
        cell_ns=nice_ns(max(longest / min(bins, 200), 1)),
        decade_cells=DECADE_CELLS if runs <= BINS_BY_RUNS[1][0] else DECADE_CELLS // 2,
    )


def bin_sums(
    t_ns: NDArray[np.int64], width_ns: int, weights: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Sums (or counts) per bin of `width_ns` from 0; exact. Times below 0 go to bin 0."""
    if t_ns.size == 0:
        return np.zeros(0, dtype=np.int64)
    index = np.maximum(t_ns, 0) // width_ns
    if weights is None:
        return np.bincount(index).astype(np.int64)
    sums = np.zeros(int(index.max()) + 1, dtype=np.int64)
    np.add.at(sums, index, weights)
    return sums
