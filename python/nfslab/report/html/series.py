"""All series of an experiment: read run by run, arranged on common scales, fitted to size.

Flow: the Parquet footers tell how long runs were -> one grid for all (`grid`) -> every run is
read once, on a few threads (`samples`, `evidence`) -> panels and ranges common to the whole
experiment (`panels`) -> one compressed chunk a point. When all chunks together are larger
than the report may be, bins are merged pairwise in memory and packed again: counts stay
exact, only the width of a bin grows, and the figures state it.

Limits: evidence is read of `EVIDENCE_RUNS_MOST` runs at most (every k-th block, the first one
among them); `COARSER_MOST` halvings, then the series of the last blocks are left out of the
page. Both are said in the report. A run whose files cannot be read is named there too.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from nfslab.report.html.columns import ChunkWriter, pack
from nfslab.report.html.evidence import FrameData, read_evidence
from nfslab.report.html.grid import NS, grid_for
from nfslab.report.html.panels import Panels, arrange, end_s, rate_spans
from nfslab.report.html.payload import json_number
from nfslab.report.html.samples import HeatData, RateData, RunSamples, extent, read_samples

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from nfslab.report.html.payload import (
        ChunkHeader,
        ColumnSpec,
        EvidenceFrame,
        HeatFrame,
        QuantileFrame,
        RateFrame,
        RunFrames,
    )

STEADY_STATE = "steady_state"
COARSER_MOST = 4
EVIDENCE_RUNS_MOST = 400
"""Six small tables a run: most of the time that a report takes goes into opening them."""
READERS_MOST = 8
"""Threads that read runs; Parquet and numpy release the interpreter's lock in part."""


@dataclass(slots=True)
class RunSeries:
    """One run's series; `problem` says why there are none."""

    run: int
    point: int
    block: int
    samples: RunSamples = field(default_factory=RunSamples)
    evidence: dict[str, FrameData] = field(default_factory=dict)
    warm_up_s: float = 0.0
    problem: str = ""

    @property
    def empty(self) -> bool:
        """Nothing to draw."""
        return not (self.samples.rates or self.samples.quantiles_ns or self.evidence)

    def coarser(self) -> RunSeries:
        """The same at half the resolution in time."""
        evidence = {key: frame.coarser() for key, frame in self.evidence.items()}
        return replace(self, samples=self.samples.coarser(), evidence=evidence)


@dataclass(slots=True)
class Series:
    """What the page gets of all runs: chunks by name, and the scales they share."""

    chunks: dict[str, str]
    """Name -> compressed chunk in base64."""
    chunk_of_point: dict[int, str]
    shown_runs: set[int]
    """Indexes of runs whose series are in the page."""
    left_out: list[int]
    """Runs with series that did not fit."""
    problems: dict[int, str]
    """Run index -> why its files could not be read."""
    warm_up_s: dict[int, float]
    """Run index -> end of its warm-up, where one was seen."""
    evidence_stride: int
    """Evidence is there for one block in so many."""
    panels: Panels

    @property
    def size_bytes(self) -> int:
        """Of all chunks as embedded."""
        return sum(len(chunk) for chunk in self.chunks.values())


def read_series(runs: Sequence[tuple[int, int, int, Path]], limit_bytes: int) -> Series:
    """Series of runs (index, point, block, folder), in at most `limit_bytes` of chunks."""
    with ThreadPoolExecutor(min(READERS_MOST, os.cpu_count() or 1)) as pool:
        extents = list(pool.map(lambda item: _extent(item[3]), runs))
        known = [(span, events) for span, events in extents if span > 0]
        grid = grid_for([span for span, _ in known], [events for _, events in known], len(runs))

        stride = max(1, -(-len(runs) // EVIDENCE_RUNS_MOST))

        def read(item: tuple[int, int, int, Path]) -> RunSeries:
            run, point, block, folder = item
            try:
                samples = read_samples(folder, grid)
                evidence = read_evidence(folder, grid) if block % stride == 0 else {}
                return RunSeries(run, point, block, samples, evidence, warm_up_s(folder))
            except (OSError, ValueError, KeyError) as error:  # pyarrow's errors are ValueErrors
                return RunSeries(run, point, block, problem=str(error).splitlines()[0])

        found = list(pool.map(read, runs))
    problems = {item.run: item.problem for item in found if item.problem}
    found = [item for item in found if not item.empty]
    return _fit(found, problems, stride, limit_bytes)


def warm_up_s(folder: Path) -> float:
    """Where the check of steady state saw a warm-up end; 0 where it saw none."""
    record = json.loads((folder / "run.json").read_bytes())
    for check in record.get("checks", []):
        if check.get("name") == STEADY_STATE:
            found = check.get("values", {}).get("warm_up_ns", 0)
            return float(found) / NS if isinstance(found, int | float) else 0.0
    return 0.0


def _extent(folder: Path) -> tuple[int, int]:
    try:
        return extent(folder)
    except (OSError, ValueError, KeyError):
        return 0, 0  # reading it whole tells the reason


def _fit(found: list[RunSeries], problems: dict[int, str], stride: int, limit_bytes: int) -> Series:
    """Pack; merge bins, then leave out the last blocks, until it fits."""
    left_out: list[int] = []
    for attempt in range(COARSER_MOST + 1):
        series = _packed(found, problems, left_out, stride)
        if series.size_bytes <= limit_bytes:
            return series
        if attempt < COARSER_MOST:
            found = [item.coarser() for item in found]
    while series.size_bytes > limit_bytes and found:
        blocks = sorted({item.block for item in found})
        share = limit_bytes / series.size_bytes * 0.95
        keep = set(blocks[: int(len(blocks) * share)])
        left_out += [item.run for item in found if item.block not in keep]
        found = [item for item in found if item.block in keep]
        series = _packed(found, problems, left_out, stride)
    return series


def _packed(
    found: list[RunSeries], problems: dict[int, str], left_out: list[int], stride: int
) -> Series:
    panels = arrange([item.evidence for item in found], [item.samples for item in found])
    chunks: dict[str, str] = {}
    chunk_of_point: dict[int, str] = {}
    for point in sorted({item.point for item in found}):
        writer = ChunkWriter()
        mine = sorted((i for i in found if i.point == point), key=lambda item: item.block)
        frames = [_run_frames(writer, item, panels) for item in mine]
        header: ChunkHeader = {
            "runs": frames,
            "rate_most": rate_most(mine),
            "rate_span": {k: list(v) for k, v in rate_spans([i.samples for i in mine]).items()},
        }
        name = f"p{point}"
        chunks[name] = pack(writer.finish(header))
        chunk_of_point[point] = name
    shown = {item.run for item in found}
    warm_up = {item.run: item.warm_up_s for item in found if item.warm_up_s > 0}
    return Series(chunks, chunk_of_point, shown, left_out, problems, warm_up, stride, panels)


def rate_most(items: Iterable[RunSeries]) -> dict[str, float]:
    """Largest rate of a whole bin, by quantity."""
    most: dict[str, float] = {}
    for item in items:
        for key, data in item.samples.rates.items():
            whole = data.whole()
            top = float(whole.max()) * NS / data.width_ns if whole.size else 0.0
            most[key] = max(most.get(key, 0.0), top)
    return {key: value or 1.0 for key, value in most.items()}


def _run_frames(writer: ChunkWriter, item: RunSeries, panels: Panels) -> RunFrames:
    clocks: dict[int, ColumnSpec] = {}
    return {
        "run": item.run,
        "end_s": end_s([item.evidence], [item.samples]),
        "rates": {k: _rate(writer, data) for k, data in item.samples.rates.items()},
        "quantiles": {
            k: _quantiles(writer, values, n) for k, (values, n) in item.samples.quantiles_ns.items()
        },
        "heat": {k: _heat(writer, data) for k, data in item.samples.heat.items()},
        "frames": {
            panel: _evidence(writer, item.evidence[panel], columns, clocks)
            for panel, columns in panels.columns.items()
            if panel in item.evidence
        },
    }


def _rate(writer: ChunkWriter, data: RateData) -> RateFrame:
    width_s = data.width_ns / NS
    whole = data.whole()
    return {
        "t0": data.start_ns / NS,
        "dt": width_s,
        "n": int(data.counts.size),
        "whole": int(whole.size),
        "amount": writer.counts(data.counts),
        "total": float(data.counts.sum()),
        "least": float(whole.min()) / width_s if whole.size else None,
    }


def _quantiles(writer: ChunkWriter, values_ns: list[float], n: int) -> QuantileFrame:
    return {"values": writer.exact(np.asarray(values_ns) / NS), "total": n}


def _heat(writer: ChunkWriter, data: HeatData) -> HeatFrame:
    tall, wide = data.cells.shape
    return {
        "t0": 0.0,
        "dt": data.width_ns / NS,
        "nt": wide,
        "l0": data.lowest / data.decade_cells - 9.0,
        "dl": 1.0 / data.decade_cells,
        "nl": tall,
        "cells": writer.counts(data.cells),
        "total": data.total,
        "outside": data.outside,
    }


def _evidence(
    writer: ChunkWriter, data: FrameData, wanted: list[str], clocks: dict[int, ColumnSpec]
) -> EvidenceFrame:
    """`clocks`: times already written for this run, by identity (panels share tables)."""
    drawn = data.pick(wanted)
    specs = writer.measured_rows(drawn.values)
    facts = zip(drawn.names, drawn.mean, drawn.most, strict=True)
    frame: EvidenceFrame = {
        "n": int(drawn.values.shape[1]),
        "samples": data.samples,
        "columns": dict(zip(drawn.names, specs, strict=True)),
        "facts": {
            name: {"mean": json_number(mean), "most": json_number(most)}
            for name, mean, most in facts
        },
    }
    if data.t_ns is None:
        frame["t0"] = data.start_ns / NS
        frame["dt"] = data.width_ns / NS
    else:
        key = id(data.t_ns)
        if key not in clocks:
            clocks[key] = writer.measured(data.t_ns / NS)
        frame["t"] = clocks[key]
    return frame
