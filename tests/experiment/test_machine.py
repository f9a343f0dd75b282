"""`[machine]` of an experiment file: what may stand there, and what it changes of a plan."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from nfslab.experiment.dry_run import dry_run, dry_run_lines
from nfslab.experiment.forecast import GUEST_S, estimated_run_s
from nfslab.experiment.preflight import preflight
from nfslab.experiment.problems import InvalidExperiment
from nfslab.experiment.reading import Experiment, read_experiment
from nfslab.experiment.session import Options
from nfslab.experiment.setup import Setup
from nfslab.shipped import experiment_files
from nfslab.vm import kernel as kernels
from nfslab.vm import run as running

Write = Callable[..., Path]
AXIS = "\n[[axes]]\nparameter = 'machine.kernel'\nvalues = ['6.1', '6.12']\n"


def problem_of(path: Path, *settings: str) -> str:
    with pytest.raises(InvalidExperiment) as caught:
        read_experiment(path, settings)
    return "\n".join(f"{one.where} {one.what} {one.fix}" for one in caught.value.problems)


def with_kernels(write: Write, *replacements: tuple[str, str]) -> Experiment:
    file = write(*replacements)
    file.write_text(file.read_text() + AXIS)
    return read_experiment(file)


def test_a_kernel_is_an_axis(experiment_file: Write) -> None:
    experiment = with_kernels(experiment_file)
    assert len(experiment.points) == 12
    point = experiment.points[-1]
    assert point.factors["kernel"] == point.settings["machine.kernel"] == "6.12"
    machine = point.setup.machine
    assert (machine.kernel, machine.memory, machine.cpus) == ("6.12", 2 << 30, 2)
    assert experiment.resolved["machine"]["kernel"] == {"axis": "kernel"}


def test_an_experiment_of_this_machine_is_what_it_was(experiment_file: Write) -> None:
    """Neither its identity nor its record tells of a machine."""
    experiment = read_experiment(experiment_file())
    assert "machine" not in experiment.resolved
    here = experiment.identity
    kernel = "machine.kernel='6.12'"
    guest = read_experiment(experiment_file(), [kernel]).identity
    more = read_experiment(experiment_file(), [kernel, "machine.memory=3G"]).identity
    assert len({here, guest, more}) == 3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["machine.memory=4G"], "memory of no virtual machine"),
        (["machine.kernel='6.12'", "machine.memory=16M"], "too small"),
        (["machine.kernel='6.12'", "machine.cpus=0"], "too small"),
        (["machine.kernel='6.12'", "machine.disk=1G"], "unknown parameter 'disk'"),
        (["machine.kernel=linux/bzImage"], "neither a version"),
        (["machine.kernel=[6, 12]"], "is not a text"),
    ],
)
def test_what_no_machine_has(settings: list[str], said: str, experiment_file: Write) -> None:
    assert said in problem_of(experiment_file(), *settings)


def test_a_number_is_no_version(experiment_file: Write) -> None:
    """6.10 would be 6.1."""
    file = experiment_file()
    file.write_text(file.read_text() + AXIS.replace("'6.1'", "6.10"))
    said = problem_of(file)
    assert "values" not in said
    assert "axis kernel" in said
    assert "is not a text" in said


def test_paths_are_whole(experiment_file: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    section = "[machine]\nmodules = 'mods'\nkernel = '~/bzImage'\n[targets.one]"
    file = experiment_file(("[targets.one]", section))
    machine = read_experiment(file).points[0].setup.machine
    assert machine.kernel == "/home/somebody/bzImage"
    assert machine.modules == file.parent / "mods"


@pytest.mark.parametrize("name", sorted(experiment_files()))
def test_points_reach_a_guest_as_they_are(name: str) -> None:
    for point in read_experiment(experiment_files()[name]).points:
        there = Setup.of(json.loads(json.dumps(point.setup.resolved())))
        assert replace(there, cluster=point.setup.cluster).resolved() == point.setup.resolved()


@pytest.fixture
def guests_can_be_made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    monkeypatch.setattr(running, "require", lambda _size: None)
    monkeypatch.setattr(kernels, "require", lambda kernel, _modules: asked.append(kernel))
    return asked


def test_only_a_guest_is_asked_what_it_can(
    experiment_file: Write, guests_can_be_made: list[str], tmp_path: Path
) -> None:
    cannot = ('kind = "folder"\n', 'kind = "folder"\ncannot = "no such disk"\nfree = 1\n')
    target = '[targets.one]\nkind = "folder"\n'
    replacements = (target, target.replace(*cannot))
    assert preflight(read_experiment(experiment_file(replacements)).points).blocked
    experiment = with_kernels(experiment_file, replacements)
    found = preflight(experiment.points)
    assert found.blocked == []
    assert (found.collectors, found.space) == ({}, {})
    assert guests_can_be_made == ["6.1", "6.12"], "once each"
    plan = dry_run(experiment, Options(experiment.source.path, results=tmp_path / "results"))
    assert not plan.refused
    assert "virtual machines can run here" in dry_run_lines(plan)[-1]


def test_what_a_guest_would_lack_is_told_before_it_boots(
    experiment_file: Write, guests_can_be_made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are this machine's: programs of the kernel's server, values of ours, a database."""
    target = '[targets.one]\nkind = "folder"\npath'
    for given, words in (
        ('server = "knfsd"', "rpc.nfsd"),
        ('client = "kernel"', "mount.nfs"),
        ('nvram = "1M"\nstore = "memory"', "needs a disk"),
        ("ac = false\nsync = false", "noac"),
    ):
        monkeypatch.setattr(shutil, "which", lambda _name, **_named: None)
        nfs = f'[targets.one]\nkind = "nfs"\n{given}\ndirectory'
        found = preflight(with_kernels(experiment_file, (target, nfs)).points)
        assert {o.part for o, _ in found.obstacles()} == {"target one"}, given
        assert all(words in o.reason for o, _ in found.obstacles()), found.obstacles()


def test_the_plan_counts_the_boot(experiment_file: Write) -> None:
    (here, *_) = read_experiment(experiment_file()).points
    (guest, *_) = read_experiment(experiment_file(), ["machine.kernel='6.12'"]).points
    assert estimated_run_s(guest) == pytest.approx(estimated_run_s(here) + GUEST_S)
