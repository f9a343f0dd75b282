"""Panels of evidence: what a run's tables become, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.report.html.evidence import read_evidence
from nfslab.report.html.grid import Grid
from nfslab.report.html.panels import arrange

MS = 1_000_000


def rpc_run(folder: Path, retransmissions_per_s: float) -> Path:
    """A run with ten samples of two mounts, as the collector rpc writes them."""
    (folder / "evidence").mkdir(parents=True)
    rows = 20
    series = {
        "t_ns": [100 * MS * (i // 2) for i in range(rows)],
        "queue": [i % 2 for i in range(rows)],
        "outstanding": [3] * rows,
        "enqueued_per_s": [1000.0] * rows,
        "answered_per_s": [990.0] * rows,
        "retransmissions_per_s": [retransmissions_per_s] * rows,
        "major_timeouts_per_s": [0.0] * rows,
        "round_trip_ms": [0.25, None] * (rows // 2),
        "target": pa.array(["data", "wal"] * (rows // 2)).dictionary_encode(),
    }
    pq.write_table(pa.table(series), folder / "evidence" / "rpc_series.parquet")
    tcp = {
        "t_ns": [0, 0, 100 * MS, 100 * MS],
        "connection": pa.array([0, 1, 0, 1], pa.uint32()),
        "congestion_window": pa.array([10, 20, 12, 22], pa.uint32()),
    }
    pq.write_table(pa.table(tcp), folder / "evidence" / "rpc_tcp.parquet")
    return folder


@pytest.mark.parametrize(("again", "shown"), [(0.0, False), (2.0, True)])
def test_what_an_nfs_client_recorded_is_drawn(tmp_path: Path, again: float, shown: bool) -> None:
    evidence = read_evidence(rpc_run(tmp_path, again), Grid(10 * MS, 10 * MS, 4, 500))
    queue = evidence["rpc_queue"]
    at = queue.names.index("queue:wal")
    assert (queue.mean[at], queue.most[at]) == (1.0, 1.0)
    assert evidence["rpc_round_trip"].mean[0] == 0.25
    window = evidence["rpc_window"]
    assert dict(zip(window.names, window.most, strict=True)) == {
        "congestion_window:0": 12.0,
        "congestion_window:1": 22.0,
    }
    panels = {panel["key"]: panel for panel in arrange([evidence], []).panels}
    labels = [series["label"] for series in panels["rpc_rates"]["series"]]
    assert labels == ["data entering", "data answered", "wal entering", "wal answered"]
    assert ("rpc_again" in panels) == shown, "nothing sent again: no panel of it"
