"""The benchmark of the live collector runs small here, so that it cannot rot."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.captures import tool as tools

BENCH = Path(__file__).resolve().parents[2] / "benches" / "capture_cost.py"


def test_the_benchmark_prints_a_whole_table() -> None:
    answer = tools.available("auto")
    if not answer.ok:
        pytest.skip(f"{answer.reason}: {answer.fix}")
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed: the load cannot be built")
    command = [sys.executable, str(BENCH), "--small", "--transport", "tcp", "--transport", "udp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 2 * 2 * 2
    assert {row.count("|") for row in rows} == {10}
    for row in rows[3::2]:
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[1].endswith(", captured")
        decoded, _, calls = cells[7].partition(" of ")
        # Every call from the first to the last, over both transports.
        assert decoded == calls == "2,000"
        assert cells[8] == "0"
