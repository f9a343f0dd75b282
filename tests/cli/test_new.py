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
def test_it_is_read_without_a_warning_and_says_its_own_command(
    kind: str, here: Path, capsys: Capture
) -> None:
    assert nfslab(capsys, "new", kind).code == 0
    file = here / f"{kind}.toml"
    assert read_experiment(file).warnings == []
    assert f"nfslab run {kind}.toml" in file.read_text()


@pytest.mark.long
def test_all_can_run_as_they_stand(here: Path) -> None:
    """And the README's example can be pasted."""
    for kind, file in template_files().items():
        if workload_class(kind).available().ok:
            assert refused(file) == [], kind
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (here / "log-placement.toml").write_text(example)
    assert workload_class("pgbench").available().ok is (refused(here / "log-placement.toml") == [])


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


NEEDS = {
    "quickstart": {"FUSE"},
    "sfs-threads-ganesha": {"root", "NFS-Ganesha"},
    "bonnie-2001": {"root", "md, dm or btrfs"},
    "files-sweep-2004": {"memory cgroups"},
}


@pytest.mark.system
def test_shipped_experiments_tell_time_and_needs(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some: what all of them need is asked of this machine, which takes its time."""
    files = {name: experiment_files()[name] for name in NEEDS}
    monkeypatch.setattr("nfslab.shipped.experiment_files", lambda: files)
    entries = {e["name"]: e for e in json.loads(nfslab(capsys, "list", "--shipped", "--json").out)}
    assert entries.keys() == files.keys()
    for name, file in files.items():
        section = tomllib.loads(file.read_text())["experiment"]
        assert entries[name]["title"] == section["title"]
        assert entries[name]["runs"] % section["repetitions"] == 0
        assert entries[name]["seconds"] > entries[name]["runs"]
        assert set(entries[name]["needs"]) >= NEEDS[name]
    monkeypatch.setattr(
        "nfslab.experiment.dry_run.shipped_experiments", lambda: list(entries.values())
    )
    rows = nfslab(capsys, "list", "--shipped").out.splitlines()[1 : 1 + len(files)]
    assert {line.split()[0] for line in rows} == files.keys()
