"""A suspended launch: nothing runs before it is resumed, the pid is its own, no death hangs."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.errors import RunFailed
from nfslab.evidence.syscalls.suspended_launch import SuspendedLaunch

AWKWARD = ["a b", "$HOME", "*", "", "'\"", "-n"]


@pytest.mark.system
def test_the_program_begins_when_it_is_resumed_and_has_the_pid_that_was_told() -> None:
    with SuspendedLaunch() as suspended:
        code = "import os, sys; fds = len(os.listdir('/proc/self/fd')); "
        code += "print(os.getpid(), fds, sys.argv[1:])"
        program = subprocess.Popen(
            suspended.argv([sys.executable, "-c", code, *AWKWARD]),
            stdout=subprocess.PIPE,
            text=True,
        )
        pid = suspended.await_pid(lambda: program.poll() is not None)
        assert program.stdout is not None
        # It waits in the shell: nothing was printed, and what runs is the shell.
        assert select.select([program.stdout], [], [], 0.2)[0] == []
        assert os.readlink(f"/proc/{pid}/exe").endswith("sh") or "sh" in Path(
            f"/proc/{pid}/cmdline"
        ).read_text("utf-8")
        suspended.resume()
        said = program.communicate()[0].split(maxsplit=2)
    assert int(said[0]) == pid == program.pid
    # Standard ones and the listing itself: the pipe does not leak into the program.
    assert int(said[1]) == 4
    assert said[2].strip() == repr(AWKWARD)
    assert program.returncode == 0


@pytest.mark.system
def test_when_the_watcher_goes_the_program_runs() -> None:
    suspended = SuspendedLaunch()
    program = subprocess.Popen(suspended.argv(["true"]))
    suspended.await_pid()
    suspended.close()
    assert program.wait() == 0


def test_a_program_that_is_never_started_is_an_error() -> None:
    with SuspendedLaunch() as suspended, pytest.raises(RunFailed):
        suspended.await_pid(lambda: True)
