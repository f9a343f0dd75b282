"""io_uring and Linux's aio of programs that are known to have one: found, named, in the notes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from nfslab.evidence.syscalls import unseen_io as unseen_io
from nfslab.evidence.syscalls.unseen_io import AIO, IO_URING, UnseenIo, Whose, unseen_ways
from nfslab.evidence.syscalls.watch import SyscallWatch
from nfslab.evidence.syscalls.ways import Asked, Choice, Subject, shim_missing
from nfslab.machine.processes import all_statuses

PROGRAM = """
import ctypes, mmap, os, sys
IO_SETUP, IO_URING_SETUP = 206, 425      # x86-64
libc = ctypes.CDLL(None, use_errno=True)
def call(*arguments):
    answer = libc.syscall(*arguments)
    if answer < 0:
        print("refused:", os.strerror(ctypes.get_errno()), flush=True)
        sys.exit()
    return answer
what = sys.argv[1]
if what == "below" and os.fork():
    os.wait()
    sys.exit()
if what == "aio":
    call(IO_SETUP, 8, ctypes.byref(ctypes.c_ulong(0)))
elif what != "nothing":
    ring = call(IO_URING_SETUP, 8, ctypes.create_string_buffer(120))
if what == "mapped":
    kept = mmap.mmap(ring, 4096)
    os.close(ring)
print("there", os.getpid(), flush=True)
sys.stdin.readline()
"""
HOLDS = {"ring": {IO_URING}, "mapped": {IO_URING}, "aio": {AIO}, "nothing": set(), "below": set()}


def argv(what: str) -> list[str]:
    return [sys.executable, "-S", "-c", PROGRAM, what]


class Planted:
    """A program that holds it, or has a child that does, until it is told to go."""

    def __init__(self, command: list[str], **environment: str) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )  # fmt: skip
        self.pid = self.process.pid
        self.holder = 0

    def await_it(self) -> None:
        assert self.process.stdout is not None
        word, number = self.process.stdout.readline().split(None, 1)
        if word != "there":
            pytest.skip(f"this kernel does not grant it: {number.strip()}")
        self.holder = int(number)


@contextmanager
def planted(command: list[str], **environment: str) -> Iterator[Planted]:
    one = Planted(command, **environment)
    try:
        yield one
    finally:
        one.process.communicate("\n")


@pytest.mark.system
@pytest.mark.parametrize("what", ["ring", "mapped", "aio", "nothing"])
def test_what_a_process_holds(what: str) -> None:
    with planted(argv(what)) as one:
        one.await_it()
        assert unseen_ways(one.pid) == HOLDS[what]
    assert unseen_ways(one.pid) == set(), "it has gone"


@pytest.mark.system
def test_a_child_is_found_below_its_parent_and_a_launch_by_its_mark() -> None:
    with planted(argv("below"), MARKED="of-this-launch") as one, planted(argv("aio")) as beside:
        one.await_it()
        beside.await_it()
        found = UnseenIo()
        found.begin(Whose([one.pid]))
        found.look()
        marked = Whose(mark="of-this-launch").found(all_statuses())
    name = Path(sys.executable).name[:15]  # as the kernel cuts it
    (note,) = found.notes
    assert note.startswith(f"not all is here: {name} ({one.holder}) holds io_uring, and")
    assert set(marked) == {one.pid, one.holder}


def test_many_are_counted_and_the_first_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unseen_io, "unseen_ways", lambda _: {IO_URING})
    monkeypatch.setattr(Whose, "found", lambda *_: range(900_000_001, 900_000_006))
    found = UnseenIo()
    found.begin(Whose([1]))
    (note,) = found.notes
    assert note.startswith(
        "not all is here: a process (900000001), a process (900000002), a process (900000003) "
        "and 2 more processes hold io_uring, and"
    )


def test_looks_lie_further_and_further_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    now = 1000.0
    monkeypatch.setattr(unseen_io.clock, "monotonic", lambda: now)
    monkeypatch.setattr(UnseenIo, "look", lambda _: looks.append(now))
    found = UnseenIo()
    found.begin(Whose([1]))
    for tenth in range(36_001):
        now = 1000.0 + tenth / 10
        found.turn()
    apart = [later - before for before, later in pairwise(looks)]
    assert [round(one, 1) for one in apart[:4]] == [0.2, 0.4, 0.8, 1.6]
    assert max(apart) <= 60.2
    assert len(looks) < 75, "an hour"


@pytest.mark.system
@pytest.mark.parametrize("what", ["below", "nothing"])
def test_the_notes_of_a_watched_launch_say_it(what: str) -> None:
    command = argv(what)
    asked, subject = Asked("counts"), Subject(argv=command)
    if reason := shim_missing():
        pytest.skip(reason)
    watch = SyscallWatch(Choice("shim"), asked, subject)
    wrapped, added = watch.wrap(command)
    with planted(wrapped, **added) as one:
        watch.launched(lambda: one.process.poll() is not None)
        one.await_it()
        notes = watch.end().notes
    told = [note for note in notes if "not all is here" in note.lower()]
    if what == "nothing":
        assert told == []
        return
    (note,) = told
    assert f"({one.holder}) holds io_uring" in note
