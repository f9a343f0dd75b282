"""`nfslab list`: every experiment is there, a damaged one does not hide the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_files, write_pgbench

RECIPE = Recipe(
    clients=(1, 5),
    repetitions=3,
    samples=False,
    evidence=False,
    retried=((0, 0),),
    failed=((1, 1),),
)

Capture = pytest.CaptureFixture[str]


def test_experiments_with_their_progress(tmp_path: Path, capsys: Capture) -> None:
    placement = write_pgbench(tmp_path, RECIPE)
    bonnie = write_files(tmp_path)
    said = nfslab(capsys, "list", tmp_path)
    assert said.code == 0
    header, first, second = said.out.splitlines()
    assert header.split()[:4] == ["experiment", "configurations", "runs", "failed"]
    assert first.split()[:4] == [bonnie.path.name, "8", "24/24", "0"]
    assert second.split()[:4] == [placement.path.name, "4", "11/12", "1"]
    assert "tps" in second
    assert "MiB/s" in first


def test_json_has_the_numbers(tmp_path: Path, capsys: Capture) -> None:
    folder = write_pgbench(tmp_path, RECIPE)
    said = nfslab(capsys, "list", folder.path, "--runs", "--json")
    (entry,) = json.loads(said.out)
    assert (entry["points"], entry["planned"], entry["ok"], entry["failed"]) == (4, 12, 11, 1)
    assert entry["attempts"] == 13
    runs = {run["run_id"]: run for run in entry["runs"]}
    assert set(runs) == {line.run_id for line in folder.sealed_runs()}
    for line in folder.sealed_runs():
        assert runs[line.run_id]["value"] == line.metrics.get("tps")
        assert runs[line.run_id]["status"] == line.status
    assert sum(run["counted"] for run in entry["runs"]) == 11


def test_runs_are_listed_with_reasons(tmp_path: Path, capsys: Capture) -> None:
    folder = write_pgbench(tmp_path, RECIPE)
    said = nfslab(capsys, "list", tmp_path, "--runs")
    for line in folder.sealed_runs():
        assert line.run_id in said.out
    assert said.out.count("the server did not start") == 2


def test_a_damaged_experiment_does_not_hide_the_others(tmp_path: Path, capsys: Capture) -> None:
    good, bad = write_files(tmp_path), write_pgbench(tmp_path, RECIPE)
    (bad.path / "experiment.json").write_text("{")
    said = nfslab(capsys, "list", tmp_path)
    assert said.code == 0
    assert good.path.name in said.out
    assert "is damaged" in said.err


def test_damaged_and_half_runs_are_mentioned(tmp_path: Path, capsys: Capture) -> None:
    folder = write_pgbench(tmp_path, RECIPE)
    folder.begin_run("b099-00000000-a1")
    (folder.runs_path / folder.sealed_runs()[0].run_id / "run.json").unlink()
    (folder.path / "catalogue.jsonl").unlink()
    said = nfslab(capsys, "list", tmp_path)
    assert "1 damaged run " in said.out
    assert "1 partial run " in said.out


def test_nothing_there(tmp_path: Path, capsys: Capture) -> None:
    assert str(tmp_path) in nfslab(capsys, "list", tmp_path).out
    said = nfslab(capsys, "list", tmp_path / "nowhere")
    assert said.code == 2
    assert "cannot read" in said.err
