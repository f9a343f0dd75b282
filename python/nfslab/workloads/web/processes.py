"""Processes of this workload, from the side of who starts them.

begin ──> until("ready") ──> ... ──> end          (the embedded server)
begin ──> until("done")                           (documents)
begin ──> until_all("ready") ──> tell("go") ──> until_all("done")      (the processes of a load)
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.shared.last_words import log_tail, told
from nfslab.errors import RunFailed
from nfslab.machine.agent import error_of, order
from nfslab.machine.endings import failed
from nfslab.machine.own_command import importing_us
from nfslab.machine.said import lines_said
from nfslab.machine.users import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.hosts.base import Host
    from nfslab.machine.started import Process
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.workloads.base import RunContext

POLL_S: Final = 0.02
TELL_LIMIT_S: Final = 10.0
DYING_S: Final = 3.0
"""One that listens no more may be about to end."""
END_LIMIT_S: Final = 30.0
"""How long a server may take to write its logs out."""


@dataclass(slots=True)
class OurProcess:
    """One that was begun."""

    name: str
    process: Process
    said: Path
    log: Path
    about: str = ""
    """What the progress shown begins with."""
    _heard: int = field(default=0)

    def until(self, event: str, context: RunContext) -> dict[str, Any]:
        """Wait until it says so, and show its progress meanwhile; RunFailed in its own words.

        Nothing is left of a process that did not say it.
        """
        return until_all([self], event, context)[0]

    def look(
        self, event: str, wait_s: float, say: Callable[[str], object]
    ) -> dict[str, Any] | None:
        """What it says of this within so long, if it does; RunFailed."""
        over = self.process.ended_within(wait_s)
        lines = lines_said(self.said)
        new, self._heard = lines[self._heard :], len(lines)
        for line in new:
            if line.get("event") == event:
                return line
            if line.get("event") == "error":
                raise error_of(line)
            if line.get("event") == "progress":
                say(self.about + progress_words(line["state"]))
        if over:
            raise self._ended()
        return None

    def _ended(self) -> RunFailed:
        return failed(
            f"the process of the web workload ({self.name})", self.process.wait(),
            told(log_tail(self.log)), f"run it by hand: {' '.join(self.process.argv)}",
        )  # fmt: skip

    def tell(self, name: str, **content: Any) -> None:
        """An order; RunFailed where it does not listen, with its end if it has ended."""
        try:
            self.process.tell(order(name, **content), TELL_LIMIT_S)
        except RunFailed:
            if self.process.ended_within(DYING_S):
                raise self._ended() from None
            raise

    def end(self) -> dict[str, Any]:
        """Ask it to end; what it counted, as far as it could say so."""
        self.process.stop(grace_s=END_LIMIT_S)
        ends = [line for line in lines_said(self.said) if line.get("event") == "ended"]
        counters: dict[str, Any] = ends[-1]["counters"] if ends else {}
        return counters


def until_all(
    processes: Sequence[OurProcess], event: str, context: RunContext
) -> list[dict[str, Any]]:
    """Wait until each says so, and show the progress of the first one; RunFailed.

    None is left where one did not say it.
    """
    said: dict[int, dict[str, Any]] = {}
    try:
        while len(said) < len(processes):
            for index, one in enumerate(processes):
                if index in said:
                    continue
                say = context.say if index == 0 else _unheard
                line = one.look(event, POLL_S / (len(processes) - len(said)), say)
                if line is not None:
                    said[index] = line
            context.remaining_s()
    except BaseException:
        for one in processes:
            one.process.stop()
        raise
    return [said[index] for index in range(len(processes))]


def _unheard(_words: str) -> None:
    """They are all as far as the first one."""


def begin(
    context: RunContext,
    host: Host,
    module: str,
    name: str,
    config: dict[str, Any],
    *,
    watcher: LaunchWatcher | None = None,
    about: str = "",
) -> OurProcess:
    """Start `module` of this folder; its configuration and words are logs/NAME.*."""
    file = context.logs / f"{name}.json"
    write_private(file, json.dumps(config, indent=1))
    said, log = file.with_suffix(".said"), file.with_suffix(".log")
    argv = [sys.executable, "-P", "-m", f"nfslab.workloads.web.{module}", str(file)]
    context.commands.append(argv)
    process = host.spawn(
        argv,
        resources=context.resources,
        stdout=said,
        log=log,
        env=importing_us(),
        cwd=Path("/"),
        stdin="pipe",
        watcher=watcher,
    )
    return OurProcess(name, process, said, log, about)


def progress_words(state: dict[str, Any]) -> str:
    """How far documents or a load are."""
    if state["stage"] == "files":
        return f"documents: {state['done']} of {state['directories']} directories"
    done_s, total_s = state["elapsed_ns"] / 1e9, state["total_ns"] / 1e9
    return f"{state['phase'].replace('_', ' ')}: {done_s:.0f} of {total_s:.0f} s"
