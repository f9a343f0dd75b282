"""Generator processes that die, cannot start, are stopped, or lose their parent."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from nfslab.errors import Interrupted, RunFailed
from nfslab.machine.children import Child
from nfslab.offered import processes
from nfslab.offered.mixes import read_mix
from nfslab.offered.plans import Load, Mounted, Point
from nfslab.offered.processes import measured

from tests.cli.serving import refusing, serving
from tests.stopping import stop
from tests.waiting import NO_LIMIT_S

START_S = 3.0
"""A process that hears of the start when it is over takes no part: this long it may not run."""


@pytest.fixture(autouse=True)
def _start_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "START_S", START_S)


@contextmanager
def plan(measure_s: float = 0.5, **changed: Any) -> Iterator[dict[str, Any]]:
    """A plan for a server of its own."""
    with serving("--memory") as served:
        yield plan_for(served.port, measure_s) | changed


def plan_for(port: int, measure_s: float = 0.5) -> dict[str, Any]:
    mount = [Mounted("127.0.0.1:/export", f"port={port},mountport={port}")]
    return Point(mount, read_mix("laddis"), Load(400), 0.05, measure_s, files=300).plan()


class Watching:
    """A progress that does something once, when the load runs."""

    stops_second = False
    """The second process stands still before the start: it cannot have ended when we come to it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.children: list[Child] = []
        self.acted = False
        connect = processes.Generators.connect

        def connected(generators: processes.Generators) -> None:
            self.children = generators.group.children
            connect(generators)
            if self.stops_second:
                stop(self.children[1].process.pid)

        monkeypatch.setattr(processes.Generators, "connect", connected)

    def __call__(self, state: dict[str, Any]) -> None:
        if state["stage"] == "run" and not self.acted:
            self.acted = True
            self.act()

    def act(self) -> None:
        return

    def assert_none_is_left(self) -> None:
        assert self.children
        for child in self.children:
            assert child.process.returncode is not None
            with pytest.raises(ProcessLookupError):
                os.kill(child.process.pid, 0)


@pytest.mark.long
def test_a_process_that_is_killed_makes_the_point_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Killing(Watching):
        stops_second = True

        def act(self) -> None:
            self.children[1].process.send_signal(signal.SIGKILL)

    killing = Killing(monkeypatch)
    with plan() as asked:
        report, load = measured(asked, 2, killing)
    assert not report["valid"]
    first = report["reasons"][0]
    assert first["kind"] == "generator_process"
    assert re.search("process 2 of 2 .*SIGKILL", first["text"])
    # What the other one measured stays: half of 400 a second for half a second, Poisson.
    assert report["arrivals"] == pytest.approx(100, abs=50)
    assert [one["process"] for one in report["processes"]] == [0]
    of_the_other = report["processes"][0]["answered"]
    assert report["answered"] == load.histograms()["all"].count == of_the_other
    killing.assert_none_is_left()


@pytest.mark.long
def test_a_process_that_hangs_is_ended_and_makes_the_point_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As long the other one may need to hand over its sums.
    monkeypatch.setattr(processes, "OVERTIME_S", 10.0)
    stopping = Watching(monkeypatch)
    stopping.stops_second = True
    with plan(silence_limit_s=1.0) as asked:
        report, _ = measured(asked, 2, stopping)
    assert not report["valid"]
    first = report["reasons"][0]["text"]
    # The load, silence and overtime, from a start that may be near.
    assert int(re.findall(r"process 2 of 2 .* within (\d+) s", first)[0]) >= 11
    stopping.assert_none_is_left()


@pytest.mark.system
@pytest.mark.parametrize(
    ("program", "what", "why"),
    [
        ("/bin/false", "generator process 1 of 2 ended before its time", "exit code 1"),
        ("/no/such/program", "generator process 1 of 2 cannot be started", "No such file"),
    ],
)
def test_a_process_that_cannot_begin_fails_the_point(
    program: str, what: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with plan() as asked:
        monkeypatch.setattr(sys, "executable", program)
        with pytest.raises(RunFailed) as failed:
            measured(asked, 2, lambda _: True)
    assert failed.value.what == what
    assert why in failed.value.why


@pytest.mark.system
def test_what_the_core_refuses_is_said_as_it_is() -> None:
    with refusing() as port, pytest.raises(RunFailed) as failed:
        measured(plan_for(port), 2, lambda _: True)
    said = "generator process 1 of 2: 127.0.0.1:/export cannot be mounted"
    assert failed.value.what == said


@pytest.mark.system
def test_a_point_that_is_given_up_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    class GivingUp(Watching):
        def act(self) -> None:
            raise Interrupted("asked to stop")

    giving_up = GivingUp(monkeypatch)
    with plan(measure_s=3600.0) as asked, pytest.raises(Interrupted):
        measured(asked, 2, giving_up)
    giving_up.assert_none_is_left()


@pytest.mark.long
def test_a_process_whose_parent_is_gone_ends() -> None:
    def until(stage: str) -> None:
        assert any(f'"{stage}"' in line for line in told), f"it ended before {stage!r}"

    with plan(measure_s=3600.0) as asked:
        plan_of_one = asked | {"part": {"index": 0, "of": 2}}
        text = json.dumps({"do": "plan", "plan": plan_of_one})
        with subprocess.Popen(
            [sys.executable, "-m", "nfslab.offered.part"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as part:
            assert part.stdin is not None
            assert part.stdout is not None
            told = iter(part.stdout)
            part.stdin.write(f'{text}\n{{"do": "prepare"}}\n')
            part.stdin.flush()
            until("prepared")
            part.stdin.write('{"do": "connect"}\n')
            part.stdin.flush()
            until("connected")
            # A busy machine has this long to let it hear that; while it waits it tells so.
            start = {"do": "start", "at_ns": time.monotonic_ns() + NO_LIMIT_S * 1_000_000_000}
            part.stdin.write(json.dumps(start) + "\n")
            part.stdin.flush()
            until("run")
            part.stdin.close()
            # An hour of load was asked for.
            for _ in told:
                pass
            assert part.wait(NO_LIMIT_S) in (0, 3)
