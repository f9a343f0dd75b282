"""The captures' benchmark and its generator."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.benches.small_run import program, small
from tests.trace.reading import read

pytestmark = pytest.mark.long


@pytest.mark.parametrize("kind", ["small", "large"])
def test_generated_captures_hold_what_they_say(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "made.pcap"
    made = json.loads(program("capture_generator", kind, "30M", "--out", path, "--json"))
    assert made["bytes"] == path.stat().st_size >= 30_000_000
    found = read(path)
    assert found.summary["packets"] == made["packets"]
    assert found.anomalies == {}
    rows = found.summary["operations"]
    assert sum(row["calls"] for row in rows) == made["calls"]
    assert sum(row["answered"] for row in rows) == made["calls"]
    assert min(row["reply_first_ns"] - row["call_first_ns"] for row in found.rows) > 0
    if kind == "large":
        assert sum(row["bytes"] for row in found.rows) == 65536 * made["calls"]


def test_the_benchmark_prints_a_whole_table(tmp_path: Path) -> None:
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed: the header walk cannot be built")
    printed = small("captures", "--dir", tmp_path)
    rows = [line for line in printed.splitlines() if line.startswith("|")]
    for name in (
        "header walk", "nfslab, table", "nfslab, table and calls", "nfslab trace",
        "nfslab trace --calls",
    ):  # fmt: skip
        assert sum(f"| {name} |" in row for row in rows) == 2, printed
    assert "most memory of nfslab" in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [(), ("--all", "--calls")])
def test_several_processes_and_one_take_turns(options: tuple[str, ...], tmp_path: Path) -> None:
    printed = small("trace_workers", *options, "--dir", tmp_path)
    rows = [line for line in printed.splitlines() if line.startswith("| 2 ")]
    assert [row.split("|")[1:3] for row in rows] == [
        [f" 2 {kind} ", f" {way} "]
        for kind in ("plain", "gzip")
        for way in ("1 on 1 processor", "1", "2")
    ]
    assert list(tmp_path.iterdir()) == []
