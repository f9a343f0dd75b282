"""What figures over time need of every run: samples on one grid, and panels of evidence.

Flow: the Parquet footers tell how long runs were -> one grid for all (`grid`) -> every run is read
once, on a few threads (`samples`, the panels of every kind of evidence) -> panels with one scale
and the same colours in all runs.

Limits: evidence is read of `EVIDENCE_RUNS_MOST` runs at most (every k-th block, the first one among
them), which the report says. A run whose files cannot be read is named there too.
"""

from __future__ import annotations

import dataclasses
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nfslab.errors import ResultsError
from nfslab.evidence.base import SealedRun
from nfslab.evidence.registry import evidence_kinds
from nfslab.report.html.grid import NS, grid_for
from nfslab.report.html.samples import RunSamples, extent, read_samples
from nfslab.results.catalogue import RUNS, read_run
from nfslab.results.outcomes import locate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.display.figures import Panel
    from nfslab.report.model import Analysis
    from nfslab.results.records import RunRecord

STEADY_STATE = "not_steady"
EVIDENCE_RUNS_MOST = 400
"""Six small tables a run: most of the time that a report takes goes into opening them."""
READERS_MOST = 8
"""Threads that read runs; Parquet and numpy release the interpreter's lock in part."""
TOP = 1.05
"""The top of a scale over its largest value."""
COLOURS = 8
"""Series colours of the style sheet."""


@dataclass(slots=True)
class RunSeries:
    """One run's series; `problem` says why there are none."""

    run: int
    """Index in the analysis."""
    point: int
    block: int
    samples: RunSamples = field(default_factory=RunSamples)
    panels: list[Panel] = field(default_factory=list)
    warm_up_s: float = 0.0
    problem: str = ""

    @property
    def end_s(self) -> float:
        """Its last operation or phase, or else its last sample of evidence."""
        ends = [data.end_ns / NS for data in self.samples.rates.values()]
        if not ends:
            ends = [float(np.max(s.x, initial=0)) for p in self.panels for s in p.series]
        return max(ends, default=0.0)


@dataclass(slots=True)
class Series:
    """All runs that have something to draw, by point and block."""

    runs: list[RunSeries]
    problems: dict[int, str]
    """Run index -> why its files could not be read."""
    evidence_stride: int
    """Evidence is there for one block in so many."""

    @property
    def end_s(self) -> float:
        """Where the common time axis ends."""
        return max((run.end_s for run in self.runs), default=0.0) or 1.0


def read_series(analysis: Analysis) -> Series:
    """Of all counted runs."""
    folder = locate(Path(analysis.path)) / RUNS
    runs = [
        (i, run.point, run.block, folder / run.run_id)
        for i, run in enumerate(analysis.runs)
        if run.counted and run.point is not None
    ]
    kinds = evidence_kinds()
    stride = max(1, -(-len(runs) // EVIDENCE_RUNS_MOST))
    with ThreadPoolExecutor(min(READERS_MOST, os.cpu_count() or 1)) as pool:
        extents = list(pool.map(lambda item: _extent(item[3]), runs))
        known = [(span, events) for span, events in extents if span > 0]
        grid = grid_for([span for span, _ in known], [events for _, events in known], len(runs))

        def read(item: tuple[int, int, int, Path]) -> RunSeries:
            run, point, block, folder = item
            made = RunSeries(run, point, block)
            try:
                sealed = SealedRun(folder, read_run(folder))
                made.samples = read_samples(folder, grid, sealed.record.operations)
                made.warm_up_s = _warm_up_s(sealed.record)
                if block % stride == 0:
                    for kind in kinds:
                        made.panels += kind.panels(sealed)
            except (OSError, ValueError, KeyError, ResultsError) as error:
                # pyarrow's errors are ValueErrors
                made.problem = str(error).splitlines()[0]
            return made

        found = list(pool.map(read, runs))
    unify(found)
    found.sort(key=lambda run: (run.point, run.block))
    return Series(found, {run.run: run.problem for run in found if run.problem}, stride)


def unify(runs: Sequence[RunSeries]) -> None:
    """One scale and one colour a label for all panels of a key, over all runs."""
    top: dict[str, float] = {}
    labels: dict[str, dict[str, int]] = {}
    for run in runs:
        for panel in run.panels:
            top[panel.key] = max(top.get(panel.key, 0.0), _top(panel))
            known = labels.setdefault(panel.key, {})
            for series in panel.series:
                if not series.colour:
                    known.setdefault(series.label, len(known))
    for run in runs:
        run.panels = [
            dataclasses.replace(
                panel,
                y=dataclasses.replace(panel.y, low=0.0, high=top[panel.key] or 1.0),
                series=[
                    series
                    if series.colour
                    else dataclasses.replace(
                        series,
                        colour=f"c{labels[panel.key][series.label] % COLOURS + 1}",
                        dash=labels[panel.key][series.label] >= COLOURS,
                    )
                    for series in panel.series
                ],
            )
            for panel in run.panels
        ]


def _top(panel: Panel) -> float:
    """The top of its scale: that of its axis, or a little over the largest value (of the sum)."""
    stacked = [np.nan_to_num(np.asarray(s.y)) for s in panel.series if s.draw.startswith("stack")]
    drawn = [np.asarray(s.y) for s in panel.series if not s.draw.startswith("stack")]
    if stacked:
        drawn.append(np.sum(stacked, axis=0))
    most = max((float(np.nanmax(np.nan_to_num(y), initial=0.0)) for y in drawn), default=0.0)
    wanted = panel.y.high or 0.0
    return wanted if most <= wanted else most * TOP


def _warm_up_s(record: RunRecord) -> float:
    """Where the check of steadiness saw a warm-up end; 0 where it saw none."""
    seen = (check.values for check in record.checks if check.name == STEADY_STATE)
    return float(next(seen, {}).get("warm_up_ns", 0)) / NS


def _extent(folder: Path) -> tuple[int, int]:
    try:
        return extent(folder, read_run(folder).operations)
    except (OSError, ValueError, KeyError, ResultsError):
        return 0, 0  # reading it whole tells the reason
