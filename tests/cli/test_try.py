"""`nfslab try`: what it compares, what it refuses, what it leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nfslab._core import Server
from nfslab.experiment import trial
from nfslab.experiment.dry_run import dry_run
from nfslab.experiment.reading import read_experiment
from nfslab.experiment.session import Options
from nfslab.results.store import ExperimentFolder

from tests.cli.invocation import nfslab
from tests.machine import needs

Capture = pytest.CaptureFixture[str]
SHM = Path("/dev/shm")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def pair(here: Path) -> list[Path]:
    folders = [here / "one", here / "two words"]
    for folder in folders:
        folder.mkdir()
    return folders


def rows(told: dict[str, Any], work: str) -> dict[str, dict[str, Any]]:
    (found,) = (one for one in told["works"] if one["work"] == work)
    return {row["storage"]: row for row in found["storages"]}


@needs.fuse
@pytest.mark.system
def test_storages_are_compared_and_nothing_stays_but_the_file_that_is_saved(
    here: Path, capsys: Capture
) -> None:
    if not SHM.is_dir():
        pytest.skip("there is no /dev/shm")
    # No file can be made in /proc, and it has no free bytes: told before anything runs.
    said = nfslab(capsys, "try", "/proc", "--only", "large", "--repetitions", 1)
    assert (said.code, "66" in said.err, "proc" in said.err) == (2, True, True)
    model, export = {"threads": 1, "disk": {"commit_ns": 20_000_000}}, "127.0.0.1:/export"
    with Server(json.dumps({"store": "memory", "model": model})) as server:
        options = f"port={server.port},mountport={server.port}"
        asked = ["try", SHM, export, "-o", options, "--only", "commit"]
        said = nfslab(capsys, *asked, "--repetitions", 1, "--save", "mine.toml", "--json")
        told = json.loads(said.out)
        file = here / "mine.toml"
        assert dry_run(read_experiment(file), Options(file)).preflight.obstacles() == []
        # `run` of the file finds nothing left to make.
        again = nfslab(capsys, "run", file, "--repetitions", 1, "--json")
    assert (said.code, told["exit_code"]) == (0, 0)
    assert (again.code, json.loads(again.out)["made"]) == (0, 0)
    assert str(SHM) in told["durability"]
    found = rows(told, "commit")
    assert set(found) == {export, str(SHM)}
    slow = found[export]
    assert 0 < slow["median_per_s"] <= 50, "an fdatasync is a COMMIT, which takes 20 ms"
    assert (slow["n"], slow["ratio"] > 0) == (1, True)
    assert "ratio" not in found[str(SHM)], "the first is what the other stands beside"
    assert list(SHM.glob("nfslab-*try*")) == []
    assert Path(told["report"]).is_file()
    experiment = read_experiment(file)
    folder = ExperimentFolder.open(Path(told["report"]).parent)
    assert (experiment.warnings, experiment.identity) == ([], folder.record.identity)
    made = {line.point_id for line in folder.sealed_runs()}
    assert made == {point.point_id for point in experiment.points}
    assert len(made) == 2


def test_folders_of_one_device_share_it(here: Path, pair: list[Path]) -> None:
    found = trial.storages([*map(str, pair), "filer:/vol"])
    assert trial.shared_devices(found) == [f"{pair[0]} and {pair[1]}"]
    if SHM.is_dir() and SHM.stat().st_dev != here.stat().st_dev:
        assert trial.shared_devices(trial.storages([str(pair[0]), str(SHM)])) == []


@pytest.mark.parametrize(
    "asked",
    [
        [],
        ["/no/such/folder"],
        ["file"],
        ["one", "./one/"],
        ["one", "--only", "comit"],
        ["one", "--for", "soon"],
        ["one", "--only", "large", "--save", "file"],
        ["one", "--only", "large", "--save", "no/folder/x.toml"],
    ],
)
def test_what_cannot_be_leaves_nothing(
    asked: list[str], here: Path, pair: list[Path], capsys: Capture
) -> None:
    (here / "file").write_text("mine")
    said = nfslab(capsys, "try", *asked)
    assert (said.code, said.out) == (2, "")
    assert (here / "file").read_text() == "mine"
    assert sorted(path.name for path in here.iterdir()) == ["file", "one", "two words"]


@pytest.mark.long
def test_interrupted_it_leaves_the_storages_as_they_were(here: Path, pair: list[Path]) -> None:
    argv = [sys.executable, "-m", "nfslab", "try", *map(str, pair), "--only", "commit"]
    with subprocess.Popen(
        [*argv, "--for", "4m"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here
    ) as process:
        assert process.stdout is not None
        assert any("repetition 1" in line for line in process.stdout), "a run was made"
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert process.returncode == 130
    assert [list(folder.iterdir()) for folder in pair] == [[], []]


@pytest.mark.parametrize(("block_s", "blocks"), [(10.0, [1, 9]), (100.0, [1]), (40.0, [1, 2])])
def test_as_many_blocks_as_the_time_gives(
    block_s: float, blocks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long each call waits for another experiment: it has no part in their seconds."""
    lines: list[SimpleNamespace] = []
    asked: list[int] = []

    def run(options: Options, _view: object) -> SimpleNamespace:
        assert options.repetitions is not None
        asked.append(options.repetitions)
        made = range(len(lines) // 2, options.repetitions)
        for block in made:
            lines.extend([SimpleNamespace(block=block, duration_ns=block_s / 2 * 1e9)] * 2)
        folder = SimpleNamespace(sealed_runs=lambda: lines)
        return SimpleNamespace(folder=folder, seconds=block_s * len(made))

    monkeypatch.setattr(trial, "run_experiment", run)
    trial.run_trial(Options(Path("x.toml")), 90.0, SimpleNamespace())  # type: ignore[arg-type]
    assert asked == blocks
