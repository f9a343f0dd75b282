"""Commands that errors suggest do what they say when pasted, also where a path has a space."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from nfslab.cli.syscalls_subject import target_of
from nfslab.errors import UsageError
from nfslab.machine.users import reachable_by
from nfslab.targets.base import usable_folder


def paste(command: str) -> None:
    subprocess.run(["sh", "-c", command], check=True)


@pytest.mark.system
def test_a_folder_that_is_missing_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "two words" / "it's here"
    paste(usable_folder(folder).fix)
    assert usable_folder(folder).ok
    assert [path.name for path in tmp_path.iterdir()] == ["two words"]


@pytest.mark.system
def test_a_way_that_is_missing_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "two words"
    paste(reachable_by(folder, os.geteuid()).fix)
    assert reachable_by(folder, os.geteuid()).ok


@pytest.mark.system
def test_a_program_that_cannot_be_executed_can(tmp_path: Path) -> None:
    program = tmp_path / "two words"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(UsageError) as told:
        target_of([str(program)], [], None)
    paste(told.value.fix)
    assert list(target_of([str(program)], [], None).subject.argv) == [str(program)]


def test_a_folder_to_go_on_in_is_one_word(tmp_path: Path) -> None:
    from nfslab.experiment.folders import Wanted, find_folder
    from nfslab.experiment.reading import read_experiment

    from tests.report.synthetic import Recipe, write_pgbench

    results = tmp_path / "two words"
    made = write_pgbench(results, Recipe(name="mine", clients=(1,), repetitions=2))
    file = tmp_path / "mine.toml"
    file.write_text(
        '[experiment]\nname = "mine"\n[targets.disk]\nkind = "local"\n'
        '[workload]\nkind = "command"\ndata = "disk"\nargv = ["true"]\n'
    )
    _, notes = find_folder(read_experiment(file, ()), Wanted(results, None, False), {})
    words = shlex.split(notes[0].rpartition("(")[2].rstrip(")"))
    assert words[:2] == ["--continue", str(made.path)]
