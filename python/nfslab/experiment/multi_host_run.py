"""One run whose load several client hosts make together; this machine is the prime.

    hosts up, an agent on each ──> the server's prepares ──> endpoints ──> client hosts prepare
    (the first, then the others) ──> all armed, clocks compared ──> one instant for all
    ──> clocks compared again ──> client hosts sealed, fetched ──> put together ──> the server's
    verifies with what all did, sealed, fetched ──> sealed here

Every part is made by an agent (`in_part`), with the ordinary runner: those of the load on client
hosts, the server's half on the host that `[server]` names, or on this machine. What each host
measured lies whole in `hosts/NAME` of the run's folder, but for the tables that are the run's own
(`adopting`); what the server's half left on this machine is the run's own, too. A host that fails
or is lost fails the run, with its name; the others end.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from nfslab import clock
from nfslab.context import HostPart, Share, TimedPart
from nfslab.errors import NfslabError, RunFailed
from nfslab.experiment.adopting import as_host, sealed_elsewhere, take_tables
from nfslab.experiment.execution import Execution
from nfslab.experiment.host_checks import host_checks, told_by
from nfslab.experiment.host_facts import room
from nfslab.experiment.in_part import AskedPart, asked_of
from nfslab.experiment.members import awaited_members
from nfslab.experiment.provenance import fingerprint, provenance, source_commit
from nfslab.experiment.run_hosts import RunHosts, told_by_agent
from nfslab.experiment.sections import CLUSTER
from nfslab.hosts.local import LocalHost
from nfslab.machine.load import OthersWindow
from nfslab.results.catalogue import HOSTS, RUNS, read_provenance
from nfslab.results.records import CheckRecord, RunHostRecord
from nfslab.results.setup import machine_digest
from nfslab.workloads.base import RunContext

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.cluster.base import Cluster
    from nfslab.experiment.execution import Carrying
    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.run_hosts import RunHost
    from nfslab.experiment.setup import CollectorSetup
    from nfslab.machine.resources import Resources
    from nfslab.results.store import PartialRun
    from nfslab.workloads.base import Outcome

OF_A_HOST: Final = ("boot_id", "kernel", "cpus", "nfslab", "core", "emulated")
"""Facts of a host that its record keeps."""
DEATH_WAIT_S: Final = 1.0
"""How long a dying server may take to end after a client noticed."""
AGAIN: Final = "run it again; if it stays so, see that host's nfslab and disk"


class MultiHostRun(Execution):
    """Makes one run by agents on several hosts. `execute` is called once."""

    def __init__(self, carrying: Carrying, run: PlannedRun, position: int) -> None:
        super().__init__(carrying, run, position)
        self._has_server = self._workload.has_server
        self._is_here = not self.setup.server.is_elsewhere
        """The server's half is made on this machine."""
        self._cluster: Cluster | None = None
        self._hosts = RunHosts(carrying.show_phase, self._remaining_s)
        self._emulated = False
        self._start_ns = 0
        self._zero_ns = 0
        """t = 0 of the run's tables."""

    def _forward(self, partial: PartialRun, resources: Resources) -> None:
        self._settle()
        with self.phase("hosts up"):
            self._bring_up_hosts(resources)
        hosts = dict.fromkeys(("server", "client"), here := LocalHost())
        self.found.context = context = self._context(
            partial, resources, hosts, timed=TimedPart(here.monotonic_ns)
        )
        with self.phase("provenance"):
            self.found.hosts = {side: host.record() for side, host in hosts.items()}
            told = {side: record.model_dump() for side, record in self.found.hosts.items()}
            self.found.provenance = provenance([], [], resources.token) | {"hosts": told}
        with self.phase("prepare"):
            self._prepare()
        self.stop.check()
        others = OthersWindow()
        with self.phase("measure"):
            self._measure(context)
        if not self._workload.others_serve:
            self.found.others_during = others.finish(resources.token)
        with self.phase("gather"):
            parts = self._gather(context)
        with self.phase("verify"):
            self._end_server(context, parts)
            self._require_truth()

    def _bring_up_hosts(self, resources: Resources) -> None:
        """Begins an agent on each, and waits until all are ready."""
        found = awaited_members(
            self.setup, resources, self.carrying.kernels,
            remaining_s=self._remaining_s, show=self.carrying.show_phase,
        )  # fmt: skip
        self._cluster = found.cluster
        self._hosts.begin(found.clients, found.server)
        self._emulated = any(host.is_emulated for host in self._hosts.all)
        processes = self.setup.client.processes
        addresses = tuple(host.member.address for host in self._hosts.hosts)
        self._link = replace(found.link, clients=addresses)
        for host in self._hosts.hosts:
            room(host.name, host.facts, processes, self._workload.connections(processes))

    @property
    def _server(self) -> RunHost:
        assert self._hosts.serving is not None
        return self._hosts.serving

    def _watches(self, one: CollectorSetup, host: RunHost) -> bool:
        """Is a collector that host's: of its side, or its machine where no other watches that?"""
        if host.serves:
            return one.side() == "server" or self._has_server
        is_seen = host.is_prime and self._server.is_prime
        if one.of_machine() or self._has_server:
            return not is_seen and (one.of_machine() or one.side() == "client")
        return one.side() != "server"

    def _prepare(self) -> None:
        """Has the server's half prepared, then what is shared by one client host, then the rest."""
        self._hosts.await_all("at prepare", of=self._ask([self._server]))
        self._let_prepare([self._server])
        endpoint = told_by_agent(self._server, "serves", "endpoint", dict)
        first, *others = self._ask(self._hosts.hosts, endpoint=endpoint)
        self._hosts.await_all("at prepare")
        for some in ([first], others):
            self._let_prepare(some)
        self._hosts.tell_all("go", gate="drop")
        self._hosts.await_all("at measure")

    def _ask(self, hosts: Sequence[RunHost], **told: Any) -> Sequence[RunHost]:
        """Gives each of them its part."""
        for number, host in enumerate(hosts):
            asked = self._asked(number, host).model_copy(update=told)
            host.agent.tell("run", asked=asked.model_dump(mode="json"))
        return hosts

    def _let_prepare(self, hosts: Sequence[RunHost]) -> None:
        for host in hosts:
            host.agent.tell("go", gate="prepare")
        self._hosts.await_all("at drop", of=hosts)

    def _measure(self, context: RunContext) -> None:
        """Has all hosts do their timed part."""
        try:
            self._load(context)
        except RunFailed:
            # What became of the server may be why a host failed.
            if self._has_server or not self._is_here:
                self._hosts.require_server(DEATH_WAIT_S)
            raise

    def _load(self, context: RunContext) -> None:
        """Gives all one instant once they are armed; each has its timed part."""
        hosts = self._hosts
        hosts.tell_all("go", gate="measure")
        hosts.await_all("armed")
        hosts.compare_clocks(before=True)
        hosts.forget_silence()
        start_s = max(host.member.patience.start_s for host in hosts.all)
        self._start_ns = start_ns = clock.monotonic_ns() + round(start_s * 1e9)
        for host in hosts.all:
            host.agent.tell("start", at_ns=start_ns + host.before.offset_ns)
        hosts.await_all("measured", "load_s", of=hosts.hosts)
        context.timed.was(*self._timed_part_of_all(clock.monotonic_ns()))
        self._server.agent.tell("go", gate="measured")
        hosts.compare_clocks(before=False)
        hosts.await_all("measured", of=[self._server])
        if self._has_server:
            spent_s = self._server.said["measured"].get("server_cpu_s")
            self._workload.server_spent_s = spent_s if isinstance(spent_s, float) else None
            # Nobody loads it any more: collectors are off before client hosts seal.
            self._server.agent.tell("go", gate="finish")

    @staticmethod
    def _on_our_clock(host: RunHost, name: str) -> int | None:
        """Returns where its timed part began or ended; None: it did not say."""
        at_ns = host.said["measured"].get(name)
        return at_ns - host.before.offset_ns if isinstance(at_ns, int) else None

    def _timed_part_of_all(self, now_ns: int) -> tuple[int, int]:
        """Spans the first host's beginning to the last one's end, by their programs' account.

        Evidence is put on that axis when its collectors stop, as samples are when they are merged.
        """
        starts, ends = (
            [at for host in self._hosts.hosts if (at := self._on_our_clock(host, name)) is not None]
            for name in ("start_ns", "end_ns")
        )
        self._zero_ns = min(starts, default=self._start_ns)
        return self._zero_ns, max(ends, default=now_ns)

    def _gather(self, context: RunContext) -> list[HostPart]:
        """Brings home what client hosts sealed, and puts it together; RunFailed."""
        clients = self._hosts.hosts
        self._let_seal(clients)
        parts = self._fetched(context.folder, clients)
        outcome = self.found.outcome = self._workload.merge(context, parts)
        self.found.checks += outcome.checks
        self.found.client_hosts = [
            self._record(host, part) for host, part in zip(clients, parts, strict=True)
        ]
        self._tell_shares(outcome)
        return parts

    def _tell_shares(self, outcome: Outcome) -> None:
        """Notes what each host did, as the workload says."""
        records = self.found.client_hosts
        total = sum(one.operations for one in outcome.by_host.values())
        for record in records:
            did = outcome.by_host.get(record.name)
            if did is not None and total:
                record.operations, record.share = did.operations, did.operations / total
                record.mean_latency_ns = did.mean_latency_ns
                even = 1 / len(records)
                record.planned_share = even if did.planned_share is None else did.planned_share

    def _end_server(self, context: RunContext, parts: Sequence[HostPart]) -> None:
        """Has the server's half verified with what all hosts did, and brings it home; RunFailed."""
        found, host = self.found, self._server
        if self._has_server:
            found.checks += self._verified(host)
            self._hosts.await_all("sealed", of=[host])
        else:
            self._let_seal([host])
        (server,) = self._fetched(context.folder, [host])
        record = self._record(host, server)
        found.page_cache = server.record.page_cache
        start, end = context.timed.start_ns, context.timed.end_ns
        timed_ns = end - start if start is not None and end is not None else 0
        found.checks += host_checks(found.client_hosts, parts, timed_ns, record)
        found.checks += told_by(server, record)
        self._tell_places(parts[0], server)
        self._take_tables(context.folder, parts, server, record)
        if self._is_here:
            self._take_in(context, server)
        else:
            found.server_host = record
            found.notes += [f"{server.name}: {note}" for note in server.record.notes]

    def _take_in(self, context: RunContext, server: HostPart) -> None:
        """Makes what was made on this machine the run's own."""
        load = self.found.provenance.get("load_before")
        self.found.provenance = read_provenance(server.folder) | {"load_before": load}
        self.found.phases += [
            one.model_copy(update={"name": f"server/{one.name}"}) for one in server.record.phases
        ]
        context.notes[:0] = server.record.notes
        context.commands[:0] = server.record.commands
        for path in (server.folder / "logs").glob("*"):
            path.rename(context.logs / path.name)
        shutil.rmtree(server.folder)

    def _let_seal(self, hosts: Sequence[RunHost]) -> None:
        """Lets them end their part, and seal it."""
        for host in hosts:
            host.agent.tell("go", gate="finish")
        self._hosts.await_all("sealed", of=hosts)

    def _verified(self, host: RunHost) -> list[CheckRecord]:
        """Has the workload's own server verified, with what all hosts did; RunFailed."""
        host.agent.tell("verify", account=self._workload.account())
        self._hosts.await_all("verified", of=[host])
        told = told_by_agent(host, "verified", "checks", list)
        try:
            return TypeAdapter(list[CheckRecord]).validate_python(told)
        except ValidationError as error:
            raise RunFailed(
                f"what {host.said_as} verified cannot be read", why=str(error), fix=AGAIN
            ) from error

    def _fetched(self, run: Path, hosts: Sequence[RunHost]) -> list[HostPart]:
        """Brings the sealed runs of some hosts to `hosts` of the run's folder."""
        arrived = run / ".arrived"
        arrived.mkdir()
        self._hosts.fetch(arrived, hosts)
        (run / HOSTS).mkdir(exist_ok=True)
        parts = []
        for number, host in enumerate(hosts):
            sealed = arrived / host.name / RUNS / self.run.run_id
            record, _ = sealed_elsewhere(sealed, host.said_as, AGAIN)
            folder = sealed.rename(run / HOSTS / host.name)
            offset_ns = host.before.offset_ns
            parts.append(HostPart(host.name, self._share_of(number), folder, record, offset_ns))
        shutil.rmtree(arrived)
        return parts

    def _take_tables(
        self, run: Path, parts: Sequence[HostPart], server: HostPart, record: RunHostRecord
    ) -> None:
        """Takes the evidence of each of the two sides that is one host; RunFailed.

        With a server of the workload's own the server's side alone: what is watched is that.
        """
        clients, hosts, zero_ns = self.found.client_hosts, self.found.hosts, 0
        hosts["server"] = there = LocalHost().record() if self._is_here else as_host(record)
        if self._has_server:
            # Its clock is the run's: nothing of the run is on another one.
            hosts["client"], zero_ns = there, there.clock.offset_ns
        elif len(clients) == 1:
            hosts["client"], zero_ns = as_host(clients[0]), clients[0].clock.offset_ns
            self._watching.records += take_tables(run, parts[0], hosts["client"], 0)
        moved_ns = record.t0_ns + there.clock.offset_ns - zero_ns
        self._watching.records += take_tables(run, server, there, moved_ns)

    def _tell_places(self, client: HostPart, server: HostPart) -> None:
        """Notes mounts as client hosts have them, and what none mounts where it is served."""
        served = server.record.places
        if self._has_server:
            self.found.places_there = dict(served)
            return
        for role, place in client.record.places.items():
            nfs = place.facts.get("nfs")
            is_seen = not (nfs and nfs.get("client") == "none")
            self.found.places_there[role] = place if is_seen else served.get(role, place)

    def _record(self, host: RunHost, part: HostPart) -> RunHostRecord:
        """Returns what is kept of a host, but for what the workload says of it."""
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
        return Share(number, len(self._hosts.hosts), self.setup.client.processes)

    def _is_emulated(self) -> bool:
        """A client host's emulation is enough."""
        return self._emulated or super()._is_emulated()

    def _made(self, host: RunHost) -> dict[str, Any]:
        """Returns sections of a client host's provenance that only this machine knows."""
        made = {name: dict(section) for name, section in host.member.made.items()}
        return {name: section | {"runs_on": fingerprint()} for name, section in made.items()}

    def _asked(self, number: int, host: RunHost) -> AskedPart:
        """Makes the part of one host: its targets and collectors, not what is done elsewhere."""
        resolved = self.setup.resolved()
        resolved["client"] = {"host": LocalHost.kind}
        resolved.pop(CLUSTER, None)
        resolved.pop("server", None)
        resolved["limits"] |= {"settle_s": 0.0, "memory": None, "experiment_s": None}
        if not self._drops(host):
            resolved["limits"]["drop_page_cache"] = False
        resolved["collectors"] = {
            name: resolved["collectors"][name]
            for name, one in self.setup.collectors.items()
            if self._watches(one, host)
        }
        return AskedPart(
            **asked_of(self, resolved),
            commit=source_commit() if host.member.made else None,
            share=None if host.serves else self._share_of(number),
            link=self._link if host.serves else None,
            cache=str(self.carrying.cache) if host.serves and host.is_prime else None,
            is_prime=host.is_prime,
            made=self._made(host),
        )

    def _drops(self, host: RunHost) -> bool:
        """Who may drop the whole page cache of this machine does so once."""
        here = [one for one in (self._server, *self._hosts.hosts) if one.is_prime]
        return host not in here[1:] or os.geteuid() != 0

    def _take_down(self, partial: PartialRun) -> None:
        """Keeps what one left whose part failed; ends agents, if they are there, and hosts."""
        if self.found.context is not None and self.found.failure is not None:
            folder = self.found.context.folder
            self._step("finish", lambda: self._keep_what_failed(folder), partial)
        if self._cluster is not None:
            self._step("hosts down", self._hosts_down, partial)

    def _hosts_down(self) -> None:
        """Clients' agents end before the server's: who waits for its reply takes long."""
        cluster, self._cluster = self._cluster, None
        assert cluster is not None
        self.found.notes += cluster.notes
        for member in cluster.members:
            self.found.notes += [f"{member.name}: {note}" for note in member.notes]
        try:
            self._hosts.end()
        finally:
            cluster.close()

    def _keep_what_failed(self, run: Path) -> None:
        """Keeps what a host sealed whose part failed, as its logs may tell why; else the logs of
        the servers here."""
        arrived = run / ".failed"
        try:
            arrived.mkdir()
            for name in self._hosts.fetch_failed(arrived):
                sealed = arrived / name / RUNS / self.run.run_id
                sealed_elsewhere(sealed, f"host {name}", AGAIN)
                (run / HOSTS).mkdir(exist_ok=True)
                sealed.rename(run / HOSTS / name)
            server = self._hosts.serving
            if self._is_here and server is not None and not (run / HOSTS / server.name).exists():
                server.agent.fetch(arrived / server.name)
                (run / "logs").mkdir(exist_ok=True)
                for path in (arrived / server.name / RUNS).glob("*/logs/*"):
                    path.rename(run / "logs" / path.name)
        except (NfslabError, OSError) as error:
            self.found.notes.append(f"what a client host left cannot be kept: {error}")
        finally:
            shutil.rmtree(arrived, ignore_errors=True)
