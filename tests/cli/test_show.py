"""`nfslab show`: an experiment, a selection, one run, and why a run failed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.report.synthetic import Recipe, write_pgbench

Capture = pytest.CaptureFixture[str]

RECIPE = Recipe(clients=(1, 5), repetitions=3, samples=False, failed=((1, 1),), excluded=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ExperimentFolder:
    """Nothing of it is changed but a log, and a record in a copy."""
    return write_pgbench(tmp_path_factory.mktemp("results"), RECIPE)


def test_an_experiment(
    folder: ExperimentFolder, capsys: Capture, snapshot: Callable[[str, str], None]
) -> None:
    said = nfslab(capsys, "show", folder.path)
    assert said.code == 0
    snapshot("show.txt", said.out.replace(str(folder.path.parent), "FOLDER"))


def test_a_selection_shows_only_its_points(folder: ExperimentFolder, capsys: Capture) -> None:
    said = nfslab(capsys, "show", f"{folder.path}:clients=1")
    assert "clients=1" in said.out
    assert "placement=together, clients=5" not in said.out
    assert "failed:" not in said.out  # the failed run is at clients=5


def test_a_run_with_all_that_is_known(folder: ExperimentFolder, capsys: Capture) -> None:
    line = next(line for line in folder.sealed_runs() if line.status == "ok")
    said = nfslab(capsys, "show", folder.path, line.run_id)
    assert said.code == 0
    for part in ("tps *", "littles_law", "rw,relatime", "stable", "measure", "workload.scale"):
        assert part in said.out, part
    assert "last lines" not in said.out
    record = json.loads(nfslab(capsys, "show", folder.path, line.run_id, "--json").out)
    assert record["metrics"]["tps"]["value"] == line.metrics["tps"]


def test_a_run_has_the_numbers_of_its_evidence(folder: ExperimentFolder, capsys: Capture) -> None:
    """The collector `postgres` of this folder counted a flush for each transaction."""
    line = next(line for line in folder.sealed_runs() if line.status == "ok")
    said = nfslab(capsys, "show", folder.path, line.run_id).out
    rows = [row.split()[:4] for row in said.splitlines() if row.startswith(f"{line.run_id} ")]
    flushes = folder.run_record(line.run_id).metrics["transactions"].value
    assert [line.run_id, "1", f"{flushes:,.0f}", "1"] in rows


def test_a_failed_run_shows_its_logs_without_steering_the_terminal(
    folder: ExperimentFolder, capsys: Capture
) -> None:
    line = next(line for line in folder.sealed_runs() if line.status == "failed")
    log = folder.runs_path / line.run_id / "logs" / "server.log"
    lines = [f"line {number}" for number in range(1000)]
    log.write_bytes("\n".join([*lines, "\x1b[2Jred", "FATAL: \xff"]).encode("latin-1"))
    said = nfslab(capsys, "show", folder.path, line.run_id)
    assert f"failed in phase {'load'}: the server did not start" in said.out
    assert "line 999" in said.out
    assert "line 981" not in said.out  # the last 20 lines only
    assert "FATAL" in said.out
    assert "\x1b" not in said.out


def test_a_run_is_found_by_its_beginning(folder: ExperimentFolder, capsys: Capture) -> None:
    run_id = folder.sealed_runs()[0].run_id
    assert run_id in nfslab(capsys, "show", folder.path, run_id[:12]).out
    said = nfslab(capsys, "show", folder.path, "b000")
    assert said.code == 2
    assert " 4 " in said.err
    said = nfslab(capsys, "show", folder.path, run_id[:-1] + "7")
    assert said.code == 2
    assert f"did you mean {run_id}" in said.err


def test_a_damaged_run_says_why(folder: ExperimentFolder, tmp_path: Path, capsys: Capture) -> None:
    run_id = folder.sealed_runs()[0].run_id
    copy = shutil.copytree(folder.path, tmp_path / "copy")
    (copy / "runs" / run_id / "run.json").write_text("{")
    said = nfslab(capsys, "show", copy, run_id)
    assert said.code == 1
    assert "is damaged" in said.err


def test_the_experiment_as_json(folder: ExperimentFolder, capsys: Capture) -> None:
    content = json.loads(nfslab(capsys, "show", f"{folder.path}:clients=5", "--json").out)
    assert content["record"]["identity"] == folder.record.identity
    assert {point["factors"]["clients"] for point in content["points"]} == {5}
    assert len(content["runs"]) == 6
