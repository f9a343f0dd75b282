"""What serves the documents, as the workload sees it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfslab.databases.shared.last_words import log_tail, told
from nfslab.machine.availability import Availability
from nfslab.machine.endings import failed
from nfslab.machine.processes import CLOCK_TICKS_PER_S, all_statuses

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.hosts.base import Link
    from nfslab.machine.processes import Status
    from nfslab.machine.started import Process
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.web.parameters import WebParameters


@dataclass(frozen=True, slots=True)
class Served:
    """Where what is served lies."""

    root: Path
    """Of the documents."""
    post_log: Path
    access_log: Path


def let_in(link: Link) -> tuple[str, ...]:
    """Addresses that may connect: the clients'; on this machine alone anybody's of it."""
    return () if link.is_loopback else link.addresses


class WebServing(ABC):
    """A web server of one run."""

    address: str = ""
    """IP:port, once it has started."""
    host: str | None = None
    """The name that it has to be asked for in `Host`, where only the run may ask."""
    records_posts: bool = True
    """Whether its log of POSTs is ours to read."""
    processes: Sequence[Process] = ()
    log: Path | None = None
    """What it says, once it has started."""

    def __init__(self, parameters: WebParameters) -> None:
        self.parameters = parameters

    @classmethod
    def available(cls) -> Availability:
        """Is it installed?"""
        return Availability(True)

    @abstractmethod
    def start(self, context: RunContext, served: Served) -> None:
        """It answers when this returns; RunFailed."""

    @abstractmethod
    def stop(self) -> dict[str, Any]:
        """End it; what the application counted. Harmless when it was never started."""

    def require_up(self, within_s: float) -> None:
        """RunFailed where one of its processes is gone, or goes so soon."""
        for process in self.processes:
            if process.ended_within(within_s):
                words = told(log_tail(self.log)) if self.log else ""
                name = "in the middle of the run the web server"
                raise failed(name, process.wait(), words, "see its logs in the run's logs")

    def cpu_s(self) -> float | None:
        """CPU seconds of all its processes so far, in clock ticks; None: not known."""
        if not self.processes:
            return None
        ticks = sum(
            one.user_ticks + one.system_ticks + one.waited_user_ticks + one.waited_system_ticks
            for one in self._statuses()
        )
        return ticks / CLOCK_TICKS_PER_S

    def pids(self) -> list[int]:
        """Of all of them, the server itself at the front."""
        leaders = [process.pid for process in self.processes]
        others = {one.identity.pid for one in self._statuses()} - set(leaders)
        return [*leaders, *sorted(others)]

    def _statuses(self) -> list[Status]:
        groups = {process.pid for process in self.processes}
        return [one for one in all_statuses() if one.group in groups]
