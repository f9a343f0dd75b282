"""One run in a virtual machine with a kernel of its own: booted for it, ended after it.

    request ─► guest: boots, one run by its agent (`in_part`) ─► sealed in its folder
                                                                                │
            whole? marked, sealed in the experiment's folder  ◄─────────────────┘

The guest may write to one folder, which holds nothing else: no kernel under test can harm what was
finished. What it sealed is checked by its checksums, gets what only this machine knows (time with
the boot, what the guest runs on, another experiment beside it), and is sealed here, durably. A
guest that is lost half way leaves a failed run with the end of its console; a request to stop
discards the run, as that of any other.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.cluster.guests import GuestMember, Made
from nfslab.errors import RunFailed
from nfslab.experiment.adopting import sealed_elsewhere
from nfslab.experiment.execution import Execution
from nfslab.experiment.host_facts import MODULE
from nfslab.experiment.in_part import AskedPart, asked_of
from nfslab.experiment.provenance import fingerprint, source_commit
from nfslab.experiment.validity import another_experiment, emulated
from nfslab.machine import agent
from nfslab.quantities import format_duration
from nfslab.results.catalogue import PARTIAL_PREFIX, RUNS
from nfslab.results.emulation import CHECK
from nfslab.results.records import PhaseRecord
from nfslab.vm import kernel as kernel_files
from nfslab.workloads.base import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nfslab.cluster.guests import GuestAgent
    from nfslab.experiment.execution import Carrying
    from nfslab.experiment.guest_section import AskedKernel
    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.setup import Point
    from nfslab.experiment.stop import Stop
    from nfslab.machine.resources import Resources
    from nfslab.results.records import CatalogueLine, RunRecord
    from nfslab.results.store import PartialRun
    from nfslab.vm.kernel import Kernel

Kernels = dict["AskedKernel", "Kernel"]

START_S: Final = 600.0
"""From the guest's first program to the run's begin: imports take an emulated Python minutes."""
AFTER_S: Final = 300.0
"""What teardown and sealing may take beyond `limits.run_s`."""
LOOK_S: Final = 0.2
GUEST_UP: Final = "guest up"
AGAIN: Final = "the same command makes it again; with another kernel if it stays so"


def kernels_of(points: Sequence[Point], stop: Stop, say: Callable[[str], None]) -> Kernels:
    """Returns the kernels of all guests that points ask for; those not here yet are fetched.

    RunFailed, UsageError; Interrupted when asked to stop meanwhile.
    """
    found: Kernels = {}
    for asked in dict.fromkeys(
        part.asked_kernel
        for point in points
        for part in (point.setup.machine, point.setup.client, point.setup.server)
        if part.asked_kernel is not None
    ):
        kernel, modules = asked
        try:
            found[asked] = kernel_files.find(kernel, modules, say)
        except RunFailed:
            # Ctrl-C ends what fetches it, too.
            stop.check()
            raise
        say(f"kernel {kernel}: {found[asked].release}, in virtual machines")
    return found


class GuestRun(Execution):
    """Makes one run in a guest. `execute` is called once."""

    def __init__(self, carrying: Carrying, run: PlannedRun, position: int, kernel: Kernel) -> None:
        super().__init__(carrying, run, position)
        machine = self.setup.machine
        self._made = Made(machine.kernel or "", kernel, machine.size)
        self._member: GuestMember | None = None
        self._agent: GuestAgent | None = None
        self._heard: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._phase = ""
        """In the guest."""
        self._began_s = clock.monotonic()
        self._begins_s: float | None = None
        """When the run began there, by this machine's monotonic clock."""
        self._work = carrying.folder.runs_path.resolve() / f"{PARTIAL_PREFIX}{run.run_id}-guest"
        self._sealed: tuple[RunRecord, dict[str, Any]] | None = None
        """Record and provenance of what the guest sealed."""

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        """The guest has the run's limit; see `_require_time`."""
        yield

    def _forward(self, partial: PartialRun, resources: Resources) -> None:
        with self.phase(GUEST_UP):
            self._work.mkdir()
            self._member = member = GuestMember("guest", self._made, None, resources, self._work)
            self._agent = guest = member.begin(MODULE, self._heard.put)
            asked = AskedPart(
                **asked_of(self, self.setup.resolved()),
                primary=self.carrying.primary,
                commit=source_commit(),
            )
            guest.tell("run", asked=asked.model_dump(mode="json"))
            self._attend(guest)
        sealed = guest.folder / RUNS / self.run.run_id
        record, _ = self._sealed = sealed_elsewhere(sealed, "the virtual machine", AGAIN)
        sealed.rename(self._work / self.run.run_id)
        self.found.outcome = Outcome(metrics=record.metrics)

    def _attend(self, guest: GuestAgent) -> None:
        """Hears it until it has ended; RunFailed, Interrupted."""
        ready_s: float | None = None
        while True:
            self.stop.check()
            if ready_s is None and guest.guest is not None and guest.guest.ready:
                ready_s = clock.monotonic()
            self._require_time(guest, ready_s)
            try:
                said = clock.get(self._heard, LOOK_S)
            except queue.Empty:
                continue
            match said:
                case {"event": "begins"}:
                    self._begins_s = clock.monotonic()
                case {"event": "phase", "phase": str(name)}:
                    self._phase = name
                    self.carrying.show_phase(name)
                case {"event": "error", "what": str()}:
                    raise agent.error_of(said)
                case {"event": "ended", "why": str(why)}:
                    if why.partition(" (")[0] == "exit code 0":
                        return
                    raise RunFailed(
                        f"nfslab ended in the virtual machine: {why}",
                        fix="try `nfslab vm run -- nfslab doctor` with the same kernel",
                    )

    def _require_time(self, guest: GuestAgent, ready_s: float | None) -> None:
        """Raises RunFailed where nfslab does not begin there, or the run does not end."""
        limit_s, now_s = self.setup.limits.run_s + AFTER_S, clock.monotonic()
        if self._begins_s is not None and now_s - self._begins_s > limit_s:
            said = f"the run did not end within {format_duration(limit_s)}: its limit, and "
            said += f"{format_duration(AFTER_S)} for taking down"
        elif self._begins_s is None and ready_s is not None and now_s - ready_s > START_S:
            said = f"nfslab did not start in the virtual machine within {format_duration(START_S)}"
        else:
            return
        assert guest.guest is not None
        raise guest.guest.lost(said)

    def _failed(self, error: Exception, partial: PartialRun) -> None:
        self._failed_in = f"guest/{self._phase}" if self._phase else GUEST_UP
        self.found.provenance = self._provenance()
        super()._failed(error, partial)

    def _take_down(self, partial: PartialRun) -> None:
        if self._agent is not None:
            self._step("guest down", self._agent.end, partial)
        if self._member is not None:
            self.found.notes += self._member.notes
        if self._sealed is None:
            shutil.rmtree(self._work, ignore_errors=True)

    def _is_emulated(self) -> bool:
        return self._member is not None and self._member.kvm is False

    def _seal(self, partial: PartialRun, started_ns: int, duration_ns: int) -> CatalogueLine:
        """Seals what the guest did, with what only this machine knows; or a run that failed."""
        if self._sealed is None:
            return super()._seal(partial, started_ns, duration_ns)
        record, provenance = self._sealed
        checks = list(record.checks)
        if (self.carrying.turn.beside() or self._was_beside) and record.status == "ok":
            checks.append(another_experiment())
        if self._is_emulated() and CHECK not in [check.name for check in checks]:
            checks.append(emulated())
        begins_s = self._begins_s or self._began_s
        up_ns = round((begins_s - self._began_s) * 1e9)
        up = PhaseRecord(name=GUEST_UP, start_unix_ns=started_ns, duration_ns=up_ns)
        whole = {
            "checks": checks,
            "notes": [*record.notes, *self.found.notes],
            "phases": [up, *record.phases],
            "started_unix_ns": started_ns,
            "duration_ns": duration_ns,
        }
        partial.discard()
        try:
            adopted = self.carrying.folder.adopt_run(self._work / self.run.run_id)
            return adopted.seal(record.model_copy(update=whole), provenance | self._provenance())
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    def _provenance(self) -> dict[str, Any]:
        """Returns that of the guest as it was made."""
        made = {} if self._member is None else self._member.made
        return {name: section | {"runs_on": fingerprint()} for name, section in made.items()}
