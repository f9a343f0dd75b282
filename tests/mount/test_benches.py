"""The benchmarks of the mount run small and print their tables, so that they cannot rot.

No figure is judged: machines that test are busy.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.machine.users import unprivileged_user

BENCHES = Path(__file__).resolve().parents[2] / "benches"
PATIENCE_S = 300

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="needs root and /dev/fuse"
)


def rows_of(program: str, tmp_path: Path) -> dict[str, list[str]]:
    """First cell of each row of its tables, and the others."""
    done = subprocess.run(
        [sys.executable, BENCHES / f"{program}.py", "--small"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=os.environ | {"NFSLAB_STATE": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {first: rest for first, *rest in cells}


def test_throughput(tmp_path: Path) -> None:
    rows = rows_of("mount_throughput", tmp_path)
    for place in ("local folder", "mount", "mount rsize=64k,wsize=64k", "mount nconnect=4"):
        assert all(float(cell.replace(",", "")) > 0 for cell in rows[place])


def test_the_cost_of_recording(tmp_path: Path) -> None:
    rows = rows_of("rpc_cost", tmp_path)
    assert rows["counters only"][1] == "1.000"
    assert float(rows["every call"][1]) > 0


@pytest.mark.skipif(unprivileged_user() is None, reason="PostgreSQL needs a user besides root")
def test_postgres(tmp_path: Path) -> None:
    rows = rows_of("postgres_over_nfs", tmp_path)
    for place in ("local", "mount + embedded"):
        assert all(float(cell.split()[0]) > 0 for cell in rows[place])
    assert rows["local"][3:] == ["1.00", "1.00"]
    kept = [first for first in rows if "mount + embedded / local" in first]
    assert len(kept) == 2, "both aims are judged"
