"""A program that was killed is told by its signal, never by what it said before."""

from __future__ import annotations

import signal

import pytest
from nfslab.machine.endings import failed
from nfslab.machine.own_command import failure_said

SAID = "setting random seed to 5"


@pytest.mark.parametrize(
    ("number", "sender"),
    [
        (signal.SIGKILL, "memory is short"),
        (signal.SIGTERM, "a shutdown"),
        (signal.SIGXCPU, "ulimit -t"),
        (signal.SIGSEGV, "a defect"),
        (signal.SIGHUP, "a terminal"),
        (63, "a person"),
    ],
)
def test_who_may_have_sent_it_is_the_reason(number: int, sender: str) -> None:
    name = number.name if isinstance(number, signal.Signals) else "signal"
    for error in (failed("it", -number, SAID, "see its log"), failure_said("it", -number, SAID)):
        assert error.what.startswith(f"it was ended by {name}")
        assert sender in error.why
        assert SAID not in str(error)


def test_what_failed_by_itself_says_why() -> None:
    assert failed("it", 3, SAID, "see its log").lines() == [
        "it failed with exit code 3", f"  why: {SAID}", "  fix: see its log",
    ]  # fmt: skip
