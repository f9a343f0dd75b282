"""The same experiment over weeks: `nfslab list` says since when its figure differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.invocation import nfslab
from tests.report.designs import write_design
from tests.report.synthetic import EPOCH_NS

DAY_NS = 86_400 * 10**9
DAYS = 14
CHANGED = 8
"""The first day with the other kernel."""

Capture = pytest.CaptureFixture[str]


def write_days(results: Path, faster: float, *, days: int = DAYS) -> None:
    for day in range(days):
        after = day >= CHANGED
        write_design(
            results,
            {"clients": [1, 8]},
            lambda clients, by=faster if after else 1.0: 100.0 * (by if clients == 8 else 1.0),
            seed=day,
            # Names that are not in the order of time.
            name=f"day-{(5 * day) % DAYS:02}",
            created_unix_ns=EPOCH_NS + day * DAY_NS,
            commit="bbbb" if after else "aaaa",
            kernel="6.5.0" if after else "6.1.0",
        )


def changed(results: Path, capsys: Capture) -> dict[str, Any]:
    entries = json.loads(nfslab(capsys, "list", results, "--json").out)
    return {entry["folder"]: entry["changed"] for entry in entries if entry["changed"]}


def test_the_first_day_with_another_kernel_is_named(tmp_path: Path, capsys: Capture) -> None:
    write_days(tmp_path, 0.8)
    ((folder, change),) = changed(tmp_path, capsys).items()
    assert folder.startswith(f"day-{(5 * CHANGED) % DAYS:02}-")
    assert change["since"] == folder
    assert change["before"].startswith(f"day-{(5 * (CHANGED - 1)) % DAYS:02}-")
    assert change["experiments"] == [CHANGED, DAYS - CHANGED]
    assert (change["metric"], change["point"], change["points"]) == ("tps", "clients=8", 2)
    assert change["ratio"] == pytest.approx(0.8, rel=0.03)
    assert 0 < change["p_value"] <= 0.01
    differences = {(one["base"], one["new"]) for one in change["differences"]}
    assert differences == {("aaaa", "bbbb"), ("6.1.0", "6.5.0")}
    text = nfslab(capsys, "list", tmp_path).out
    for word in (folder, "clients=8", "6.1.0 → 6.5.0", "aaaa → bbbb"):
        assert word in text.split("since ", 1)[1]


def test_a_kernel_that_changes_nothing_is_not_named(tmp_path: Path, capsys: Capture) -> None:
    write_days(tmp_path, 1.0)
    assert changed(tmp_path, capsys) == {}
    assert "since" not in nfslab(capsys, "list", tmp_path).out


def test_other_experiments_are_no_part_of_it(tmp_path: Path, capsys: Capture) -> None:
    """Nine are too few, and three of another design beside them do not help."""
    write_days(tmp_path, 0.5, days=9)
    for day in range(3):
        write_design(
            tmp_path, {"clients": [1, 9]}, lambda clients: 50.0, seed=day, name=f"other-{day}"
        )
    assert changed(tmp_path, capsys) == {}
