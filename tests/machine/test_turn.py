"""One experiment at a time: the turn is given back whatever ends its holder."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nfslab.machine.turn import Turn

HOLDER = """
import sys
from nfslab.machine.turn import Turn
with Turn() as turn:
    if sys.argv[1] == "take":
        assert turn.take()
    else:
        turn.go_beside()
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSLAB_TURN", f"nfslab-test-{uuid.uuid4()}")


@contextmanager
def another(does: str) -> Iterator[subprocess.Popen[str]]:
    """Another process, until it is told to end."""
    argv = [sys.executable, "-c", HOLDER, does]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.system
def test_one_has_it_and_others_learn_who() -> None:
    with another("take") as process, Turn() as turn:
        assert not turn.take()
        holder = turn.holder()
        assert holder is not None
        assert holder.pid == process.pid
        assert Path(sys.executable).name in holder.command
        assert turn.beside()


@pytest.mark.system
def test_a_killed_holder_has_given_it_back() -> None:
    with another("take") as process, Turn() as turn:
        assert not turn.take()
        process.kill()
        process.wait()
        assert turn.holder() is None
        assert turn.take()
        assert turn.take()
        assert not turn.beside()


@pytest.mark.system
def test_the_holder_knows_who_ran_beside_and_that_askers_did_not() -> None:
    with Turn() as turn, Turn() as asker:
        assert turn.take()
        mine = asker.holder()
        assert mine is not None
        assert mine.pid == os.getpid()
        assert not turn.beside()
        with another("beside") as guest:
            assert turn.beside()
            assert turn.beside()
            guest.kill()
            guest.wait()
            assert turn.beside(), "until just now"
            assert not turn.beside()


@pytest.mark.system
def test_a_guest_takes_it_over_when_the_holder_has_gone() -> None:
    with another("take") as process, Turn() as turn:
        turn.go_beside()
        assert turn.beside()
        process.kill()
        process.wait()
        assert not turn.beside()
        with Turn() as third:
            assert not third.take()


def test_nobody_is_asked_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSLAB_TURN", "")
    with Turn() as one, Turn() as other:
        assert one.take()
        assert other.take()
        assert not one.beside()
