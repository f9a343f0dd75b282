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

from tests.machine import needs

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
def own_turn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    name = f"nfslab-test-{uuid.uuid4()}"
    monkeypatch.setenv("NFSLAB_TURN", name)
    yield
    folder = Turn()._folder
    for left in [] if folder is None else folder.glob(f"{name}*"):
        left.unlink()


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
            assert not turn.beside()
        with another("beside") as guest:
            guest.kill()
            guest.wait()
        assert turn.beside(), "it came and went since the last look"
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


OTHERS = """
import fcntl, os, sys
os.setuid(65534)
own, mine = sys.argv[1:]
try:
    os.open(own, os.O_RDONLY)
except PermissionError:
    print("refused", flush=True)
taken = os.open(mine, os.O_RDWR | os.O_CREAT, 0o666)
fcntl.flock(taken, fcntl.LOCK_EX)
print("ready", flush=True)
sys.stdin.read()
"""


@needs.root
@pytest.mark.system
def test_another_user_is_seen_and_takes_nobodys_turn() -> None:
    with Turn() as turn, Turn() as second:
        assert turn.take()
        own = turn._own()
        argv = [sys.executable, "-S", "-c", OTHERS, own, f"{own}9"]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdout is not None
            told = [process.stdout.readline(), process.stdout.readline()]
            assert told == ["refused\n", "ready\n"], "nobody else can open what locks us"
            assert turn.beside()
            turn.__exit__(None, None, None)
            holder = second.holder()
            assert holder is not None
            assert (holder.pid, holder.uid, holder.is_ours) == (process.pid, 65534, False)
            assert not second.take()
            process.kill()
        assert second.take()
        Path(f"{own}9").unlink()


@needs.root
@pytest.mark.system
def test_a_name_that_somebody_took_first_keeps_nobody_waiting() -> None:
    with Turn() as turn, Turn() as second:
        own = Path(turn._own())
        own.write_text("mine")
        os.chown(own, 65534, 65534)
        own.chmod(0o666)
        assert turn.take()
        assert not second.take()
        own.unlink()


def test_nobody_is_asked_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NFSLAB_TURN", "")
    with Turn() as one, Turn() as other:
        assert one.take()
        assert other.take()
        assert not one.beside()
