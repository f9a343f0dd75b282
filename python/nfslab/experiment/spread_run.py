"""One run whose load several client hosts make together; this machine is the prime.

    hosts up, an agent on each ──> servers up ──> targets taken over on client hosts, prepared
    (the first host, then the others) ──> all armed, clocks compared ──> one instant for all
    ──> clocks compared again ──> sealed there ──> fetched, checked ──> put together, sealed here

To the ordinary runner it is a run like any other, of a workload that others do (`Spread`): limits
and sealing are its own, servers and their evidence, too, unless `[server]` names a host for them
(`serving`). That may be the workload's own server, which is then verified there, with what all
hosts did. What each host measured lies whole in `hosts/NAME` of the run's folder, but for the
tables that are the run's own (`own_tables`). A host that fails or is lost fails the run, with its
name; the others end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from nfslab import clock
from nfslab.context import HostPart, Share
from nfslab.errors import NfslabError, RunFailed
from nfslab.experiment.adopting import sealed_elsewhere
from nfslab.experiment.execution import RunExecution
from nfslab.experiment.host_checks import host_checks, told_by
from nfslab.experiment.host_facts import room
from nfslab.experiment.in_part import AskedPart
from nfslab.experiment.members import awaited_members
from nfslab.experiment.own_tables import as_host, take_tables
from nfslab.experiment.provenance import fingerprint, source_commit
from nfslab.experiment.run_hosts import RunHosts, told_by_agent
from nfslab.experiment.sections import CLUSTER
from nfslab.experiment.serving import ServingHost
from nfslab.experiment.watching import Watching
from nfslab.hosts.local import LocalHost
from nfslab.results.catalogue import HOSTS, RUNS
from nfslab.results.records import CheckRecord, RunHostRecord
from nfslab.results.setup import machine_digest
from nfslab.workloads.base import Outcome, StandIn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.cluster.base import Cluster
    from nfslab.experiment.execution import Carrying
    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.run_hosts import RunHost
    from nfslab.experiment.setup import CollectorSetup, TargetSetup
    from nfslab.hosts.base import Host
    from nfslab.machine.resources import Resources
    from nfslab.targets.base import Target
    from nfslab.workloads.base import RunContext, Workload

OF_A_HOST: Final = ("boot_id", "kernel", "cpus", "nfslab", "core", "emulated")
"""Facts of a client host that its record keeps."""
DEATH_WAIT_S: Final = 1.0
"""How long a dying server may take to end after a client noticed."""
AGAIN: Final = "run it again; if it stays so, see that host's nfslab and disk"


class Spread(StandIn):
    """The workload, made by agents on several hosts."""

    def __init__(self, inner: Workload, execution: SpreadExecution) -> None:
        super().__init__(inner)
        self._execution = execution

    def prepare(self, context: RunContext) -> None:
        """The workload's own server, here; targets there, and what has to be made on them."""
        if self._execution.serves_here:
            self.inner.prepare(context)
        self._execution.prepare()

    def measure(self, context: RunContext) -> Outcome:
        """The timed part of all hosts; what it yielded is gathered when nobody watches any more."""
        try:
            self._execution.measure(context)
        except RunFailed:
            # What became of the server may be why a host failed.
            self.inner.require_up(DEATH_WAIT_S)
            self._execution.require_server(DEATH_WAIT_S)
            raise
        return Outcome(metrics={})

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Each host has verified its part; what is here is verified here."""
        if self._execution.serves_here:
            return self.inner.verify(context, outcome)
        return self._execution.verified

    def finish(self, context: RunContext) -> None:
        """Agents end before their servers: what waits for a reply that never comes takes long."""
        try:
            self._execution.end_agents()
        finally:
            if self._execution.serves_here:
                self.inner.finish(context)


class SpreadExecution(RunExecution):
    """One run under way on several client hosts. `execute` is called once."""

    def __init__(self, carrying: Carrying, run: PlannedRun, position: int) -> None:
        super().__init__(carrying, run, position)
        self._whole = self._workload
        self._workload = Spread(self._whole, self)
        self.serves_here = self._whole.has_server and not self.setup.server.is_elsewhere
        """The workload's own server is here."""
        self._serves_there = self._whole.has_server and self.setup.server.is_elsewhere
        self.verified: list[CheckRecord] = []
        """What was found there."""
        setups = self.setup.collectors
        self._watching = Watching({n: one for n, one in setups.items() if self._watches_here(one)})
        self._cluster: Cluster | None = None
        self._clients = RunHosts(carrying.show_phase, self._check)
        self._names: list[str] = []
        self._emulated = False
        self._start_ns = 0
        self._zero_ns = 0
        """t = 0 of the run's tables."""

    def _bring_up_hosts(self, resources: Resources) -> None:
        """The servers' host is this machine; an agent is ready on each client host."""
        self._hosts["server"] = self._hosts["client"] = LocalHost()
        with self.phase("hosts up"):
            found = awaited_members(
                self.setup, resources, self.carrying.kernels,
                remaining_s=self._remaining_s, show=self.carrying.show_phase,
            )  # fmt: skip
            self._cluster, self._link = found.cluster, found.link
            self._clients.begin(found.clients, found.server)
            self._emulated = any(host.is_emulated for host in self._clients.all)
            self._names = [host.name for host in self._clients.hosts]
            processes = self.setup.client.processes
            addresses = tuple(host.member.address for host in self._clients.hosts)
            self._link = replace(self._link, clients=addresses)
            self._hosts["client"] = ServingHost(self._link)
            for host in self._clients.hosts:
                room(host.name, host.facts, processes, self._whole.connections(processes))

    def _check(self) -> None:
        """Raises where going on makes no sense."""
        self._remaining_s()
        self._whole.require_up()

    def require_server(self, within_s: float) -> None:
        """RunFailed where the server's host fails, or does so soon."""
        self._clients.require_server(within_s)

    def _files_host(self) -> Host:
        return self._hosts["server" if self._whole.has_server else "client"]

    def _target(self, setup: TargetSetup) -> Target | None:
        if self._clients.serving is not None:
            return None
        target = setup.make()
        return target if self._whole.has_server or target.for_others() else None

    def _watches_here(self, one: CollectorSetup) -> bool:
        """Of the servers, and of what a workload's own does with its files, where they are here."""
        if self.setup.server.is_elsewhere:
            return False
        return one.side() == "server" or self._whole.has_server

    def _watches_there(self, one: CollectorSetup, host: RunHost) -> bool:
        """On a host: its side, and its machine where nobody else of the run watches that."""
        if host.serves:
            return one.side() == "server" or self._whole.has_server
        serving = self._clients.serving
        is_seen = host.is_prime and (serving is None or serving.is_prime)
        if one.of_machine() or self._whole.has_server:
            return not is_seen and (one.of_machine() or one.side() == "client")
        return one.side() != "server"

    def prepare(self) -> None:
        """Each host has its part; one makes what is shared, then the others."""
        taken, served = self._served()
        for number, host in enumerate(self._clients.hosts):
            asked = self._asked(number, host, taken).model_copy(update={"served": served})
            host.agent.tell("run", asked=asked.model_dump(mode="json"))
        self._clients.await_all("at prepare")
        first, *others = self._clients.hosts
        for some in ([first], others):
            self._let_prepare(some)

    def _served(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """What client hosts need, of whichever host it is up on: (target -> to use it, to load the
        workload's own server, where it has one)."""
        if self.serves_here:
            return {}, self._whole.handed_on()
        if (host := self._clients.serving) is None:
            return self.handed_on(), None
        asked = self._asked(None, host, {})
        host.agent.tell("run", asked=asked.model_dump(mode="json"))
        self._clients.await_all("at prepare", of=[host])
        self._let_prepare([host])
        if self._serves_there:
            return {}, told_by_agent(host, "serves", "served", dict)
        return told_by_agent(host, "serves", "taken", dict), None

    def _let_prepare(self, hosts: Sequence[RunHost]) -> None:
        for host in hosts:
            host.agent.tell("go", gate="prepare")
        self._clients.await_all("at measure", of=hosts)

    def measure(self, context: RunContext) -> None:
        """All armed, one instant for all; until each has had its timed part."""
        clients = self._clients
        clients.tell_all("go", gate="measure")
        clients.await_all("armed")
        clients.compare_clocks(before=True)
        clients.forget_silence()
        start_s = max(host.member.patience.start_s for host in clients.all)
        self._start_ns = start_ns = clock.monotonic_ns() + round(start_s * 1e9)
        for host in clients.all:
            host.agent.tell("start", at_ns=start_ns + host.before.offset_ns)
        loaded = self._whole.loaded() if self.serves_here else contextlib.nullcontext()
        with context.timed(lead_s=start_s), loaded:
            clients.await_all("measured", "load_s", of=clients.hosts)
        context.timed.was(*self._timed_part_of_all(clock.monotonic_ns()))
        if clients.serving is not None:
            clients.serving.agent.tell("go", gate="measured")
        clients.compare_clocks(before=False)
        if clients.serving is not None:
            clients.await_all("measured", of=[clients.serving])
        if clients.serving is not None and self._serves_there:
            self._whole.take_counted(told_by_agent(clients.serving, "loaded", "counted", dict))
            # Nobody loads it any more: collectors are off before client hosts seal.
            clients.serving.agent.tell("go", gate="finish")

    @staticmethod
    def _on_our_clock(host: RunHost, name: str) -> int | None:
        """Where its timed part began or ended; None: it did not say."""
        at_ns = host.said["measured"].get(name)
        return at_ns - host.before.offset_ns if isinstance(at_ns, int) else None

    def _timed_part_of_all(self, now_ns: int) -> tuple[int, int]:
        """From the first host's beginning to the last one's end, by their programs' account.

        Evidence is put on that axis when its collectors stop, as samples are when they are merged.
        """
        starts, ends = (
            [
                at
                for host in self._clients.hosts
                if (at := self._on_our_clock(host, name)) is not None
            ]
            for name in ("start_ns", "end_ns")
        )
        self._zero_ns = min(starts, default=self._start_ns)
        return self._zero_ns, max(ends, default=now_ns)

    def _gather(self) -> None:
        """What all hosts sealed comes home, and is put together; RunFailed."""
        context = self.found.context
        assert context is not None
        with self.phase("gather"):
            clients, serving = self._clients, self._clients.serving
            self._finish(clients.hosts)
            if serving is not None and not self._serves_there:
                self._finish([serving])
            parts = self._fetched(context.folder, clients.hosts)
            outcome = self.found.outcome = self._whole.merged(context, parts)
            if serving is not None and self._serves_there:
                self._verify_there(serving)
            server = self._fetched(context.folder, [serving])[0] if serving is not None else None
            if server is not None and serving is not None and self._serves_there:
                self._tell_of_server(serving, server)
            else:
                self._tell_places(parts[0], server)
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
            if server is not None and serving is not None:
                self.found.server_host = self._record(serving, server)
            start, end = context.timed.start_ns, context.timed.end_ns
            timed_ns = end - start if start is not None and end is not None else 0
            server_host = self.found.server_host
            self.found.checks += host_checks(records, parts, timed_ns, server_host)
            if server_host is not None and server is not None:
                self.found.checks += told_by(server, server_host)
            self._take_tables(context.folder, parts, server)

    def _finish(self, hosts: Sequence[RunHost]) -> None:
        """They end their part, and seal it."""
        for host in hosts:
            host.agent.tell("go", gate="finish")
        self._clients.await_all("sealed", of=hosts)

    def _verify_there(self, host: RunHost) -> None:
        """The workload's own server is verified, with what all hosts did; its part is sealed."""
        host.agent.tell("verify", counted=self._whole.counted())
        self._clients.await_all("verified", of=[host])
        told = told_by_agent(host, "verified", "checks", list)
        try:
            self.verified = TypeAdapter(list[CheckRecord]).validate_python(told)
        except ValidationError as error:
            raise RunFailed(
                f"what {host.said_as} verified cannot be read", why=str(error), fix=AGAIN
            ) from error
        self._clients.await_all("sealed", of=[host])

    def _fetched(self, run: Path, hosts: Sequence[RunHost]) -> list[HostPart]:
        """The sealed runs of some hosts, in `hosts` of the run's folder."""
        arrived = run / ".arrived"
        arrived.mkdir()
        self._clients.fetch(arrived, hosts)
        (run / HOSTS).mkdir(exist_ok=True)
        parts = []
        for number, host in enumerate(hosts):
            sealed = arrived / host.name / RUNS / self.run.run_id
            record, _ = sealed_elsewhere(sealed, host.said_as, AGAIN)
            folder = sealed.rename(run / HOSTS / host.name)
            offset_ns = host.before.offset_ns
            share = self._share_of(number)
            parts.append(HostPart(host.name, share, folder, record, offset_ns))
        shutil.rmtree(arrived)
        return parts

    def _take_tables(self, run: Path, parts: list[HostPart], server: HostPart | None) -> None:
        """Evidence of the two sides, where each is one host; RunFailed.

        With a server of the workload's own the server's side alone: what is watched is that.
        """
        clients, found = self.found.client_hosts, self.found
        collectors, zero_ns = self.setup.collectors, 0
        if server is not None and found.server_host is not None and self._serves_there:
            # Its clock is the run's: nothing of the run is on another one.
            found.hosts["client"] = as_host(found.server_host)
            zero_ns = found.server_host.clock.offset_ns
        elif len(clients) == 1 and not self._whole.has_server:
            found.hosts["client"], zero_ns = as_host(clients[0]), clients[0].clock.offset_ns
            self._watching.move(-zero_ns)

            def is_clients(name: str) -> bool:
                one = collectors[name]
                return one.side() != "server" and not self._watches_here(one)

            self._watching.records += take_tables(
                run, parts[0], found.hosts["client"], 0, is_clients
            )
        if server is not None and found.server_host is not None:
            found.hosts["server"] = host = as_host(found.server_host)
            moved_ns = found.server_host.t0_ns + host.clock.offset_ns - zero_ns
            self._watching.records += take_tables(run, server, host, moved_ns, lambda _: True)

    def _pairs(self, parts: list[HostPart]) -> list[tuple[RunHost, HostPart]]:
        return list(zip(self._clients.hosts, parts, strict=True))

    def _tell_places(self, client: HostPart, server: HostPart | None) -> None:
        """Mounts are those of the client hosts; what none mounts is where it is served."""
        served = dict.fromkeys(self.found.places) | (server.record.places if server else {})
        for role, place in client.record.places.items():
            nfs = place.facts.get("nfs")
            is_seen = not (nfs and nfs.get("client") == "none")
            there = place if is_seen or role not in served else served[role]
            if there is not None:
                self.found.places_there[role] = there

    def _tell_of_server(self, host: RunHost, part: HostPart) -> None:
        """Where the workload's own server was, and what it was, are the run's."""
        self.found.places_there = dict(part.record.places)
        self.found.notes += [f"{part.name}: {note}" for note in part.record.notes]
        if not self._drops_here(host):
            self.found.page_cache = part.record.page_cache

    def _record(self, host: RunHost, part: HostPart) -> RunHostRecord:
        """What is kept of a host, but for what the workload says of it."""
        from nfslab.results.catalogue import read_provenance

        said, there = host.said["measured"], part.record.hosts.get("client")
        began, busy = said.get("began_ns"), said.get("busy")
        started_ns = self._on_our_clock(host, "start_ns")
        facts = {name: host.facts[name] for name in OF_A_HOST if name in host.facts}
        return RunHostRecord(
            name=host.name,
            kind=self.setup.server.host if host.serves else self.setup.client.host,
            address=host.member.address,
            folder=f"{HOSTS}/{host.name}",
            setup=machine_digest(read_provenance(part.folder)),
            processes=0 if host.serves else part.share.processes,
            clock=host.before,
            clock_after=host.after,
            drift_ppm=host.drift_ppm,
            skew_ns=began - host.before.offset_ns - self._start_ns
            if isinstance(began, int)
            else None,
            t0_ns=0 if started_ns is None else started_ns - self._zero_ns,
            silence_ns=round(host.silence_s * 1e9),
            cpu_busy=float(busy) if isinstance(busy, int | float) else None,
            facts=(there.facts if there else {}) | facts,
        )

    def _share_of(self, number: int) -> Share:
        return Share(number, len(self._names), self.setup.client.processes)

    def _is_emulated(self) -> bool:
        """A client host's is enough."""
        return self._emulated or super()._is_emulated()

    def _made(self, host: RunHost) -> dict[str, Any]:
        """Sections of a client host's provenance that only this machine knows."""
        made = {name: dict(section) for name, section in host.member.made.items()}
        return {name: section | {"runs_on": fingerprint()} for name, section in made.items()}

    def _asked(self, number: int | None, host: RunHost, taken: dict[str, Any]) -> AskedPart:
        """The part of one host (None: the server's): its own targets and collectors, without what
        is done elsewhere."""
        point, record = self.run.point, self.carrying.record
        resolved = self.setup.resolved()
        resolved["client"] = {"host": LocalHost.kind}
        resolved.pop(CLUSTER, None)
        resolved.pop("server", None)
        resolved["limits"] |= {"settle_s": 0.0, "memory": None, "experiment_s": None}
        if self._drops_here(host):
            resolved["limits"]["drop_page_cache"] = False
        resolved["collectors"] = {
            name: resolved["collectors"][name]
            for name, one in self.setup.collectors.items()
            if self._watches_there(one, host)
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
            share=None if number is None else self._share_of(number),
            link=self._link if host.serves else None,
            taken=taken,
            is_prime=host.is_prime,
            made=self._made(host),
            commit=source_commit() if host.member.made else None,
        )

    @staticmethod
    def _drops_here(host: RunHost) -> bool:
        """One page cache, and it is dropped here."""
        return host.is_prime and os.geteuid() == 0

    def _hosts_are_up(self) -> bool:
        return self._cluster is not None

    def _hosts_down(self) -> None:
        """Agents, if they are still there; then their hosts."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            self.found.notes += cluster.notes
            for member in cluster.members:
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
                sealed_elsewhere(sealed, f"host {name}", AGAIN)
                (run / HOSTS).mkdir(exist_ok=True)
                sealed.rename(run / HOSTS / name)
        except (NfslabError, OSError) as error:
            self.found.notes.append(f"what a client host left cannot be kept: {error}")
        finally:
            shutil.rmtree(arrived, ignore_errors=True)
