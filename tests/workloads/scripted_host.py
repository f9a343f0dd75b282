"""A host whose programs a test plays: what they print, how long they run, how they end.

Time is the product's clock's, which a unit test simulates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.hosts.local import LocalHost
from nfslab.machine.started import Process


@dataclass
class Played:
    """One program's run."""

    out: str = ""
    err: str = ""
    code: int = 0
    runs_s: float = 0.0
    cpu_s: tuple[float, float] = (0.25, 0.125)
    each: Callable[[], object] = field(default=lambda: None)
    """Called at every look at it."""


class ScriptedProcess:
    """What `Host.spawn` returns, without a process."""

    pid = 2**22 + 1
    """Nobody has it (proc(5): pid_max)."""

    def __init__(self, argv: Sequence[str], played: Played) -> None:
        self.argv, self.played = list(argv), played
        self.started_monotonic_ns = clock.monotonic_ns()
        self.stopped = False

    def _left_s(self) -> float:
        ended_ns = self.started_monotonic_ns + self.played.runs_s * 1e9
        return max(0.0, (ended_ns - clock.monotonic_ns()) / 1e9)

    def poll(self) -> int | None:
        self.played.each()
        return self.played.code if self.stopped or not self._left_s() else None

    def wait(self, timeout_s: float | None = None) -> int:
        if not self.ended_within(timeout_s):
            raise RunFailed("it still runs")
        return self.played.code

    def ended_within(self, timeout_s: float | None) -> bool:
        left_s = self._left_s()
        clock.sleep(left_s if timeout_s is None else min(left_s, timeout_s))
        return self.poll() is not None

    def stop(self, signal: int | None = None, grace_s: float = 5.0) -> int:
        self.stopped = True
        return self.played.code

    def cpu_s(self) -> tuple[float, float]:
        return self.played.cpu_s


class ScriptedHost(LocalHost):
    """This machine, with programs that are played."""

    def __init__(self, play: Callable[[list[str]], Played]) -> None:
        super().__init__()
        self._play = play
        self.started: list[ScriptedProcess] = []
        self.options: list[dict[str, Any]] = []

    def spawn(self, argv: Sequence[str], **options: Any) -> Process:
        played = self._play(list(argv))
        for name, text in (("log", played.err), ("stdout", played.out)):
            if (path := options.get(name)) is not None:
                Path(path).write_text(text, "utf-8")
        self.started.append(ScriptedProcess(argv, played))
        self.options.append(options)
        return self.started[-1]  # type: ignore[return-value]
