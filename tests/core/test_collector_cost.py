"""The benchmark of the collector's cost runs small here, so that it cannot rot."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "benches" / "collector_cost.py"


def test_collector_cost_prints_both_machines() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH), "--small"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = re.findall(
        r"^\| (idle|one core busy) \| (\d+) \| \d+ \| ([\d.]+) \| ([\d.]+) \|$",
        done.stdout,
        flags=re.MULTILINE,
    )
    assert [row[0] for row in rows] == ["idle", "one core busy"]
    assert all(int(row[1]) >= 2 for row in rows)
    assert all(0 < float(row[2]) < 100 for row in rows)
