"""A held launch: nothing runs before it is let go, the pid is the program's, and no death hangs."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.machine.held_launch import HeldLaunch

PATIENCE_S = 120


def test_the_program_begins_when_it_is_let_go_and_has_the_pid_that_was_told() -> None:
    with HeldLaunch() as held:
        code = "import os; print(os.getpid(), len(os.listdir('/proc/self/fd')))"
        program = subprocess.Popen(
            held.argv([sys.executable, "-c", code]), stdout=subprocess.PIPE, text=True
        )
        pid = held.await_pid(lambda: program.poll() is not None)
        assert program.stdout is not None
        # It waits in the shell: nothing was printed, and what runs is the shell.
        assert select.select([program.stdout], [], [], 0.2)[0] == []
        assert os.readlink(f"/proc/{pid}/exe").endswith("sh") or "sh" in Path(
            f"/proc/{pid}/cmdline"
        ).read_text("utf-8")
        held.let_go()
        said = program.communicate(timeout=PATIENCE_S)[0].split()
    assert int(said[0]) == pid == program.pid
    # Standard ones and the listing itself: the pipe does not leak into the program.
    assert int(said[1]) == 4
    assert program.returncode == 0


def test_arguments_reach_the_program_as_they_are() -> None:
    awkward = ["a b", "$HOME", "*", "", "'\"", "-n"]
    with HeldLaunch() as held:
        program = subprocess.Popen(
            held.argv([sys.executable, "-c", "import sys; print(sys.argv[1:])", *awkward]),
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        held.await_pid()
        held.let_go()
        assert program.communicate(timeout=PATIENCE_S)[0].strip() == repr(awkward)


def test_when_the_watcher_goes_the_program_runs() -> None:
    held = HeldLaunch()
    program = subprocess.Popen(held.argv(["true"]))
    held.await_pid()
    held.close()
    assert program.wait(PATIENCE_S) == 0


def test_a_program_that_is_never_started_is_an_error() -> None:
    with HeldLaunch() as held, pytest.raises(RunFailed):
        held.await_pid(lambda: True)
