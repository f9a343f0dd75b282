"""The three lanes of tests, and what a unit test may not do.

unit    (no mark) no child process, no sleep, no socket but pairs in memory, no real clock
system  (`pytest.mark.system`) one at a time, alone: counts, contents, facts; no upper bound on time
long    (`pytest.mark.long`) what takes minutes; CI alone

A unit test that breaks its lane fails, wherever in the product or in a library it happens: Python's
audit events (PEP 578) say so. The product's clock is a simulated one in it (`nfslab.clock`). What
the Rust core does is not seen by audit events, so its doors to sockets, children and time are shut.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final
from unittest import mock

import pytest
from nfslab import _core, clock

from tests.simulated_clock import SimulatedClock

REFUSED: Final = {
    "subprocess.Popen": "starts a child process",
    "os.fork": "starts a child process",
    "os.forkpty": "starts a child process",
    "os.posix_spawn": "starts a child process",
    "os.system": "starts a child process",
    "socket.bind": "opens a socket",
    "socket.connect": "opens a socket",
}
CORE_DOORS: Final = (
    "KernelCalls",
    "Load",
    "Mount",
    "Server",
    "SyscallWatch",
    "SystemSampler",
    "WaitSampler",
    "WaitWatch",
    "WebServer",
    "run_files",
    "run_web_load",
    "run_web_part",
    "tcp_connections",
)
"""Names of `_core` that listen, connect, start children or read a clock."""


class _Watch:
    """What the unit test that runs now has done against its lane."""

    def __init__(self) -> None:
        self.on = False
        self.broken: list[str] = []

    def heard(self, event: str, args: tuple[object, ...]) -> None:
        if self.on and event in REFUSED:
            self.refuse(f"{REFUSED[event]} ({event} {str(args[:2])[:200]})")

    def refuse(self, what: str) -> None:
        self.broken.append(what)
        pytest.fail(f"a unit test {what}: mark it `system`, or give it a seam (tests/lanes.py)")


_watch = _Watch()
sys.addaudithook(_watch.heard)


def lane_of(item: pytest.Item) -> str:
    """Returns the lane of a test: unit, system or long."""
    for lane in ("long", "guest", "system"):
        if item.get_closest_marker(lane):
            return "long" if lane == "guest" else lane
    return "unit"


@contextmanager
def unit_lane(module: object) -> Iterator[SimulatedClock]:
    """Watches one unit test, which has a simulated clock; fails it if it breaks its lane."""
    simulated = SimulatedClock()
    with ExitStack() as stack:
        stack.enter_context(clock.replaced(simulated))
        # Has an audit event from Python 3.13 on.
        awake = mock.Mock(side_effect=lambda _: _watch.refuse("sleeps"))
        stack.enter_context(mock.patch.object(time, "sleep", awake))
        for name in CORE_DOORS:
            shut = mock.Mock(side_effect=lambda *_, name=name, **__: _watch.refuse(f"calls {name}"))
            stack.enter_context(mock.patch.object(_core, name, shut))
        _watch.broken.clear()
        _watch.on = True
        try:
            if getattr(module, "time", None) is sys.modules["time"]:
                _watch.refuse("imports `time`")
            yield simulated
        finally:
            _watch.on = False
    assert _watch.broken == [], "a unit test broke its lane, and went on"
