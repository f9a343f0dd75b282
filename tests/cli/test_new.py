"""`nfslab new`, `list --shipped`, the README's example: what they give runs as it stands."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from nfslab.experiment.dry_run import dry_run
from nfslab.experiment.reading import read_experiment
from nfslab.experiment.session import Options
from nfslab.results.store import ExperimentFolder
from nfslab.shipped import experiment_files, template_files
from nfslab.workloads.registry import WORKLOADS, workload_class

from tests.cli.invocation import nfslab

ROOT = Path(__file__).resolve().parents[2]
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(file: Path) -> list[str]:
    plan = dry_run(read_experiment(file), Options(file))
    if not Path("/dev/shm").is_dir():
        pytest.skip("there is no /dev/shm")
    return [f"{o.part}: {o.reason}" for o, _ in plan.preflight.obstacles()]


def test_every_workload_has_a_file_to_begin_with() -> None:
    assert set(template_files()) == set(WORKLOADS)
    for kind, file in template_files().items():
        assert tomllib.loads(file.read_text())["workload"]["kind"] == kind


@pytest.mark.parametrize("kind", sorted(WORKLOADS))
def test_it_can_run_as_it_stands(kind: str, here: Path, capsys: Capture) -> None:
    assert nfslab(capsys, "new", kind).code == 0
    file = here / f"{kind}.toml"
    assert read_experiment(file).warnings == []
    assert f"nfslab run {kind}.toml" in file.read_text(), "its own commands"
    if not (usable := workload_class(kind).available()).ok:
        pytest.skip(usable.reason)
    assert refused(file) == []


@pytest.mark.parametrize(
    ("kind", "points"), [("command", 2), pytest.param("files", 2, marks=pytest.mark.long)]
)
def test_it_runs(kind: str, points: int, here: Path, capsys: Capture) -> None:
    nfslab(capsys, "new", kind, "--out", "own.toml")
    assert nfslab(capsys, "run", "own.toml", "--repetitions", "1").code == 0
    (folder,) = (here / "results").iterdir()
    lines = list(ExperimentFolder.open(folder).sealed_runs())
    assert [line.status for line in lines] == ["ok"] * points


def test_nothing_is_written_over(here: Path, capsys: Capture) -> None:
    (here / "files.toml").write_text("mine")
    assert nfslab(capsys, "new", "files").code == 2
    assert (here / "files.toml").read_text() == "mine"
    assert nfslab(capsys, "new", "files", "--out", here / "no" / "files.toml").code == 2
    said = nfslab(capsys, "new", "fles")
    assert (said.code, "'files'" in said.err) == (2, True)
    assert [path.name for path in here.iterdir()] == ["files.toml"]


def test_without_a_kind_it_lists_them(here: Path, capsys: Capture) -> None:
    said = nfslab(capsys, "new")
    assert said.code == 0
    assert {line.split()[0] for line in said.out.splitlines()[1:]} == set(WORKLOADS)
    assert nfslab(capsys, "new", "files", "--out", "-").out == template_files()["files"].read_text()
    assert list(here.iterdir()) == []


def test_shipped_experiments_tell_time_and_needs(
    here: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = {e["name"]: e for e in json.loads(nfslab(capsys, "list", "--shipped", "--json").out)}
    assert set(entries) == set(experiment_files())
    for name, file in experiment_files().items():
        section = tomllib.loads(file.read_text())["experiment"]
        assert entries[name]["title"] == section["title"]
        assert entries[name]["runs"] % section["repetitions"] == 0
        assert entries[name]["seconds"] > entries[name]["runs"]
    assert entries["quickstart"]["needs"] == ["FUSE"]
    assert entries["sfs-threads-ganesha"]["needs"] == ["root", "NFS-Ganesha"]
    assert entries["sfs-clients-1999"]["needs"] == ["root", "network namespaces"]
    assert entries["bonnie-2001"]["needs"] == ["root", "md, dm or btrfs"]
    assert "memory cgroups" in entries["files-sweep-2004"]["needs"]
    # The table is of the same entries: asking all of them again takes seconds.
    again = "nfslab.experiment.dry_run.shipped_experiments"
    monkeypatch.setattr(again, lambda: list(entries.values()))
    said = nfslab(capsys, "list", "--shipped")
    rows = said.out.splitlines()[1 : 1 + len(experiment_files())]
    assert {line.split()[0] for line in rows} == set(experiment_files())


def test_the_readmes_example_can_be_pasted(here: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (here / "log-placement.toml").write_text(example)
    assert refused(here / "log-placement.toml") == []
