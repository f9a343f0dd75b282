"""A thread that takes records: turns until the end, what ends it early, what it cost."""

from __future__ import annotations

import threading

import pytest
from nfslab._core import CoreError, ShimRecords
from nfslab.machine.drain_thread import DRAIN_S, DrainThread

from tests.simulated_clock import LOOK_S, SimulatedClock


def test_turns_follow_until_the_end_and_none_after_it(simulated_clock: SimulatedClock) -> None:
    enough, turns = threading.Event(), []

    def take() -> None:
        turns.append(1)
        if len(turns) == 3:
            enough.set()

    thread = DrainThread(take, "turns")
    thread.begin()
    passed = 0
    while not enough.wait(LOOK_S):
        simulated_clock.advance(DRAIN_S)
        passed += 1
    thread.end()
    made = len(turns)
    assert not [one for one in threading.enumerate() if one.name == "turns"]
    assert 3 <= made <= passed + 1, "one for each interval, and one at the end"
    assert len(turns) == made
    assert thread.cpu_s > 0
    assert thread.problem == ""
    thread.end()


def test_a_source_that_has_gone_ends_the_turns_with_its_words(
    simulated_clock: SimulatedClock,
) -> None:
    gone, turns = threading.Event(), []

    def take() -> None:
        turns.append(1)
        gone.set()
        ShimRecords("/nowhere", "no such level")

    thread = DrainThread(take, "gone")
    thread.begin()
    while not gone.wait(LOOK_S):
        simulated_clock.advance(DRAIN_S)
    thread.end()
    assert len(turns) == 1
    with pytest.raises(CoreError) as caught:
        ShimRecords("/nowhere", "no such level")
    assert thread.problem == str(caught.value)


def test_one_that_was_never_begun_can_be_ended() -> None:
    thread = DrainThread(lambda: None, "never")
    thread.end()
    assert thread.cpu_s == 0
