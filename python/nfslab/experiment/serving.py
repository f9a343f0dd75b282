"""The server's half of a run: what its client hosts use is up here until they are done with it.

On this machine it is part of the prime's own run; on a host of its own an agent makes it by the
ordinary runner (`in_part.ServingExecution`), with these differences:

    targets up: those that serve others  ──> serves: `taken`   what client hosts need to use them
    no load: the timed part lasts until  <── go: "measured"    all of them have had theirs
    targets down                         <── go: "finish"      none of them uses a target any more
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.hosts.local import LocalHost
from nfslab.machine.availability import Availability
from nfslab.workloads.base import Outcome, StandIn

if TYPE_CHECKING:
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
    """The workload, which others make: here it is waited for."""

    def __init__(self, inner: Workload, prime: Prime) -> None:
        super().__init__(inner)
        self._prime = prime

    def check(self) -> Availability:
        """Nothing of it runs here."""
        return Availability(True)

    def prepare(self, context: RunContext) -> None:
        """The client hosts do."""

    def measure(self, context: RunContext) -> Outcome:
        """Until all client hosts have had their timed part."""
        with context.timed():
            self._prime.order("go", context.remaining_s)
        return Outcome(metrics={})

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Each client host has verified its part."""
        return []

    def finish(self, context: RunContext) -> None:
        """Nothing was started."""
