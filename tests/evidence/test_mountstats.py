"""The kernel's NFS client in reports: means by call, what went wrong first, panels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from nfslab.evidence.base import SealedRun
from nfslab.evidence.mountstats.kind import MountstatsEvidence
from nfslab.storage.mountstats import OperationCounts, TransportCounts

from tests.evidence.runs import found_of, sealed_run

S = 10**9
READ = OperationCounts(100, 103, 1, 16_000, 3_300_000, 10, 250, 300, 2)
WRITE = OperationCounts(50, 50, 0, 1_650_000, 8_000, 40, 200, 260, 0)
CONNECTIONS = (
    TransportCounts("tcp", 800, 1, 2, 0, 0, 100, 100, 0, 150, 50, 12, 10, 20),
    TransportCounts("tcp", 801, 1, 0, 0, 0, 53, 50, 1, 53, 0, 9, 10, 20),
)


def run_with(folder: Path, notes: tuple[str, ...] = ()) -> SealedRun:
    """Two seconds of one mount, as the collector sums them up."""
    totals: dict[str, Any] = {
        "source": "nas:/x",
        "mount_point": "/m",
        "version": 4,
        "options": "rw,vers=4.2,rsize=65536,proto=tcp",
        "wall_s": 2.0,
        "operations": [
            {"operation": "READ"} | asdict(READ), {"operation": "WRITE"} | asdict(WRITE)
        ],
        "transports": [asdict(one) | {"rdma": []} for one in CONNECTIONS],
        "events": {"opens": 3},
        "bytes": {"read_bytes": 4096},
    }  # fmt: skip
    series = {
        "t_ns": [S, 2 * S],
        "target": ["nas", "nas"],
        "calls_per_s": [100.0, 50.0],
        "round_trip_ms": [3.0, None],
        "again_per_s": [0.0, 0.0],
        "timeouts_per_s": [0.0, 0.0],
    }
    summary = {"mounts": {"nas": totals}, "interval_s": 1.0, "notes": list(notes)}
    return sealed_run(folder, "mountstats", summary, {"mountstats_series": series})


def test_means_are_sums_by_calls(tmp_path: Path) -> None:
    kind = MountstatsEvidence()
    run = run_with(tmp_path / "a")
    facts = kind.facts(run)
    assert facts is not None
    assert kind.Facts.model_validate(facts.model_dump(mode="json")) == facts
    (mount,) = facts.mounts
    assert mount.by_call_ns("round_trip_ms") == pytest.approx(450e6 / 150)
    assert mount.operations[1].by_call_ns("queue_ms") == pytest.approx(0.8e6)
    assert mount.operations[0].bytes_by_call("bytes_received") == 33_000
    assert mount.transports[0].by_send("in_flight") == 1.5
    assert mount.protocol() == "NFSv4.2, tcp × 2"


def test_the_section_tells_of_resends_first(tmp_path: Path) -> None:
    kind = MountstatsEvidence()
    run = run_with(tmp_path / "a", notes=("nas: 3 readings are in the totals only",))
    facts = kind.facts(run)
    assert facts is not None
    section = kind.section(found_of({"x=1": [(run, facts)]}))
    assert section is not None
    assert "3 calls were retransmitted" in section.sentences[0]
    assert "1 waited for a major timeout" in section.sentences[0]
    assert "made anew 2 times" in section.sentences[1]
    assert "3 readings" in section.notes[0]
    mounts, operations, connections = section.tables
    (row,) = mounts.rows
    assert (row[4].text, row[4].value) == ("75/s", 75.0)
    assert [cell.value for cell in row[10:]] == [3, 1, 2]
    assert [row[2].text for row in operations.rows] == ["READ", "WRITE"]
    assert [row[3].value for row in connections.rows] == [100, 53]


def test_a_run_without_a_mount_has_nothing_to_tell(tmp_path: Path) -> None:
    assert MountstatsEvidence().facts(sealed_run(tmp_path / "a")) is None


def test_panels_show_what_moved(tmp_path: Path) -> None:
    panels = {panel.key: panel for panel in MountstatsEvidence().panels(run_with(tmp_path / "a"))}
    assert list(panels["mountstats_calls"].series[0].y) == [100.0, 50.0]
    assert "mountstats_again" not in panels, "nothing was retransmitted: no panel of it"
