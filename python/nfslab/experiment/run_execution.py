"""One run, or a part of one, whose targets, workload and collectors are made by this process.

    settle -> hosts up -> targets up -> provenance -> prepare -> page cache dropped -> collectors on
    -> measure -> collectors off -> verify | finish -> targets down -> hosts down

Right of the bar is always done, whatever happened left of it. A part of a run (`in_part`) does some
of these steps otherwise, and waits for the others before some.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from nfslab.errors import RunFailed
from nfslab.experiment.execution import Execution
from nfslab.experiment.failure import Failure
from nfslab.experiment.preflight import needed_bytes, require_here
from nfslab.experiment.validity import memory_check
from nfslab.experiment.watching import Watching
from nfslab.hosts.registry import host_class
from nfslab.machine.load import OthersWindow, is_here
from nfslab.quantities import format_size
from nfslab.results.records import CheckRecord

if TYPE_CHECKING:
    from nfslab.context import TimedPart
    from nfslab.experiment.execution import Carrying
    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.setup import TargetSetup
    from nfslab.hosts.base import Host
    from nfslab.machine.cgroup import Cgroup
    from nfslab.machine.resources import Resources
    from nfslab.results.store import PartialRun
    from nfslab.targets.base import Place, Target
    from nfslab.workloads.base import Outcome, RunContext


class RunExecution(Execution):
    """Makes a run, or a part of one, whose targets, workload and collectors are of this process."""

    def __init__(self, carrying: Carrying, run: PlannedRun, position: int) -> None:
        super().__init__(carrying, run, position)
        self._up: list[tuple[Target, Place]] = []
        self._hosts: dict[str, Host] = {}
        """"server" and "client", those that are up."""
        self._cgroup: Cgroup | None = None
        self._watching = Watching(self.setup.collectors)

    def _forward(self, partial: PartialRun, resources: Resources) -> None:
        """Does everything up to `verify`."""
        if not self.carrying.asked:
            with self.phase("preflight"):
                self._require_here()
        self._settle()
        self._bring_up_hosts(resources)
        with self.phase("targets up"):
            self._bring_up(resources)
        self.found.context = context = self._make_context(partial, resources)
        with self.phase("provenance"):
            self._look_around()
        with self.phase("prepare"):
            self._require_space()
            self._prepare(context)
        self._drop_page_cache()
        self.stop.check()
        try:
            self._start_watching(context)
            others = OthersWindow()
            with self.phase("measure"):
                _, start_ns = self.clocks.read()
                self.found.outcome = self._measure(context)
                _, end_ns = self.clocks.read()
            if context.timed.start_ns is None:
                context.timed.was(start_ns, end_ns)
            if self._is_ours():
                self.found.others_during = others.finish(resources.token)
        finally:
            self._watching.stop(partial.logs)
        self._watching.require()
        self.stop.check()
        self.found.checks += self.found.outcome.checks
        with self.phase("verify"):
            self.found.checks += self._verify(context, self.found.outcome)
            self._require_truth()

    def _prepare(self, context: RunContext) -> None:
        """Does everything that must not be timed."""
        self._watching.ready(context)
        self._workload.prepare(context)

    def _measure(self, context: RunContext) -> Outcome:
        """Does what is timed."""
        return self._workload.measure(context)

    def _verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Finds out whether what was measured is true."""
        return self._workload.verify(context, outcome)

    def _finish(self, context: RunContext) -> None:
        """Ends the workload; called always."""
        self._workload.finish(context)

    def _require_here(self) -> None:
        """Raises RunFailed where this machine cannot make it."""
        require_here(self.run.point)

    def _drop_page_cache(self) -> None:
        if not self.setup.limits.drop_page_cache:
            self.found.page_cache = {"dropped": "no", "reason": "limits.drop_page_cache = false"}
            return
        from nfslab.storage.page_cache import drop_page_cache

        with self.phase("drop page cache"):
            self.found.page_cache = drop_page_cache([p.path for p in self.found.places.values()])

    def _start_watching(self, context: RunContext) -> None:
        self._watching.start(context, self.phase)

    def _is_ours(self) -> bool:
        """Does nothing on this machine work for the run that neither we nor the kernel started?

        What a server or a file system in a program that was there before uses is the load's."""
        places = self.found.places.values()
        return not self._workload.others_serve and not any(map(_others_serve, places))

    def _bring_up_hosts(self, resources: Resources) -> None:
        """Servers are on this machine; the client's host is what `client.host` says."""
        from nfslab.hosts.local import LocalHost

        self._hosts["server"] = LocalHost()
        kind = self.setup.client.host
        if kind == LocalHost.kind:
            self._hosts["client"] = self._hosts["server"]
            return
        with self.phase("hosts up"):
            # Before it is up: one that fails half way is taken down, too.
            self._hosts["client"] = client = host_class(kind)(self.setup.client.wire)
            client.up(resources)

    def _bring_up(self, resources: Resources) -> None:
        """Brings up every target that plays a role, each once, on the host that uses its files."""
        from nfslab.hosts.base import Hosts

        hosts = Hosts(self._files_host(), self._hosts["server"])
        owner = self._workload.owner()
        places: dict[str, Place] = {}
        for name, setup in self.setup.used_targets().items():
            self.stop.check()
            target = self._target(setup)
            if target is not None:
                places[name] = target.up(resources, hosts, owner=owner)
                self._up.append((target, places[name]))
        roles = self.setup.workload.roles().items()
        self.found.places = {role: places[name] for role, name in roles if name in places}
        if self.setup.limits.memory is not None:
            from nfslab.machine.cgroup import memory_cgroup

            self._cgroup = memory_cgroup(self.setup.limits.memory, resources)

    def _files_host(self) -> Host:
        """Returns the host where the targets' files are used."""
        return self._hosts[self._workload.files_on]

    def _target(self, setup: TargetSetup) -> Target | None:
        """Makes a target of the run; None: it is not up here."""
        return setup.make()

    def endpoint(self) -> dict[str, Any]:
        """Returns what other hosts need to use each target that is up."""
        return {place.target: target.endpoint(place) for target, place in self._up}

    def _timed_part(self, host: Host) -> TimedPart:
        """Makes the timed part, on the clock of the client's host."""
        from nfslab.context import TimedPart

        return TimedPart(host.monotonic_ns)

    def _make_context(self, partial: PartialRun, resources: Resources) -> RunContext:
        """Makes what the workload and the collectors share."""
        from nfslab.context import Services

        hosts, services = dict(self._hosts), Services(memory_cgroup=self._cgroup)
        if self._cgroup is not None:
            hosts = {side: host.limited(self._cgroup) for side, host in hosts.items()}
        for target, place in self._up:
            target.offer(place, services)
        timed = self._timed_part(hosts["client"])
        return self._context(partial, resources, hosts, services=services, timed=timed)

    def _look_around(self) -> None:
        """Notes the machine as it is right before the run, its load included."""
        from nfslab.experiment.provenance import provenance

        paths = [place.path for place in self.found.places.values()]
        self.found.hosts = {side: host.record() for side, host in self._hosts.items()}
        hosts = {side: record.model_dump() for side, record in self.found.hosts.items()}
        assert self.found.context is not None
        token = self.found.context.resources.token
        self.found.provenance = provenance(paths, [], token) | {"hosts": hosts}

    def _require_space(self) -> None:
        """A run that cannot fit fails now, not after it has filled the disk."""
        from nfslab.targets.base import SPACE_ELSEWHERE

        by_target = {place.target: place for place in self.found.places.values()}
        for name, needed in needed_bytes(self.run.point).items():
            if name not in by_target or by_target[name].facts.get(SPACE_ELSEWHERE):
                continue
            facts = os.statvfs(by_target[name].path)
            free = facts.f_bavail * facts.f_frsize
            if needed > free:
                raise RunFailed(
                    f"target {name!r} is too small for this run",
                    why=f"about {format_size(needed)} are needed, {format_size(free)} are free",
                    fix="make room there, choose another path, or a smaller size",
                )

    def _take_down(self, partial: PartialRun) -> None:
        context = self.found.context
        if context is not None:
            self._step("finish", lambda: self._finish(context), partial)
        if self._cgroup is not None:
            self._step("memory limit", self._read_memory_limit, partial)
        for target, place in reversed(self._up):
            self._step("targets down", lambda t=target, p=place: t.down(p), partial)  # type: ignore[misc]
        client = self._hosts.get("client")
        if client is not None and client is not self._hosts["server"]:
            self._step("hosts down", client.down, partial)

    def _read_memory_limit(self) -> None:
        assert self._cgroup is not None
        self.found.memory_limit, check = memory_check(self._cgroup)
        self.found.checks.append(check)
        if self.found.memory_limit["events"].get("oom_kill"):
            # Whoever was killed for it left errors elsewhere, which are not the cause.
            self.found.fail_before(Failure(check.message, "memory limit"))
        elif check.verdict == "violation":
            # Figures of another limit than the one that was asked for are no figures.
            self.found.fail(Failure(check.message, "memory limit"))


def _others_serve(place: Place) -> bool:
    """May a program of this machine that was there before serve it?"""
    nfs = place.facts.get("nfs")
    if nfs is None:
        return place.filesystem.startswith("fuse")
    source = nfs.get("server") if ":/" in str(nfs.get("server")) else place.source
    return "served" not in nfs and is_here(source.partition(":/")[0].strip("[]"))
