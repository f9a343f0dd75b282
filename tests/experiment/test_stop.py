"""Stopping a real `nfslab run`: Ctrl-C, a second one, a workload that does not listen.

The runner is a process of its own. A test waits for what it needs to see (a run sealed, a
phase reached) and not for a time to pass.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nfslab.errors import Interrupted, RunFailed
from nfslab.experiment.stop import Stop

from tests.experiment.fakes import give_passes
from tests.experiment.session_support import (
    left_behind,
    left_running,
    only_folder,
    records,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Write = Callable[..., Path]

LAUNCHER = Path(__file__).with_name("launcher.py")
DEADLINE_S = 240.0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `nfslab ...` with the fakes registered; killed at the end if it still lives."""
    started: list[subprocess.Popen[str]] = []

    def launch(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(LAUNCHER), *words],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"NFSLAB_STATE": str(tmp_path / "state")},
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something to be seen; fails when the process ends or takes for ever."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if process.poll() is not None:
            pytest.fail(f"it ended early: {process.communicate()}")
        assert time.monotonic() < deadline, "nothing came for too long"
        time.sleep(0.005)


def phase_reached(tmp_path: Path, sealed: int) -> Callable[[], bool]:
    """A run is under way (its place has data in it) and so many are sealed."""

    def reached() -> bool:
        runs = list(tmp_path.glob("results/*/runs/b*"))
        return len(runs) >= sealed and bool(list(tmp_path.glob("places/*/data.dat")))

    return reached


def with_passes(write: Write, tmp_path: Path, more: str = "") -> tuple[Path, Path]:
    """An experiment whose first run is measured, and whose second one waits for a pass."""
    passes = tmp_path / "passes"
    give_passes(passes, 1)
    return write(('data = "one"', f'data = "one"\npasses = "{passes}"\n{more}')), passes


@pytest.mark.parametrize(
    ("number", "name"),
    [(signal.SIGINT, "Ctrl-C"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")],
)
def test_a_request_to_stop_keeps_what_is_finished(
    start: Callable[..., subprocess.Popen[str]],
    experiment_file: Write,
    tmp_path: Path,
    number: signal.Signals,
    name: str,
) -> None:
    path, passes = with_passes(experiment_file, tmp_path, "child = true")
    # Tests may run under nohup, and what is ignored at the start stays so.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        process = start("run", str(path))
    finally:
        signal.signal(number, before)
    wait_until(phase_reached(tmp_path, 1), process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert f"stopped by {name}; " in errors
    assert len(records(only_folder(path))) == 1
    assert "1 of 18 runs " in errors
    assert "nfslab run" in errors
    assert "Traceback" not in errors
    assert left_behind(tmp_path) == []
    assert left_running(tmp_path / "state") == []
    if number != signal.SIGINT:
        return
    give_passes(passes, 18)
    again = start("run", str(path), "--repetitions", "1")
    output, _ = again.communicate(timeout=DEADLINE_S)
    assert again.returncode == 0, output
    assert len({(r.point_id, r.block) for r in records(only_folder(path))}) == 6


def test_a_second_request_does_not_disturb_the_first(
    start: Callable[..., subprocess.Popen[str]], experiment_file: Write, tmp_path: Path
) -> None:
    path = experiment_file(('data = "one"', 'data = "one"\nfail = "hang"\nchild = true'))
    process = start("run", str(path))
    wait_until(phase_reached(tmp_path, 0), process)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "0 of 18 runs " in errors
    assert left_behind(tmp_path) == []
    assert left_running(tmp_path / "state") == []


def test_a_workload_that_does_not_listen_is_interrupted(
    start: Callable[..., subprocess.Popen[str]], experiment_file: Write, tmp_path: Path
) -> None:
    path = experiment_file(('data = "one"', 'data = "one"\nfail = "block"\nchild = true'))
    process = start("run", str(path))
    wait_until(phase_reached(tmp_path, 0), process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=DEADLINE_S)  # it sleeps for an hour
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert left_behind(tmp_path) == []


def test_a_signal_that_was_ignored_stays_ignored(
    start: Callable[..., subprocess.Popen[str]], experiment_file: Write, tmp_path: Path
) -> None:
    """As under nohup: a hang-up does not end the experiment."""
    path, passes = with_passes(experiment_file, tmp_path)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = start("run", str(path), "--repetitions", "1")
    finally:
        signal.signal(signal.SIGHUP, before)
    wait_until(phase_reached(tmp_path, 1), process)
    process.send_signal(signal.SIGHUP)
    give_passes(passes, 18)
    process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0


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


def test_nothing_is_interrupted_outside_of_the_block() -> None:
    """After the deadline, teardown goes on undisturbed as long as it takes."""
    with Stop() as stop, stop.deadline(-10, lambda: RunFailed("late")):
        with pytest.raises(RunFailed, match="late"), stop.interruptible():
            time.sleep(DEADLINE_S)
        stop.shield()
        signal.raise_signal(signal.SIGURG)  # what the watcher sends
        assert sum(range(1000)) == 499500


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGURG)]
    with Stop():
        assert signal.getsignal(signal.SIGTERM) != before[1]
    after = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGURG)]
    assert after == before
