"""Captures from a pipe: Ctrl-C ends what fills it, and what came is read to the end."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from nfslab.captures import analysis
from nfslab.errors import Terminated


class Reading:
    """A trace that ends after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def progress(self) -> dict[str, Any]:
        self.looks -= 1
        return {"finished": self.looks < 0, "frames": 0}


def interrupting(
    monkeypatch: pytest.MonkeyPatch, times: int, what: type[BaseException] = KeyboardInterrupt
) -> None:
    left = [times]

    def sleep(_seconds: float) -> None:
        if left[0]:
            left[0] -= 1
            raise what

    monkeypatch.setattr(analysis.clock, "sleep", sleep)


def test_the_first_interrupt_waits_for_the_end_of_the_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupting(monkeypatch, 1)
    reading: Any = Reading(5)
    analysis.wait_for(reading, piped=True)
    assert reading.looks < 0


def test_a_second_one_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(monkeypatch, 2)
    reading: Any = Reading(5)
    with pytest.raises(KeyboardInterrupt):
        analysis.wait_for(reading, piped=True)


def test_a_pipe_that_stays_open_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(monkeypatch, 1)
    seconds = itertools.count()
    monkeypatch.setattr(analysis.clock, "monotonic", lambda: float(next(seconds)))
    reading: Any = Reading(1000)
    with pytest.raises(KeyboardInterrupt):
        analysis.wait_for(reading, piped=True)
    assert reading.looks > 900


def test_sigterm_ends_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(monkeypatch, 1, Terminated)
    reading: Any = Reading(5)
    with pytest.raises(Terminated):
        analysis.wait_for(reading, piped=True)


def test_a_file_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupting(monkeypatch, 1)
    reading: Any = Reading(5)
    with pytest.raises(KeyboardInterrupt):
        analysis.wait_for(reading)
