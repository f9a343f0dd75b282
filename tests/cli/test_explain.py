"""`nfslab explain`: three forms of one content, and results that tell nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench

Capture = pytest.CaptureFixture[str]


def test_its_forms_tell_the_same(tmp_path: Path, capsys: Capture) -> None:
    results = write_pgbench(tmp_path, Recipe(clients=(1,), repetitions=3, samples=False)).path
    told = json.loads(nfslab(capsys, "explain", results, "--json").out)
    (compared,) = told["comparisons"]
    assert compared["base"] == {"placement": "together", "clients": 1}
    assert compared["new"] == {"placement": "log apart", "clients": 1}
    whole, parts = compared["whole"], {one["part"]: one for one in compared["parts"]}
    assert whole["shown"]
    assert whole["new_ns"] - whole["base_ns"] == pytest.approx(whole["difference_ns"])
    assert parts["wal_fsync"]["base_ns"] > parts["wal_fsync"]["new_ns"] > 0
    for point in told["points"]:
        top = [one["ns"] for one in point["parts"] if "/" not in one["part"]]
        assert sum(top) == pytest.approx(point["mean_ns"])
    for form in ([], ["--markdown"]):
        said = nfslab(capsys, "explain", results, *form)
        # In the table, and in the sentence of the difference that is shown.
        assert (said.code, said.out.count("placement=log apart") >= 2) == (0, True)


def test_results_without_operations_are_refused(tmp_path: Path, capsys: Capture) -> None:
    failed = Recipe(clients=(1,), repetitions=1, samples=False, failed=((0, 0), (0, 1)))
    results = write_pgbench(tmp_path, failed).path
    assert nfslab(capsys, "explain", results).code == 1
    assert nfslab(capsys, "explain", results, "--json", "--markdown").code == 2
    assert nfslab(capsys, "explain", tmp_path / "nowhere").code == 2
    assert json.loads(nfslab(capsys, "explain", results, "--json").out) == {
        "emulated": "", "confirmation": None, "comparisons": [], "points": [],
    }  # fmt: skip
