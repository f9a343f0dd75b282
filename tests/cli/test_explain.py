"""`nfslab explain`: three forms of one content, and results that tell nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invocation import nfslab

Capture = pytest.CaptureFixture[str]
FILE = """
[experiment]
name = "small"
repetitions = 3

[targets.disk]
kind = "local"
path = "{folder}"

[workload]
kind = "files"
data = "disk"
file_size = "256k"
phases = ["block_write"]

[[axes]]
name = "sync"
parameter = "workload.final_sync"
values = [true, false]
"""


@pytest.fixture
def results(tmp_path: Path, capsys: Capture) -> Path:
    (tmp_path / "data").mkdir()
    file = tmp_path / "small.toml"
    file.write_text(FILE.format(folder=tmp_path / "data"))
    assert nfslab(capsys, "run", file, "--results", tmp_path / "results").code == 0
    (folder,) = (tmp_path / "results").iterdir()
    return folder


def test_its_forms_tell_the_same(results: Path, capsys: Capture) -> None:
    told = json.loads(nfslab(capsys, "explain", results, "--json").out)
    (compared,) = told["comparisons"]
    assert (compared["base"], compared["new"]) == ({"sync": True}, {"sync": False})
    parts = {one["part"]: one for one in compared["parts"]}
    assert parts["final_sync"]["new_ns"] > 0, "closing alone takes time, too"
    assert parts["final_sync"]["base_ns"] > 0
    for point in told["points"]:
        top = [one["ns"] for one in point["parts"] if "/" not in one["part"]]
        assert sum(top) == pytest.approx(point["mean_ns"])
    for form in ([], ["--markdown"]):
        said = nfslab(capsys, "explain", results, *form)
        assert said.code == 0
        # In the table, and in the sentence where a difference is shown.
        assert said.out.count("sync=False") >= 1 + compared["whole"]["shown"]


def test_results_without_operations_are_refused(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "other.toml"
    (tmp_path / "data").mkdir()
    text = FILE.format(folder=tmp_path / "data").partition("[workload]")[0]
    file.write_text(text + '[workload]\nkind = "command"\nargv = ["true"]\ndata = "disk"\n')
    assert nfslab(capsys, "run", file, "--results", tmp_path / "results").code == 0
    (folder,) = (tmp_path / "results").iterdir()
    assert nfslab(capsys, "explain", folder).code == 1
    assert nfslab(capsys, "explain", folder, "--json", "--markdown").code == 2
    assert nfslab(capsys, "explain", tmp_path / "nowhere").code == 2
    assert json.loads(nfslab(capsys, "explain", folder, "--json").out) == {
        "emulated": "", "confirmation": None, "comparisons": [], "points": [],
    }  # fmt: skip
