"""A second experiment on the machine waits, or goes on beside the first and is marked."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from nfslab.experiment.session import _await_turn
from nfslab.experiment.stop import Stop
from nfslab.machine.turn import Holder, Turn

from tests.experiment.session_support import only_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[..., Path]

LAUNCHER = Path(__file__).with_name("launcher.py")
MARK = "another_experiment:warning"


@pytest.fixture
def turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[Turn]:
    """The first experiment: this process."""
    name = f"nfslab-test-{uuid.uuid4()}"
    monkeypatch.setenv("NFSLAB_TURN", name)
    with Turn() as ours:
        assert ours.take()
        yield ours
    for left in [] if ours._folder is None else ours._folder.glob(f"{name}*"):
        left.unlink()


@contextmanager
def second(file: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    argv = [sys.executable, str(LAUNCHER), "run", str(file), *words]
    env = os.environ | {"NFSLAB_STATE": str(file.parent / "state")}
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=file.parent, stdout=pipe, text=True, env=env) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return line
    pytest.fail(f"it ended without {word!r}")


def flags(file: Path) -> list[list[str]]:
    return [line.flags for line in only_folder(file).sealed_runs()]


@pytest.mark.long
def test_it_waits_and_runs_when_the_first_has_ended(turn: Turn, experiment_file: Write) -> None:
    file = experiment_file(("repetitions = 3", "repetitions = 1"))
    with second(file) as process:
        assert str(os.getpid()) in read_until(process, "waiting"), "who it waits for"
        assert not (file.parent / "results").exists()
        assert not turn.beside(), "who waits disturbs nobody"
        turn.__exit__(None, None, None)
        process.communicate()
    assert process.returncode == 0
    found = flags(file)
    assert found
    assert all(MARK not in of_run for of_run in found)


@pytest.mark.system
@pytest.mark.long
def test_going_on_beside_marks_both(turn: Turn, experiment_file: Write) -> None:
    file = experiment_file(("repetitions = 3", "repetitions = 1"))
    with second(file, "--anyway") as process:
        process.communicate()
    assert process.returncode == 0
    found = flags(file)
    assert found
    assert all(MARK in of_run for of_run in found)
    assert turn.beside(), "the first learns of it"


def test_another_users_run_is_waited_for_so_long_at_most(simulated_clock: object) -> None:
    del simulated_clock
    said: list[str] = []

    class Theirs(Turn):
        guest = False

        def take(self) -> bool:
            return False

        def holder(self) -> Holder:
            return Holder(4711, os.geteuid() + 1, "sleep infinity")

        def go_beside(self) -> None:
            self.guest = True

    turn = Theirs()
    with Stop(said.append) as stop:
        _await_turn(turn, stop, cast("Any", SimpleNamespace(message=said.append)), anyway=False)
    assert turn.guest
    assert "4711" in said[0]
    assert "waiting" in said[0]
    assert "within 10 minutes" in said[1]
    assert "marked" in said[1]
