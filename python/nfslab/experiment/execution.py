"""One run, from a free machine to a sealed folder and a free machine again.

    forward: made, measured, verified | taken down -> checks -> sealed

Right of the bar is always done, whatever happened left of it, each step guarded so that
one that fails hides neither the first error nor the other steps. Who makes it: this process
(`run_execution`), agents on several hosts (`multi_host_run`), a guest (`guest_run`). Four ways out:

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
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab import clock
from nfslab.errors import Interrupted, NfslabError, RunFailed
from nfslab.experiment.failure import CannotGoOn, Failure, expected, keep_traceback, reason_of
from nfslab.experiment.identity import derived_seed
from nfslab.experiment.sealing import Findings, Sealing
from nfslab.experiment.stop import run_over
from nfslab.experiment.validity import (
    Clocks,
    another_experiment,
    emulated,
    worst_violations,
)
from nfslab.experiment.watching import Watching
from nfslab.machine.emulation import is_emulated
from nfslab.results.records import CatalogueLine, CheckRecord, PhaseRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from nfslab.experiment.guest_run import Kernels
    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.stop import Stop
    from nfslab.hosts.base import Host
    from nfslab.machine.resources import Resources
    from nfslab.machine.turn import Turn
    from nfslab.results.records import ExperimentRecord, Metric
    from nfslab.results.store import ExperimentFolder, PartialRun
    from nfslab.workloads.base import RunContext

TEARDOWN_S = 60.0
"""What a workload's `finish` is told that it has left, also after a limit or a Ctrl-C."""


@dataclass(slots=True)
class Carrying:
    """Holds what a run needs besides its own parameters; the same for all runs of a call."""

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


class Execution(ABC):
    """Makes one run, wherever its parts are. `execute` is called once."""

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
        self._over = False
        self._was_beside = False
        self._workload = self.setup.workload.make()
        self._watching = Watching({})

    def execute(self) -> CatalogueLine:
        """Carries the run out and returns its line of the catalogue.

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
        """Returns name and value of the metric that is shown first; None without one."""
        metrics = self.found.metrics()
        return next(((name, m) for name, m in metrics.items() if m.primary), None)

    def _guarded(self, partial: PartialRun) -> NfslabError | None:
        """Makes the run and takes it down; why it is given up is returned, a failure noted."""
        from nfslab.machine.resources import Resources

        given_up: NfslabError | None = None
        resources: Resources | None = None
        try:
            resources = Resources(self.run.run_id)
            with self._bounded():
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

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        """Bounds the run in time, and lets it be stopped."""
        limit_s = self.setup.limits.run_s
        with self.stop.deadline(limit_s, lambda: run_over(limit_s)), self.stop.interruptible():
            yield

    @abstractmethod
    def _forward(self, partial: PartialRun, resources: Resources) -> None:
        """Does everything up to the last check of what was measured."""

    @abstractmethod
    def _take_down(self, partial: PartialRun) -> None:
        """Stop and remove what is up, in whatever state it is, by steps."""

    def _settle(self) -> None:
        """Leave the machine alone for a while."""
        if (settle_s := self.setup.limits.settle_s) > 0:
            with self.phase("settle"):
                until = clock.monotonic() + settle_s
                while (left := until - clock.monotonic()) > 0:
                    clock.sleep(min(0.1, left, self.stop.remaining_s()))

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

    def _context(
        self, partial: PartialRun, resources: Resources, hosts: Mapping[str, Host], **more: Any
    ) -> RunContext:
        """Returns what those who make the run share."""
        from nfslab.workloads.base import RunContext

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
            files_on=self._workload.files_on,
            **more,
        )

    def _remaining_s(self) -> float:
        """Returns the time left, for the workload. Its teardown is given time whatever happened."""
        return TEARDOWN_S if self._over else self.stop.remaining_s()

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
        """Take everything down."""
        self._over = True
        self._failed_in = ""
        self._watching.stop(partial.logs)
        self._take_down(partial)
        left = resources.close() if resources is not None else []
        if left:
            self.found.notes.append(f"had to be cleaned up after the run: {'; '.join(left)}")

    def _step(self, name: str, action: Callable[[], None], partial: PartialRun) -> None:
        """Does one step of the teardown; what it raises is noted and the others go on.

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
