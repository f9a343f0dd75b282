"""A thread that takes records: turns until the end, what ends it early, what it cost."""

from __future__ import annotations

import threading
import time

import pytest
from nfslab._core import CoreError, StraceReader
from nfslab.machine import drain_thread
from nfslab.machine.drain_thread import DrainThread

PATIENCE_S = 120


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_thread, "DRAIN_S", 0.001)


def test_turns_follow_until_the_end_and_none_after_it() -> None:
    enough, turns = threading.Event(), []

    def take() -> None:
        turns.append(time.thread_time())
        if len(turns) == 3:
            enough.set()

    thread = DrainThread(take, "turns")
    thread.begin()
    assert enough.wait(PATIENCE_S)
    thread.end()
    made = len(turns)
    assert not [one for one in threading.enumerate() if one.name == "turns"]
    assert len(turns) == made >= 3
    assert thread.cpu_s >= turns[-1] - turns[0] > 0
    assert thread.problem == ""
    thread.end()


def test_a_source_that_has_gone_ends_the_turns_with_its_words() -> None:
    turns = []

    def take() -> None:
        turns.append(1)
        StraceReader("no such level")

    thread = DrainThread(take, "gone")
    thread.begin()
    over = time.monotonic() + PATIENCE_S
    while not thread.problem:
        assert time.monotonic() < over
    thread.end()
    assert len(turns) == 1
    with pytest.raises(CoreError) as caught:
        StraceReader("no such level")
    assert thread.problem == str(caught.value)


def test_one_that_was_never_begun_can_be_ended() -> None:
    thread = DrainThread(lambda: None, "never")
    thread.end()
    assert thread.cpu_s == 0
