"""Benchmarks of the mount."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benches.small_run import by_first_cell, postgres, small, table_rows
from tests.machine import needs

pytestmark = [pytest.mark.long, needs.fuse]


@pytest.fixture(autouse=True)
def own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path))


def test_throughput() -> None:
    rows = by_first_cell(small("mount_throughput"))
    for place in ("local folder", "mount", "mount rsize=64k,wsize=64k", "mount nconnect=4"):
        assert all(float(cell.replace(",", "")) > 0 for cell in rows[place])


def test_names() -> None:
    rows = by_first_cell(small("names"))
    for place in ("local", "mount, memory", "mount, folder", "mount, folder, async"):
        assert len(rows[place]) == 8
        assert all(float(cell) > 0 for cell in rows[place])


def test_the_cost_of_recording() -> None:
    rows = by_first_cell(small("rpc_cost"))
    assert rows["counters only"][1] == "1.000"
    assert float(rows["every call"][1]) > 0


@postgres
def test_postgres() -> None:
    rows = by_first_cell(small("postgres_over_nfs"))
    for place in ("local", "mount + embedded"):
        assert all(float(cell.split()[0]) > 0 for cell in rows[place])
    assert rows["local"][3:] == ["1.00", "1.00"]
    kept = [first for first in rows if "mount + embedded / local" in first]
    assert len(kept) == 2, "both aims are judged"


def test_delays_are_felt() -> None:
    """Each is at least as long as it says, but for the clock's own steps."""
    rows = by_first_cell(small("delays"))
    for size in ("200 us", "1000 us", "5000 us"):
        assert float(rows[size][0].split(" ")[0]) >= 0


def test_confirming() -> None:
    # Below three blocks nothing has an interval, so nothing would be found, and no wrong one tried.
    rows = table_rows(small("confirm", "--blocks", 4))
    decided = {row[1]: row[2] for row in rows if row[0] == "service"}
    # What is found depends on what else runs here: where nothing is, no wrong one is tried.
    assert decided["right"] in ("not found", "no lever") or set(decided) == {"right", "wrong"}
