"""Stopping in good order: Ctrl-C, a second one, a workload that does not listen.

The runner is this process, and signals come at a place that a test chooses; once it is a process of
its own.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nfslab.errors import Interrupted, RunFailed
from nfslab.experiment.stop import GRACE_S, Stop

from tests.experiment.fakes import EVENTS, FormulaWorkload
from tests.experiment.session_support import (
    left_behind,
    only_folder,
    records,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.workloads.base import Outcome, RunContext

    from tests.simulated_clock import SimulatedClock

    Write = Callable[..., Path]


@pytest.fixture
def in_second_run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Lets something happen while the second run is measured, which then looks."""

    def arrange(happens: Callable[[], None]) -> None:
        measure = FormulaWorkload.measure

        def measured(self: FormulaWorkload, context: RunContext) -> Outcome:
            if EVENTS.count("prepare") == 2:
                happens()
                context.remaining_s()
            return measure(self, context)

        monkeypatch.setattr(FormulaWorkload, "measure", measured)

    return arrange


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")],
)
def test_a_request_to_stop_keeps_what_is_finished(
    in_second_run: Callable[[Callable[[], None]], None],
    experiment_file: Write,
    tmp_path: Path,
    number: signal.Signals,
    name: str,
) -> None:
    # Tests may run under nohup, and what is ignored at the start stays so.
    before = signal.signal(number, signal.SIG_DFL)
    path = experiment_file()
    in_second_run(lambda: signal.raise_signal(number))
    try:
        with pytest.raises(Interrupted, match=f"stopped by {name}; 1 of 18 runs") as stopped:
            run(path)
    finally:
        signal.signal(number, before)
    assert "nfslab run" in stopped.value.fix
    assert len(records(only_folder(path))) == 1
    assert EVENTS[-2] == "finish"
    assert EVENTS[-1].startswith("down ")
    assert left_behind(tmp_path) == []


def test_further_requests_do_not_disturb_the_first_until_the_third(
    in_second_run: Callable[[Callable[[], None]], None],
    experiment_file: Write,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The third one leaves at once."""
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    finish = FormulaWorkload.finish

    def finished(self: FormulaWorkload, context: RunContext) -> None:
        if EVENTS.count("prepare") == 2:
            signal.raise_signal(signal.SIGTERM)
            assert left == []
            signal.raise_signal(signal.SIGINT)
        finish(self, context)

    monkeypatch.setattr(FormulaWorkload, "finish", finished)
    in_second_run(lambda: signal.raise_signal(signal.SIGINT))
    path = experiment_file()
    with pytest.raises(Interrupted, match="stopped by Ctrl-C; 1 of 18 runs"):
        run(path)
    assert left == [130]
    assert left_behind(tmp_path) == []


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    """As under nohup: a hang-up does not end the experiment."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            signal.raise_signal(signal.SIGHUP)
            stop.check()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_deadlines_raise_their_own_error_and_end_with_their_block() -> None:
    stop = Stop()
    with (
        stop.deadline(3600, lambda: RunFailed("the outer one")),
        stop.deadline(-1, lambda: RunFailed("the inner one")),
        pytest.raises(RunFailed, match="the inner one"),
    ):
        stop.check()
    # The first deadline counts, whichever was set last.
    with (
        stop.deadline(-1, lambda: RunFailed("the outer one")),
        stop.deadline(3600, lambda: RunFailed("the inner one")),
        pytest.raises(RunFailed, match="the outer one"),
    ):
        stop.remaining_s()
    assert stop.remaining_s() > 1e6


def test_a_request_comes_before_any_deadline() -> None:
    stop = Stop()
    stop.request("a test")
    with (
        stop.deadline(-1, lambda: RunFailed("late")),
        pytest.raises(Interrupted, match="stopped by a test"),
    ):
        stop.check()


def deaf() -> None:
    """Code that never looks whether it should stop."""
    while True:
        os.sched_yield()


def test_code_that_does_not_look_is_interrupted_after_its_grace(
    simulated_clock: SimulatedClock,
) -> None:
    def asked() -> None:
        stop.request("a test")
        simulated_clock.advance(GRACE_S + 1)
        stop._changes.put(True)  # the watcher looks at the clock again
        deaf()

    with (
        Stop() as stop,
        pytest.raises(Interrupted, match="stopped by a test"),
        stop.interruptible(),
    ):
        asked()


def test_code_that_does_not_look_is_interrupted_after_its_deadline() -> None:
    with (
        Stop() as stop,
        stop.deadline(-GRACE_S - 1, lambda: RunFailed("late")),
        pytest.raises(RunFailed, match="late"),
        stop.interruptible(),
    ):
        deaf()


def test_nothing_is_interrupted_within_its_grace_nor_outside_of_the_block() -> None:
    """Teardown goes on undisturbed as long as it takes."""
    wake = signal.SIGURG  # what the watcher sends
    with Stop() as stop, stop.deadline(1 - GRACE_S, lambda: RunFailed("late")):
        with stop.interruptible():
            signal.raise_signal(wake)
        signal.raise_signal(wake)
    with Stop() as stop, stop.deadline(-GRACE_S - 1, lambda: RunFailed("late")):
        signal.raise_signal(wake)
        stop.shield()
        signal.raise_signal(wake)


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGURG)]
    with Stop():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    after = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGURG)]
    assert after == before
