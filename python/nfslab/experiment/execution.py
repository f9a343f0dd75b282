"""One run, from a free machine to a sealed folder and a free machine again.

    settle -> hosts up -> targets up -> provenance -> prepare -> page cache dropped -> collectors on
    -> measure -> collectors off -> verify | finish -> targets down -> hosts down
    -> checks -> sealed

Right of the bar is always done, whatever happened left of it, each step guarded so that
one that fails hides neither the first error nor the other steps. Four ways out:

* everything went well: sealed as ok;
* something that can happen happened (a full disk, a dead server, a time limit, an
  invariant that does not hold): sealed as failed, with the reason and the phase;
* a defect of nfslab or of a plug-in: sealed as failed, the traceback in its logs;
* somebody asked to stop, or no run can begin any more: discarded, as if it had never begun.

Samples and evidence are written after the targets are down: they never compete with the
workload for the disk, and a disk that the workload filled has room again.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab import clock
from nfslab.errors import Interrupted, NfslabError, RunFailed
from nfslab.experiment.failure import CannotGoOn, Failure, expected, keep_traceback, reason_of
from nfslab.experiment.identity import derived_seed
from nfslab.experiment.preflight import needed_bytes, require_here
from nfslab.experiment.sealing import Findings, Sealing
from nfslab.experiment.stop import run_over
from nfslab.experiment.validity import (
    Clocks,
    another_experiment,
    emulated,
    memory_check,
    worst_violations,
)
from nfslab.experiment.watching import Watching
from nfslab.hosts.registry import host_class
from nfslab.machine.emulation import is_emulated
from nfslab.machine.load import OthersWindow, is_here
from nfslab.quantities import format_size
from nfslab.results.records import CatalogueLine, CheckRecord, PhaseRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from nfslab.context import Share, TimedPart
    from nfslab.experiment.guest_run import Kernels
    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.setup import TargetSetup
    from nfslab.experiment.stop import Stop
    from nfslab.hosts.base import Host
    from nfslab.machine.cgroup import Cgroup
    from nfslab.machine.resources import Resources
    from nfslab.machine.turn import Turn
    from nfslab.results.records import ExperimentRecord, Metric
    from nfslab.results.store import ExperimentFolder, PartialRun
    from nfslab.targets.base import Place, Target
    from nfslab.workloads.base import RunContext

TEARDOWN_S = 60.0
"""What a workload's `finish` is told that it has left, also after a limit or a Ctrl-C."""


@dataclass(slots=True)
class Carrying:
    """What a run needs besides its own parameters; the same for all runs of a call."""

    folder: ExperimentFolder
    record: ExperimentRecord
    cache: Path
    stop: Stop
    turn: Turn
    show_phase: Callable[[str], None]
    primary: str | None = None
    asked: bool = True
    """Whether the point can run here was asked before anything ran."""
    kernels: Kernels = field(default_factory=dict)
    """Of virtual machines that runs make."""


class RunExecution:
    """One run under way. `execute` is called once."""

    def __init__(self, carrying: Carrying, run: PlannedRun, position: int) -> None:
        self.carrying = carrying
        self.run = run
        self.position = position
        self.setup = run.point.setup
        self.stop = carrying.stop
        self.clocks = Clocks()
        self.found = Findings()
        self.found.primary = carrying.primary
        self._phases: list[str] = []
        self._failed_in = ""
        self._up: list[tuple[Target, Place]] = []
        self._hosts: dict[str, Host] = {}
        """"server" and "client", those that are up."""
        self._over = False
        self._was_beside = False
        self._cgroup: Cgroup | None = None
        self._share: Share | None = None
        self._workload = self.setup.workload.make()
        self._watching = Watching(self.setup.collectors)

    def execute(self) -> CatalogueLine:
        """Carry the run out; its line of the catalogue.

        Raises `Interrupted` or `CannotGoOn` (nothing is left of the run), or `ResultsError`/
        `RunFailed` when not even a failed run can be stored: then going on makes no sense.
        """
        partial = self.carrying.folder.begin_run(self.run.run_id)
        self._was_beside = self.carrying.turn.beside()
        started_ns, began = self.clocks.read()
        given_up: NfslabError | None = None
        try:
            given_up = self._guarded(partial)
            self.stop.shield()
            _, ended = self.clocks.read()
            if given_up is None:
                return self._seal(partial, started_ns, ended - began)
        finally:
            partial.discard()
        assert given_up is not None
        raise given_up

    def primary_metric(self) -> tuple[str, Metric] | None:
        """Name and value of the metric that is shown first; None without one."""
        metrics = self.found.metrics()
        return next(((name, m) for name, m in metrics.items() if m.primary), None)

    def _guarded(self, partial: PartialRun) -> NfslabError | None:
        """The run and its teardown; why it is given up is returned, a failure noted."""
        from nfslab.machine.resources import Resources

        given_up: NfslabError | None = None
        resources: Resources | None = None
        try:
            resources = Resources(self.run.run_id)
            limit_s = self.setup.limits.run_s
            with (
                self.stop.deadline(limit_s, lambda: run_over(limit_s)),
                self.stop.interruptible(),
            ):
                self._forward(partial, resources)
        except (Interrupted, CannotGoOn, KeyboardInterrupt) as error:
            self.stop.shield()
            given_up = error if isinstance(error, NfslabError) else Interrupted("interrupted")
        except Exception as error:
            self.stop.shield()
            self._failed(error, partial)
        self.stop.shield()
        self._teardown(resources, partial)
        return given_up

    def _forward(self, partial: PartialRun, resources: Resources) -> None:
        """Everything up to `verify`."""
        limits = self.setup.limits
        if not self.carrying.asked:
            with self.phase("preflight"):
                self._require_here()
        if limits.settle_s > 0:
            with self.phase("settle"):
                until = clock.monotonic() + limits.settle_s
                while (left := until - clock.monotonic()) > 0:
                    clock.sleep(min(0.1, left, self.stop.remaining_s()))
        self._bring_up_hosts(resources)
        with self.phase("targets up"):
            self._bring_up(resources)
        self.found.context = context = self._make_context(partial, resources)
        with self.phase("provenance"):
            self._look_around()
        with self.phase("prepare"):
            self._require_space()
            self._watching.ready(context)
            self._workload.prepare(context)
        if limits.drop_page_cache:
            from nfslab.storage.page_cache import drop_page_cache

            with self.phase("drop page cache"):
                self.found.page_cache = drop_page_cache(
                    [p.path for p in self.found.places.values()]
                )
        else:
            self.found.page_cache = {"dropped": "no", "reason": "limits.drop_page_cache = false"}
        self.stop.check()
        try:
            self._start_watching(context)
            others = OthersWindow()
            with self.phase("measure"):
                _, start_ns = self.clocks.read()
                self.found.outcome = self._workload.measure(context)
                _, end_ns = self.clocks.read()
            if context.timed.start_ns is None:
                context.timed.was(start_ns, end_ns)
            if self._is_ours():
                self.found.others_during = others.finish(resources.token)
        finally:
            self._watching.stop(partial.logs)
        self._watching.require()
        self._gather()
        self.stop.check()
        self.found.checks += self.found.outcome.checks
        with self.phase("verify"):
            self.found.checks += self._workload.verify(context, self.found.outcome)
            self._require_truth()

    def _require_here(self) -> None:
        """RunFailed when this machine cannot make it."""
        require_here(self.run.point)

    def _start_watching(self, context: RunContext) -> None:
        self._watching.start(context, self.phase)

    def _gather(self) -> None:
        """Nobody else has figures of it."""

    def _is_ours(self) -> bool:
        """Does nothing on this machine work for the run that neither we nor the kernel started?

        What a server or a file system in a program that was there before uses is the load's."""
        places = self.found.places.values()
        return not self._workload.others_serve and not any(map(_others_serve, places))

    def _is_emulated(self) -> bool:
        """Did software stand for a processor that took part?"""
        return is_emulated()

    def _require_truth(self) -> None:
        """What the workload itself found to be wrong fails the run."""
        bad = worst_violations(self.found.checks)
        if bad:
            raise RunFailed(
                "the run's own checks failed: " + "; ".join(check.message for check in bad),
                why=f"violated: {', '.join(check.name for check in bad)}",
                fix="see the checks' figures with `nfslab show`, and the run's logs",
            )

    def _bring_up_hosts(self, resources: Resources) -> None:
        """The servers' host is this machine; the client's is what `client.host` says."""
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
        """Every target that plays a role, each once, on the host that uses its files."""
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
        """Where the targets' files are used."""
        return self._hosts[self._workload.files_on]

    def _target(self, setup: TargetSetup) -> Target | None:
        """A target of the run; None: it is not up here."""
        return setup.make()

    def handed_on(self) -> dict[str, Any]:
        """Target that is up -> what other hosts need to use it."""
        return {place.target: target.handed_on(place) for target, place in self._up}

    def _timed_part(self, host: Host) -> TimedPart:
        """On the clock of the client's host."""
        from nfslab.context import TimedPart

        return TimedPart(host.monotonic_ns)

    def _make_context(self, partial: PartialRun, resources: Resources) -> RunContext:
        """What the workload and the collectors share."""
        from nfslab.context import Services
        from nfslab.workloads.base import RunContext

        hosts, services = dict(self._hosts), Services(memory_cgroup=self._cgroup)
        if self._cgroup is not None:
            hosts = {side: host.limited(self._cgroup) for side, host in hosts.items()}
        for target, place in self._up:
            target.offer(place, services)
        return RunContext(
            # Whole: programs are started in other folders than ours.
            folder=partial.path.absolute(),
            cache=self.carrying.cache,
            places=self.found.places,
            server_host=hosts["server"],
            client_host=hosts["client"],
            resources=resources,
            seed=derived_seed(self.carrying.record.seed, self.run.block),
            phase=self.phase,
            say=self.carrying.show_phase,
            remaining_s=self._remaining_s,
            timed=self._timed_part(hosts["client"]),
            services=services,
            files_on=self._workload.files_on,
            share=self._share,
        )

    def _remaining_s(self) -> float:
        """For the workload: time left. Its teardown is given time whatever happened."""
        return TEARDOWN_S if self._over else self.stop.remaining_s()

    def _look_around(self) -> None:
        """The machine as it is right before the run, its load included."""
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

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a phase, show it, and remember it as the place of a failure."""
        self._phases.append(name)
        self.carrying.show_phase(name)
        wall_ns, began = self.clocks.read()
        try:
            yield
        except BaseException:
            self._failed_in = self._failed_in or "/".join(self._phases)
            raise
        finally:
            _, ended = self.clocks.read()
            self.found.phases.append(
                PhaseRecord(
                    name="/".join(self._phases),
                    start_unix_ns=wall_ns,
                    duration_ns=ended - began,
                )
            )
            self._phases.pop()
            if self._phases:
                self.carrying.show_phase(self._phases[-1])

    def _failed(self, error: Exception, partial: PartialRun) -> None:
        """Note why the run failed; the first reason is the one that counts."""
        if not expected(error):
            keep_traceback(error, partial.logs)
        self.found.fail(Failure(reason_of(error), self._failed_in or "start"))

    def _teardown(self, resources: Resources | None, partial: PartialRun) -> None:
        """Stop and remove everything, whatever state it is in."""
        self._over = True
        self._failed_in = ""
        self._watching.stop(partial.logs)
        context = self.found.context
        if context is not None:
            self._step("finish", lambda: self._workload.finish(context), partial)
        if self._cgroup is not None:
            self._step("memory limit", self._read_memory_limit, partial)
        for target, place in reversed(self._up):
            self._step("targets down", lambda t=target, p=place: t.down(p), partial)  # type: ignore[misc]
        if self._hosts_are_up():
            self._step("hosts down", self._hosts_down, partial)
        left = resources.close() if resources is not None else []
        if left:
            self.found.notes.append(f"had to be cleaned up after the run: {'; '.join(left)}")

    def _hosts_are_up(self) -> bool:
        """Whether there are others than this machine."""
        client = self._hosts.get("client")
        return client is not None and client is not self._hosts["server"]

    def _hosts_down(self) -> None:
        self._hosts["client"].down()

    def _step(self, name: str, action: Callable[[], None], partial: PartialRun) -> None:
        """One step of the teardown; what it raises is noted and the others go on.

        The figures of a run are measured and verified before: one that cannot be taken
        down in good order stays what it was, with a warning.
        """
        try:
            with self.phase(name):
                action()
        except Exception as error:
            if self.found.failure is not None or not expected(error):
                self._failed(error, partial)
            else:
                reason = reason_of(error)
                message = f"the run was not taken down in good order ({name}): {reason}"
                self.found.checks.append(
                    CheckRecord(name="teardown", verdict="warning", message=message)
                )
            self._failed_in = ""

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

    def _seal(self, partial: PartialRun, started_ns: int, duration_ns: int) -> CatalogueLine:
        """Check what was measured and store it."""
        self.carrying.show_phase("seal")
        sealing = Sealing(
            folder=self.carrying.folder,
            experiment=self.carrying.record,
            run=self.run,
            position=self.position,
            found=self.found,
            watching=self._watching,
            load=self._workload.load_shape(),
            started_unix_ns=started_ns,
            duration_ns=duration_ns,
        )
        if self.found.failure is None:
            sealing.check(self.clocks, partial.logs)
            if self.carrying.turn.beside() or self._was_beside:
                self.found.checks.append(another_experiment())
        if self._is_emulated():
            self.found.checks.append(emulated())
        return sealing.store(partial)


def _others_serve(place: Place) -> bool:
    """May a program of this machine that was there before serve it?"""
    nfs = place.facts.get("nfs")
    if nfs is None:
        return place.filesystem.startswith("fuse")
    source = nfs.get("server") if ":/" in str(nfs.get("server")) else place.source
    return "served" not in nfs and is_here(source.partition(":/")[0].strip("[]"))
