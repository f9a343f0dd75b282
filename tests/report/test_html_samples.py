"""Samples of a run on the report's grid: the whole run is there, also where nothing moved."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from nfslab.report.html.grid import NS, Grid
from nfslab.report.html.samples import extent, read_samples

GRID = Grid(rate_ns=NS // 10, cell_ns=NS // 10, decade_cells=16)
MIB = 1 << 20


def write_run(run: Path, *, phases: bool = True) -> Path:
    """0.7 s of writing at 10 MiB/s, then a final sync of 3 s: a phase of 3.7 s."""
    samples = run / "samples"
    samples.mkdir(parents=True)
    series = {
        "t_ns": [k * NS // 10 for k in range(7)],
        "phase": ["output_block"] * 7,
        "bytes": [MIB] * 7,
        "operations": [128] * 7,
    }
    pq.write_table(pa.table(series), samples / "series.parquet")
    if phases:
        row = {"t_ns": [0], "phase": ["output_block"], "wall_ns": [37 * NS // 10]}
        pq.write_table(pa.table(row), samples / "phases.parquet")
    return run


def test_a_final_sync_is_part_of_the_run(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert extent(run, "") == (37 * NS // 10, 0)
    rate = read_samples(run, GRID, "").rates["output_block"]
    assert rate.end_ns == 37 * NS // 10
    assert rate.whole().tolist() == [MIB] * 7 + [0] * 30, "no byte moves in the sync"


def test_a_run_of_an_older_folder_ends_with_its_series(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", phases=False)
    assert extent(run, "") == (6 * NS // 10, 0)
    assert read_samples(run, GRID, "").rates["output_block"].counts.tolist() == [MIB] * 7
