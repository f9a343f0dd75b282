"""The NFS client's evidence: means of the timed part by mount, and which panels are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab.evidence.base import SealedRun
from nfslab.evidence.rpc.kind import RpcEvidence

from tests.evidence.runs import found_of, sealed_run

MS = 1_000_000
SUMMARY = {
    "interval_s": 0.1,
    "notes": ["data: 3 calls were lost: they came too fast"],
    "clients": {
        name: {
            "counters": {"answered": 990, "retransmissions": 2},
            "operations": [{"operation": "READ", "calls": 990, "errors": 0, "p99_ns": 900_000}],
            "lost": {"calls": 3, "samples": 0},
        }
        for name in ("data", "wal")
    },
}


def rpc_run(folder: Path, again: float) -> SealedRun:
    """A run with ten samples of two mounts, as the collector rpc writes them."""
    rows = 20
    series: dict[str, Any] = {
        "t_ns": [100 * MS * (i // 2) for i in range(rows)],
        "queue": [i % 2 for i in range(rows)],
        "outstanding": [3] * rows,
        "enqueued_per_s": [1000.0] * rows,
        "answered_per_s": [990.0] * rows,
        "retransmissions_per_s": [again] * rows,
        "major_timeouts_per_s": [0.0] * rows,
        "round_trip_ms": [0.25, None] * (rows // 2),
        "target": pa.array(["data", "wal"] * (rows // 2)).dictionary_encode(),
    }
    tcp = {
        "t_ns": [0, 0, 100 * MS, 100 * MS],
        "connection": pa.array([0, 1, 0, 1], pa.uint32()),
        "congestion_window": pa.array([10, 20, 12, 22], pa.uint32()),
    }
    return sealed_run(folder, "rpc", SUMMARY, {"rpc_series": series, "rpc_tcp": tcp})


@pytest.mark.parametrize(("again", "shown"), [(0.0, False), (2.0, True)])
def test_what_an_nfs_client_recorded_is_drawn(tmp_path: Path, again: float, shown: bool) -> None:
    panels = {panel.key: panel for panel in RpcEvidence().panels(rpc_run(tmp_path, again))}
    labels = [series.label for series in panels["rpc_rates"].series]
    assert labels == ["data entering", "data answered", "wal entering", "wal answered"]
    windows = {series.label: list(series.y) for series in panels["rpc_window"].series}
    assert windows == {"1": [20.0, 22.0], "0": [10.0, 12.0]}
    assert ("rpc_again" in panels) == shown, "nothing retransmitted: no panel of it"


def test_facts_are_by_mount(tmp_path: Path) -> None:
    kind = RpcEvidence()
    run = rpc_run(tmp_path, 0.0)
    facts = kind.facts(run)
    assert facts is not None
    data, wal = facts.clients
    assert (data.target, data.queue, wal.queue, wal.queue_max) == ("data", 0.0, 1.0, 1.0)
    assert data.answered_per_s == pytest.approx(990.0)
    assert (data.round_trip_ms, wal.round_trip_ms) == (pytest.approx(0.25), None)
    assert kind.Facts.model_validate(facts.model_dump(mode="json")) == facts
    section = kind.section(found_of({"x=1": [(run, facts)]}))
    assert section is not None
    assert [row[1].text for row in section.tables[0].rows] == ["data", "wal"]
    assert "3 calls were lost" in section.notes[0]


def test_calls_of_a_transaction_stand_side_by_side(tmp_path: Path) -> None:
    kind = RpcEvidence()
    points = {}
    for label, calls in (
        ("one", {"READ": 10.0, "COMMIT": 100.0, "LOOKUP": 200.0}),
        ("other", {"READ": 300.0}),
    ):
        rows = [{"operation": n, "calls": 999, "timed_calls": c} for n, c in calls.items()]
        rows.append({"operation": "FSINFO", "calls": 1, "timed_calls": 0.0})
        summary = {"clients": {"nfs": {"operations": rows}}}
        run = sealed_run(tmp_path / label, "rpc", summary, metrics={"transactions": 100})
        facts = kind.facts(run)
        assert facts is not None
        points[label] = [(run, facts)]
    section = kind.section(found_of(points))
    assert section is not None
    (table,) = [one for one in section.tables if one.title == "Calls of a transaction"]
    assert [column.title for column in table.columns[3:]] == [
        "READ", "GETATTR", "WRITE", "COMMIT", "LOOKUP",
    ]  # fmt: skip
    shown = [[cell.value for cell in row[3:]] for row in table.rows]
    assert shown == [[pytest.approx(0.1), 0.0, 0.0, 1.0, 2.0], [3.0, 0.0, 0.0, 0.0, 0.0]]
