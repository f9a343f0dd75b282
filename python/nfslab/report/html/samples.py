"""The raw samples of one run -> rates over time, latency quantiles, heat map.

Read straight from the run's Parquet files: only the columns that are needed, one run at a
time, so that memory stays with the largest run. Counts are exact: a rate's bins sum up to
the run's operations, a heat map's cells plus what lies outside of its latencies do as well.

Two kinds of tables are known: one with a row an operation (its name is in the run's record), and
`series` + `histograms` (sums per interval and bucket counts per phase); where `phases` tells how
long these lasted, a phase goes on to its end: its final sync moves no byte, and takes time. A run
with other tables has no figures over time; the report says so by leaving them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from nfslab.report.html.grid import bin_sums
from nfslab.results.evidence_tables import evidence_path, read_evidence
from nfslab.statistics.quantile_estimator import histogram_quantiles, quantile_grid, quantiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from nfslab.report.html.grid import Grid
    from nfslab.statistics.quantile_estimator import Quantile

    Ints = NDArray[np.int64]

RATES = ("nfs_operations", "web_requests")
"""Loads of the workloads sfs and web, as their samples name them: counted in operations, as random
access is; sequential access is counted in bytes."""
STATUS_OK = 0
ROWS_MOST = 1 << 40
"""Operations of a run are read whole, however many: two columns of them."""
HEAT_DECADES_MOST = 12
"""1 ps to 1 s of spread would be absurd; a table beyond that is shown without its tail."""


@dataclass(slots=True)
class RateData:
    """Counts per bin."""

    width_ns: int
    counts: Ints
    end_ns: int
    """Up to here bins are whole: the last one may be cut short by the end of the run."""
    start_ns: int = 0
    unit: str = "1/s"
    """Of what is counted, per second: operations, or bytes."""
    each: bool = False
    """Of a table with one row an operation."""

    def whole(self) -> Ints:
        """The bins that the end of the run does not cut short."""
        return self.counts[: (self.end_ns - self.start_ns) // self.width_ns]


@dataclass(slots=True)
class HeatData:
    """Counts in cells: `cells[latency, time]`."""

    width_ns: int
    decade_cells: int
    lowest: int
    """Index of the first row: its lower edge is 10^(lowest / decade_cells) ns."""
    cells: Ints
    total: int
    outside: int


@dataclass(slots=True)
class RunSamples:
    """What the figures over time need of one run."""

    rates: dict[str, RateData] = field(default_factory=dict)
    quantiles_ns: dict[str, tuple[list[float], int]] = field(default_factory=dict)
    heat: dict[str, HeatData] = field(default_factory=dict)


def extent(run: Path, operations: str) -> tuple[int, int]:
    """(length in ns, number of operations) of a run, from the Parquet footers alone.

    `operations`: the table with one row an operation; empty: there is none.
    """
    import pyarrow.parquet as pq

    for name in (operations, "series"):
        path = evidence_path(run, name, "samples")
        if not name or not path.is_file():
            continue
        metadata = pq.read_metadata(path)
        column = metadata.schema.names.index("t_ns")
        most = 0
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(column).statistics
            if statistics is not None and statistics.has_min_max:
                most = max(most, int(statistics.max or 0))
        if name == operations:
            return most, metadata.num_rows
        return max([most, *_phase_ends(run).values()]), 0
    return 0, 0


def _phase_ends(run: Path) -> dict[str, int]:
    """Phase -> when it ended, ns; empty for a run without phases."""
    if not evidence_path(run, "phases", "samples").is_file():
        return {}
    columns = read_evidence(run, "phases", ["t_ns", "phase", "wall_ns"], folder="samples")
    ends = columns["t_ns"].to_numpy() + columns["wall_ns"].to_numpy()
    return dict(zip(map(str, columns["phase"].to_pylist()), ends.tolist(), strict=True))


def read_samples(run: Path, grid: Grid, operations: str) -> RunSamples:
    """Everything over time that a run's samples tell, on the report's grid; see `extent`."""
    found = RunSamples()
    if operations and evidence_path(run, operations, "samples").is_file():
        _operations(run, operations, grid, found)
    if evidence_path(run, "series", "samples").is_file():
        _series(run, grid, found)
    if evidence_path(run, "histograms", "samples").is_file():
        _histograms(run, found)
    return found


def _operations(run: Path, name: str, grid: Grid, found: RunSamples) -> None:
    columns = read_evidence(
        run, name, ["t_ns", "latency_ns"], optional=["status"], rows_max=ROWS_MOST, folder="samples"
    )
    t_ns = columns["t_ns"].to_numpy()
    latency_ns = columns["latency_ns"].to_numpy()
    if "status" in columns.column_names:
        good = columns["status"].to_numpy() == STATUS_OK
        if not good.all():
            t_ns, latency_ns = t_ns[good], latency_ns[good]
    if t_ns.size == 0:
        return
    found.rates[name] = RateData(
        grid.rate_ns, bin_sums(t_ns, grid.rate_ns), int(t_ns.max()), each=True
    )
    of = partial(quantiles, latency_ns)
    found.quantiles_ns[name] = _quantiles(int(latency_ns.size), of)
    found.heat[name] = heat(t_ns, latency_ns, grid)


def _quantiles(n: int, of: Callable[[list[float]], Iterable[Quantile]]) -> tuple[list[float], int]:
    """Quantiles on the common grid; NaN where no sample lies beyond (but for the maximum)."""
    grid = quantile_grid()
    wanted = [q for q in grid if q == 1.0 or (1.0 - q) * n >= 1.0]
    values = {q.q: float(q.value) for q in of(wanted)}
    return [values.get(q, float("nan")) for q in grid], n


def heat(t_ns: Ints, latency_ns: Ints, grid: Grid) -> HeatData:
    """Counts by time and log10 latency; latencies below 1 ns are counted as outside."""
    shown = latency_ns >= 1
    rows = np.floor(np.log10(latency_ns[shown]) * grid.decade_cells).astype(np.int64)
    if rows.size == 0:
        empty = np.zeros((1, 1), dtype=np.int64)
        return HeatData(grid.cell_ns, grid.decade_cells, 0, empty, 0, int(latency_ns.size))
    lowest = int(rows.min())
    tall = min(int(rows.max()) - lowest + 1, HEAT_DECADES_MOST * grid.decade_cells)
    inside = rows - lowest < tall
    columns = np.maximum(t_ns[shown][inside], 0) // grid.cell_ns
    wide = int(columns.max()) + 1
    flat = np.bincount((rows[inside] - lowest) * wide + columns, minlength=tall * wide)
    cells = flat.reshape(tall, wide).astype(np.int64)
    total = int(cells.sum())
    return HeatData(
        grid.cell_ns, grid.decade_cells, lowest, cells, total, int(latency_ns.size) - total
    )


def _series(run: Path, grid: Grid, found: RunSamples) -> None:
    columns = read_evidence(
        run, "series", ["t_ns", "phase", "bytes", "operations"], folder="samples"
    )
    ends_ns = _phase_ends(run)
    t_ns = columns["t_ns"].to_numpy()
    phases = np.asarray(columns["phase"].to_pylist(), dtype=object)
    for phase in dict.fromkeys(phases.tolist()):
        mine = phases == phase
        name = str(phase)
        counts = name in RATES or name.startswith("random_")
        amounts = columns["operations" if counts else "bytes"].to_numpy()
        times = t_ns[mine]
        start_ns = int(times.min())
        # Times are beginnings of intervals; the last interval may be shorter than the others.
        end_ns = ends_ns.get(name, int(times.max()))
        width_ns = whole_multiple(times, grid.rate_ns)
        sums = bin_sums(times - start_ns, width_ns, amounts[mine])
        idle = (end_ns - start_ns) // width_ns - sums.size
        sums = np.pad(sums, (0, max(0, idle)))
        unit = "1/s" if counts else "B/s"
        found.rates[name] = RateData(width_ns, sums, end_ns, start_ns, unit)


def whole_multiple(t_ns: Ints, width_ns: int) -> int:
    """The bin width for sums that are given per interval: a whole number of intervals.

    A narrower bin would show a spike and then nothing, though nothing of the kind happened.
    """
    steps = np.diff(np.unique(t_ns))
    interval = int(steps.min()) if steps.size else width_ns
    return max(1, -(-width_ns // interval)) * interval


def _histograms(run: Path, found: RunSamples) -> None:
    wanted = ["phase", "low_ns", "high_ns", "count"]
    columns = read_evidence(run, "histograms", wanted, folder="samples")
    phases = np.asarray(columns["phase"].to_pylist(), dtype=object)
    low, high, count = (columns[name].to_numpy() for name in ("low_ns", "high_ns", "count"))
    for phase in dict.fromkeys(phases.tolist()):
        mine = phases == phase
        if n := int(count[mine].sum()):
            of = partial(histogram_quantiles, count[mine], low[mine], high[mine])
            found.quantiles_ns[str(phase)] = _quantiles(n, of)
