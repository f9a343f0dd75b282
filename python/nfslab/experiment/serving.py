"""The server's half of a run: what its client hosts use is up here until they are done with it.

On this machine it is part of the prime's own run; on a host of its own an agent makes it by the
ordinary runner (`in_part.ServingExecution`), with these differences:

    targets up: those that serve others  ──> serves: `taken`   what client hosts need to use them
    no load: the timed part lasts until  <── go: "measured"    all of them have had theirs
    targets down                         <── go: "finish"      none of them uses a target any more

Where the workload has a server of its own, its half of the workload is made here, on targets that
are this host's alone:

    prepared: the server is up           ──> serves: `served`  what client hosts need to load it
    its timed part is over               ──> loaded: `counted` what it knows of the load
    collectors off                       <── go: "finish"      at once
    verified                             <── verify: `counted` what all hosts did
                                         ──> verified: `checks`, which are the run's
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from nfslab.hosts.local import LocalHost
from nfslab.machine.availability import Availability
from nfslab.workloads.base import Outcome, StandIn

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.experiment.in_part import Prime
    from nfslab.hosts.base import Link
    from nfslab.results.records import CheckRecord
    from nfslab.workloads.base import RunContext, Workload


class ServingHost(LocalHost):
    """This machine, as client hosts see it."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._to_them = link

    @property
    def link(self) -> Link:
        """Our address, and theirs."""
        return self._to_them


class Serving(StandIn):
    """The workload, whose load others make: its own server, or nothing of it, is here."""

    def __init__(
        self, inner: Workload, prime: Prime, handed_on: Callable[[], dict[str, Any]]
    ) -> None:
        """`handed_on`: target -> what client hosts need to use it."""
        super().__init__(inner)
        self._prime = prime
        self._handed_on = handed_on

    def check(self) -> Availability:
        """A server of its own runs here, and nothing else of it."""
        return self.inner.check() if self.has_server else Availability(True)

    def prepare(self, context: RunContext) -> None:
        """The workload's own server; all else the client hosts do."""
        if self.has_server:
            self.inner.prepare(context)
            self._prime.say("serves", served=self.inner.handed_on())
        else:
            self._prime.say("serves", taken=self._handed_on())

    def measure(self, context: RunContext) -> Outcome:
        """Until all client hosts have had their timed part."""

        def check() -> None:
            context.remaining_s()
            self.inner.require_up()

        loaded = self.inner.loaded() if self.has_server else contextlib.nullcontext()
        with context.timed(), loaded:
            self._prime.order("go", check)
        if self.has_server:
            self._prime.say("loaded", counted=self.inner.counted())
        return Outcome(metrics={})

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """The workload's own server against what all hosts did; else each verifies its part.

        What is found is the run's, and the prime's to judge.
        """
        if self.has_server:
            told = self._prime.order("verify", context.remaining_s)
            self.inner.take_counted(told["counted"])
            checks = self.inner.verify(context, outcome)
            self._prime.say("verified", checks=[one.model_dump(mode="json") for one in checks])
        return []

    def finish(self, context: RunContext) -> None:
        """The workload's own server is stopped."""
        if self.has_server:
            self.inner.finish(context)
