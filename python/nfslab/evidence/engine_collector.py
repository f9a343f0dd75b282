"""What collectors have in common that ask a database server by a connection of their own."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Collector, Side, Watch
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.databases.shared.service import DatabaseService
    from nfslab.workloads.base import RunContext


class EngineWatch(Watch):
    """One run's watching: a connection, and what it costs."""

    _cpu_s: float = 0.0
    """Of our threads."""

    @abstractmethod
    def begin(self) -> None:
        """Watch in a thread from now on."""

    @abstractmethod
    def mark_start(self) -> None:
        """The timed part begins now (called by the workload): differences count from here."""

    def _counted(self, action: Callable[[], Any]) -> Any:
        """Do it, and add this thread's CPU time to the cost."""
        before_s = clock.thread_cpu()
        try:
            return action()
        finally:
            self._cpu_s += clock.thread_cpu() - before_s


class EngineCollector(Collector):
    """Watches the server of one engine."""

    side: ClassVar[Side] = "server"
    title: ClassVar[str]
    """The engine, as people write it."""
    driver: ClassVar[str]
    """Module of its driver (DB-API 2.0: it has `Error`)."""
    package: ClassVar[str]
    """What brings it, for pip."""

    @classmethod
    @abstractmethod
    def service(cls, context: RunContext) -> DatabaseService | None:
        """The run's server, where it is of this engine."""

    @abstractmethod
    def connected(self, context: RunContext) -> EngineWatch:
        """Connected to it, with first readings taken; the driver's errors."""

    @classmethod
    def available(cls) -> Availability:
        """Is the driver there?"""
        try:
            importlib.import_module(cls.driver)
        except ImportError as error:
            why = f"the driver of {cls.title} is missing: {error}"
            return Availability(False, why, f"pip install '{cls.package}'")
        return Availability(True)

    def applies(self, context: RunContext) -> Availability:
        """Does this run have such a server?"""
        if self.service(context) is None:
            return Availability(
                False,
                f"this workload runs no {self.title}",
                f"leave the collector {self.kind} out",
                moot=bool(context.services.engine),  # another engine's point
            )
        return self.available()

    def start(self, context: RunContext) -> None:
        """Connect, begin to watch, go on in a thread; RunFailed when it cannot."""
        try:
            watch = self.connected(context)
        except (importlib.import_module(self.driver).Error, OSError) as error:
            raise RunFailed(
                f"{self.title} cannot be watched",
                why=str(error),
                fix="see the server's log in the run's logs; max_connections may be too low",
            ) from error
        context.timed.at_start(watch.mark_start)
        watch.begin()
        self._watch = watch
