"""One run whose load several client hosts make together; this machine is the prime.

    client hosts up, an agent on each ──> servers up, here ──> targets taken over there, prepared
    (the first host, then the others) ──> all armed, clocks compared ──> one instant for all
    ──> clocks compared again ──> sealed there ──> fetched, checked ──> put together, sealed here

To the ordinary runner it is a run like any other, of a workload that others do (`Spread`): servers,
their evidence, limits and sealing are its own. What each host measured lies whole in `hosts/NAME`
of the run's folder. A host that fails or is lost fails the run, with its name; the others end.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any, Final

from nfslab.context import HostPart, Share
from nfslab.errors import NfslabError
from nfslab.experiment.adopting import sealed_elsewhere
from nfslab.experiment.client_hosts import ClientHosts
from nfslab.experiment.execution import RunExecution
from nfslab.experiment.host_checks import host_checks
from nfslab.experiment.host_facts import room
from nfslab.experiment.in_part import AskedPart
from nfslab.experiment.members import members_of
from nfslab.experiment.provenance import fingerprint, source_commit
from nfslab.experiment.sections import CLUSTER
from nfslab.experiment.watching import Watching
from nfslab.hosts.local import LocalHost
from nfslab.machine.availability import Availability
from nfslab.results.catalogue import HOSTS, RUNS
from nfslab.results.records import ClientHostRecord
from nfslab.results.setup import machine_digest
from nfslab.workloads.base import ByAnother, Outcome

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.cluster.base import Cluster
    from nfslab.experiment.client_hosts import ClientHost
    from nfslab.experiment.execution import Carrying
    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.setup import TargetSetup
    from nfslab.hosts.base import Host, Link
    from nfslab.machine.resources import Resources
    from nfslab.results.records import CheckRecord
    from nfslab.targets.base import Target
    from nfslab.workloads.base import RunContext, Workload

OF_A_HOST: Final = ("boot_id", "kernel", "cpus", "nfslab", "core", "emulated")
"""Facts of a client host that its record keeps."""
AGAIN: Final = "run it again; if it stays so, see that host's nfslab and disk"


class ServingHost(LocalHost):
    """This machine, as client hosts see it."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self._to_them = link

    @property
    def link(self) -> Link:
        """Our address, and theirs."""
        return self._to_them


class Spread(ByAnother):
    """The workload, made by agents on several hosts."""

    def __init__(self, inner: Workload, execution: SpreadExecution) -> None:
        super().__init__(inner.parameters)
        self.stand_for(inner)
        self._execution = execution

    @classmethod
    def available(cls) -> Availability:
        """It is asked itself."""
        return Availability(True)

    def prepare(self, context: RunContext) -> None:
        """Targets there, and what has to be made on them."""
        self._execution.prepare()

    def measure(self, context: RunContext) -> Outcome:
        """The timed part of all hosts; what it yielded is gathered when nobody watches any more."""
        self._execution.measure(context)
        return Outcome(metrics={})

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Each host has verified its part."""
        return []

    def finish(self, context: RunContext) -> None:
        """Agents end before their servers: what waits for a reply that never comes takes long."""
        self._execution.end_agents()


class SpreadExecution(RunExecution):
    """One run under way on several client hosts. `execute` is called once."""

    def __init__(self, carrying: Carrying, run: PlannedRun, position: int) -> None:
        super().__init__(carrying, run, position)
        self._whole = self._workload
        self._workload = Spread(self._whole, self)
        setups = self.setup.collectors
        self._watching = Watching({n: one for n, one in setups.items() if one.side() == "server"})
        self._cluster: Cluster | None = None
        self._clients = ClientHosts(carrying.show_phase, self._remaining_s)
        self._names: list[str] = []
        self._emulated = False
        self._start_ns = 0

    def _bring_up_hosts(self, resources: Resources) -> None:
        """The servers' host is this machine; an agent is ready on each client host."""
        self._hosts["server"] = self._hosts["client"] = LocalHost()
        with self.phase("hosts up"):
            kernels = self.carrying.kernels
            self._cluster, self._link = members_of(self.setup, resources, kernels)
            self._clients.begin(self._cluster.members)
            self._emulated = any(host.is_emulated for host in self._clients.hosts)
            self._names = [host.name for host in self._clients.hosts]
            processes = self.setup.client.processes
            for host in self._clients.hosts:
                room(host.name, host.facts, processes, self._whole.connections(processes))

    def _files_host(self) -> Host:
        return ServingHost(self._link)

    def _target(self, setup: TargetSetup) -> Target | None:
        target = setup.make()
        return target if target.for_others() else None

    def prepare(self) -> None:
        """Each host has its part; one makes what is shared, then the others."""
        taken = {place.target: target.handed_on(place) for target, place in self._up}
        for number, host in enumerate(self._clients.hosts):
            asked = self._asked(number, host, taken)
            host.agent.tell("run", asked=asked.model_dump(mode="json"))
        self._clients.await_all("at prepare")
        first, *others = self._clients.hosts
        for some in ([first], others):
            for host in some:
                host.agent.tell("go", gate="prepare")
            self._clients.await_all("at measure", of=some)

    def measure(self, context: RunContext) -> None:
        """All armed, one instant for all; until each has had its timed part."""
        clients = self._clients
        clients.tell_all("go", gate="measure")
        clients.await_all("armed")
        clients.compare_clocks(before=True)
        clients.forget_silence()
        start_s = max(host.member.patience.start_s for host in clients.hosts)
        self._start_ns = start_ns = time.monotonic_ns() + round(start_s * 1e9)
        for host in clients.hosts:
            host.agent.tell("start", at_ns=start_ns + host.before.offset_ns)
        with context.timed(lead_s=start_s):
            clients.await_all("measured", "load_s")
        context.timed.was(start_ns, time.monotonic_ns())
        clients.compare_clocks(before=False)

    def _gather(self) -> None:
        """What all hosts sealed comes home, and is put together; RunFailed."""
        context = self.found.context
        assert context is not None
        with self.phase("gather"):
            self._clients.tell_all("go", gate="finish")
            self._clients.await_all("sealed")
            parts = self._fetched(context.folder)
            outcome = self.found.outcome = self._whole.merged(context, parts)
            self._tell_places(parts)
            records = [self._record(host, part) for host, part in self._pairs(parts)]
            total = sum(one.operations for one in outcome.by_host.values())
            for record in records:
                did = outcome.by_host.get(record.name)
                if did is not None and total:
                    record.operations, record.share = did.operations, did.operations / total
                    record.mean_latency_ns = did.mean_latency_ns
                    even = 1 / len(records)
                    record.planned_share = even if did.planned_share is None else did.planned_share
            self.found.client_hosts = records
            start, end = context.timed.start_ns, context.timed.end_ns
            timed_ns = end - start if start is not None and end is not None else 0
            self.found.checks += host_checks(records, parts, timed_ns)

    def _fetched(self, run: Path) -> list[HostPart]:
        """The sealed runs of all hosts, in `hosts` of the run's folder."""
        arrived = run / ".arrived"
        arrived.mkdir()
        self._clients.fetch(arrived)
        (run / HOSTS).mkdir()
        parts = []
        for number, host in enumerate(self._clients.hosts):
            sealed = arrived / host.name / RUNS / self.run.run_id
            record, _ = sealed_elsewhere(sealed, f"client host {host.name}", AGAIN)
            folder = sealed.rename(run / HOSTS / host.name)
            offset_ns = host.before.offset_ns
            parts.append(HostPart(host.name, self._share_of(number), folder, record, offset_ns))
        shutil.rmtree(arrived)
        return parts

    def _pairs(self, parts: list[HostPart]) -> list[tuple[ClientHost, HostPart]]:
        return list(zip(self._clients.hosts, parts, strict=True))

    def _tell_places(self, parts: list[HostPart]) -> None:
        """Mounts are those of the client hosts; what none mounts is where it is served."""
        for role, place in parts[0].record.places.items():
            nfs = place.facts.get("nfs")
            if role not in self.found.places or not (nfs and nfs.get("client") == "none"):
                self.found.places_there[role] = place

    def _record(self, host: ClientHost, part: HostPart) -> ClientHostRecord:
        """What is kept of a host, but for what the workload says of it."""
        from nfslab.results.catalogue import read_provenance

        said, there = host.said["measured"], part.record.hosts.get("client")
        began, busy = said.get("began_ns"), said.get("busy")
        facts = {name: host.facts[name] for name in OF_A_HOST if name in host.facts}
        return ClientHostRecord(
            name=host.name,
            kind=self.setup.client.host,
            address=host.member.address,
            folder=f"{HOSTS}/{host.name}",
            setup=machine_digest(read_provenance(part.folder)),
            processes=part.share.processes,
            clock=host.before,
            clock_after=host.after,
            drift_ppm=host.drift_ppm,
            skew_ns=began - host.before.offset_ns - self._start_ns
            if isinstance(began, int)
            else None,
            silence_ns=round(host.silence_s * 1e9),
            cpu_busy=float(busy) if isinstance(busy, int | float) else None,
            facts=(there.facts if there else {}) | facts,
        )

    def _share_of(self, number: int) -> Share:
        return Share(number, len(self._names), self.setup.client.processes)

    def _is_emulated(self) -> bool:
        """A client host's is enough."""
        return self._emulated or super()._is_emulated()

    def _made(self, host: ClientHost) -> dict[str, Any]:
        """Sections of a client host's provenance that only this machine knows."""
        made = {name: dict(section) for name, section in host.member.made.items()}
        return {name: section | {"runs_on": fingerprint()} for name, section in made.items()}

    def _asked(self, number: int, host: ClientHost, taken: dict[str, Any]) -> AskedPart:
        """The part of one host: its own targets and collectors, without what is done here."""
        point, record = self.run.point, self.carrying.record
        resolved = self.setup.resolved()
        resolved["client"] = {"host": LocalHost.kind}
        resolved.pop(CLUSTER, None)
        resolved["limits"] |= {"settle_s": 0.0, "memory": None, "experiment_s": None}
        if host.is_prime and os.geteuid() == 0:
            # One page cache, and it is dropped here.
            resolved["limits"]["drop_page_cache"] = False
        resolved["collectors"] = {
            name: resolved["collectors"][name]
            for name, one in self.setup.collectors.items()
            if one.side() != "server" or (one.of_machine() and not host.is_prime)
        }
        return AskedPart(
            record=record.model_copy(update={"points": [], "axes": [], "resolved": {}}),
            point_id=point.point_id,
            index=point.index,
            factors=point.factors,
            settings=point.settings,
            resolved=resolved,
            block=self.run.block,
            attempt=self.run.attempt,
            position=self.position,
            share=self._share_of(number),
            taken=taken,
            is_prime=host.is_prime,
            made=self._made(host),
            commit=source_commit() if host.member.made else None,
        )

    def _hosts_are_up(self) -> bool:
        return self._cluster is not None

    def _hosts_down(self) -> None:
        """Agents, if they are still there; then their hosts."""
        cluster, self._cluster = self._cluster, None
        for member in cluster.members if cluster is not None else ():
            self.found.notes += [f"{member.name}: {note}" for note in member.notes]
        try:
            self._clients.end()
        finally:
            if cluster is not None:
                cluster.close()

    def end_agents(self) -> None:
        """None is at work; what one left whose part failed is kept."""
        try:
            if self.found.context is not None and self.found.failure is not None:
                self._keep_what_failed(self.found.context.folder)
        finally:
            self._clients.end()

    def _keep_what_failed(self, run: Path) -> None:
        """Of a host whose part failed: what it sealed, as its logs may tell why."""
        arrived = run / ".failed"
        try:
            arrived.mkdir()
            for name in self._clients.fetch_failed(arrived):
                sealed = arrived / name / RUNS / self.run.run_id
                sealed_elsewhere(sealed, f"client host {name}", AGAIN)
                (run / HOSTS).mkdir(exist_ok=True)
                sealed.rename(run / HOSTS / name)
        except (NfslabError, OSError) as error:
            self.found.notes.append(f"what a client host left cannot be kept: {error}")
        finally:
            shutil.rmtree(arrived, ignore_errors=True)
