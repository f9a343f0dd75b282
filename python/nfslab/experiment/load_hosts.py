"""Points of `nfslab sfs` made by several hosts: agents begun once, a point after the other.

    hosts up, an agent on each (`in_point`) ──> for each point: plan ──> prepared: the first, then
    the others ──> all connected, clocks compared ──> one instant ──> sums of all ──> one report

What a point is, and what its sums add up to, is that of an experiment's run on client hosts; the
search and the ladder know nothing of hosts. A host that is lost is the reason, with its name, why
that point and those behind it are not measured.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.cluster.settings import ClusterSection
from nfslab.context import Share
from nfslab.errors import NfslabError, RunFailed, UsageError
from nfslab.experiment.host_checks import start_skew
from nfslab.experiment.host_facts import room
from nfslab.experiment.in_point import AskedPoint
from nfslab.experiment.members import KINDS, members_of
from nfslab.experiment.run_hosts import RunHosts
from nfslab.experiment.sections import CLUSTER, Client, Server
from nfslab.machine.resources import Resources
from nfslab.offered.hosts import Handed, joined, moved
from nfslab.offered.plans import PARTS_MAX
from nfslab.results.records import RunHostRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from nfslab._core import Load
    from nfslab.experiment.run_hosts import RunHost
    from nfslab.hosts.base import Link
    from nfslab.offered.measuring import Show

MODULE: Final = "nfslab.experiment.in_point"


@dataclass(frozen=True, slots=True)
class AskedHosts:
    """Which hosts; those of an experiment's sections."""

    client: Client
    cluster: ClusterSection | None = None
    server: Server = field(default_factory=Server)


def asked_hosts(
    text: str, *, namespaces: bool, scheduler: str | None, certificates: Path | None
) -> AskedHosts:
    """From a command's options: a number of hosts, or names with commas; UsageError."""
    kind = "namespace" if namespaces else "local" if scheduler is None else CLUSTER
    names = [name.strip() for name in text.split(",")]
    hosts = int(text) if text.isdecimal() else names
    try:
        client = Client.model_validate({"host": kind, "hosts": hosts})
        if scheduler is None:
            return AskedHosts(client)
        folder = None if certificates is None else str(certificates)
        return AskedHosts(client, ClusterSection(scheduler=scheduler, certificates=folder))
    except ValueError as error:
        why = "; ".join(one["msg"].removeprefix("Value error, ") for one in _errors(error))
        raise UsageError(
            f"--hosts {text} cannot be", why=why, fix="for instance: --hosts 4, --hosts load1,load2"
        ) from error


def _errors(error: ValueError) -> list[Any]:
    from pydantic import ValidationError

    return list(error.errors()) if isinstance(error, ValidationError) else [{"msg": str(error)}]


class LoadHosts:
    """Hosts that make points together."""

    def __init__(self, clients: RunHosts, processes: int, link: Link) -> None:
        self._clients = clients
        self._processes = processes
        self.link = link
        """Between them and a server of this machine."""
        self._broken: NfslabError | None = None
        """Why there is no further point: one of them is gone, others wait for it."""

    @classmethod
    @contextlib.contextmanager
    def up(cls, asked: AskedHosts, processes: int) -> Iterator[LoadHosts]:
        """With so many generator processes on each, until the block ends; RunFailed, UsageError."""
        if (of := len(asked.client.host_names) * processes) > PARTS_MAX:
            raise UsageError(
                f"{of:,} generator processes", why=f"{PARTS_MAX} make one load at most",
                fix="give fewer --hosts or --generators",
            )  # fmt: skip
        usable = KINDS[asked.client.host].available(asked, processes, processes)
        if not usable.ok:
            raise RunFailed(usable.reason, fix=usable.fix)
        with Resources("sfs on hosts") as resources:
            found = members_of(asked, resources)
            clients = RunHosts(lambda _: None, lambda: None)
            try:
                clients.begin(found.clients, module=MODULE)
                for host in clients.hosts:
                    room(host.name, host.facts, processes, processes)
                addresses = tuple(host.member.address for host in clients.hosts)
                yield cls(clients, processes, replace(found.link, clients=addresses))
            finally:
                clients.end()
                found.cluster.close()

    def measured(self, plan: dict[str, Any], show: Show) -> tuple[dict[str, Any], Load]:
        """One point of all of them: its report, and what has its histograms; RunFailed, CoreError.

        Begun together or invalid, as a run is. After a failure there is no further point.
        """
        from nfslab._core import Load

        if self._broken is not None:
            raise self._broken
        of = len(self._clients.hosts) * self._processes
        for index in range(of):
            Load(
                json.dumps(plan | {"part": {"index": index, "of": of}})
            )  # refused before it begins
        try:
            return self._measured(plan, show)
        except NfslabError as error:
            self._broken = error
            raise

    def _measured(self, plan: dict[str, Any], show: Show) -> tuple[dict[str, Any], Load]:
        clients = self._clients
        shares = [(host.name, self._share(i)) for i, host in enumerate(clients.hosts)]
        clients.forget_said()
        states: dict[str, dict[str, Any]] = {}

        def told(host: RunHost, state: dict[str, Any]) -> None:
            states[host.name] = state
            if host is clients.hosts[0]:
                show(_together(state, list(states.values())))

        clients.told = told
        for host, (_, share) in zip(clients.hosts, shares, strict=True):
            asked = AskedPoint(plan=plan, indices=list(share.indices), of=share.of)
            host.agent.tell("run", asked=asked.model_dump(mode="json"))
        clients.await_all("at prepare")
        for some in (clients.hosts[:1], clients.hosts[1:]):
            for host in some:
                host.agent.tell("go", gate="prepare")
            clients.await_all("at connect", of=some)
        clients.tell_all("go", gate="connect")
        clients.await_all("armed")
        clients.compare_clocks(before=True)
        start_s = max(host.member.patience.start_s for host in clients.hosts)
        start_ns = clock.monotonic_ns() + round(start_s * 1e9)
        for host in clients.hosts:
            host.agent.tell("start", at_ns=start_ns + host.before.offset_ns)
        clients.await_all("measured", "load_s")
        handed = {host.name: _handed(host) for host in clients.hosts}
        report, load, figures = joined(plan, handed, shares)
        report["hosts"] = [
            {"host": name, "answered": of.answered, "response_mean_ns": of.mean_ns,
             "planned_share": of.planned_share} for name, of in figures.items()
        ]  # fmt: skip
        _judge(clients.hosts, handed, start_ns, report)
        return report, load

    def _share(self, number: int) -> Share:
        return Share(number, len(self._clients.hosts), self._processes)


def _together(beat: dict[str, Any], states: list[dict[str, Any]]) -> dict[str, Any]:
    """Progress of all: the first host gives the beat, counts are everybody's."""
    if beat.get("stage") != "run":
        return beat
    running = [state for state in states if state.get("stage") == "run"]
    sums = ("answered", "unexpected", "outstanding")
    return beat | {name: sum(state[name] for state in running) for name in sums}


def _handed(host: RunHost) -> list[Handed]:
    """What the processes of a host handed over, on our clock; RunFailed."""
    try:
        parts = [Handed.model_validate(one) for one in host.said["measured"]["parts"]]
        return [moved(one, host.before.offset_ns) for one in parts]
    except (ValueError, LookupError, TypeError) as error:
        raise RunFailed(
            f"what {host.name} measured cannot be read",
            why=str(error),
            fix="see that all hosts have the same nfslab",
        ) from error


def _judge(
    hosts: Sequence[RunHost], handed: dict[str, list[Handed]], start_ns: int, report: dict[str, Any]
) -> None:
    """The start as in a run's record; a host that began late makes the point invalid."""
    records = []
    for host, told in zip(hosts, report["hosts"], strict=True):
        begins = [one.began_ns for one in handed[host.name] if one.began_ns is not None]
        common_ns = start_ns + host.before.offset_ns
        skew_ns = max((begin - common_ns for begin in begins), key=abs, default=None)
        told |= {"skew_ns": skew_ns, "error_ns": host.before.error_ns}
        # One that measured nothing is a reason already.
        if skew_ns is not None:
            facts = {"emulated": host.is_emulated}
            records.append(
                RunHostRecord(name=host.name, skew_ns=skew_ns, clock=host.before, facts=facts)
            )
    if not records:
        return
    check = start_skew(records, report["window_end_ns"] - report["window_start_ns"])
    report["start_skew"] = {name: check.values[name] for name in ("effect_share", "limit_ns")}
    if check.verdict == "violation":
        report["reasons"].append({"kind": check.name, "text": check.message})
        report["valid"] = False
