"""One run in a virtual machine with a kernel of its own: booted for it, ended after it.

    request ─► guest: boots, one run by the ordinary runner (`in_guest`) ─► sealed in its folder
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
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.experiment.adopting import sealed_elsewhere
from nfslab.experiment.execution import Execution
from nfslab.experiment.in_guest import MODULE, AskedRun, asked_of
from nfslab.experiment.provenance import fingerprint, source_commit
from nfslab.experiment.validity import another_experiment, emulated
from nfslab.machine import agent
from nfslab.machine.own_command import importing_us
from nfslab.quantities import format_duration
from nfslab.results.catalogue import PARTIAL_PREFIX, RUNS
from nfslab.results.emulation import CHECK
from nfslab.results.records import PhaseRecord
from nfslab.vm import kernel as kernel_files
from nfslab.vm.guest import Tail
from nfslab.vm.run import Boot, as_made, attended
from nfslab.workloads.base import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nfslab.experiment.execution import Carrying
    from nfslab.experiment.guest_section import AskedKernel
    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.setup import Point
    from nfslab.experiment.stop import Stop
    from nfslab.machine.resources import Resources
    from nfslab.results.records import CatalogueLine, RunRecord
    from nfslab.results.store import PartialRun
    from nfslab.vm.guest import Guest, Sink
    from nfslab.vm.kernel import Kernel

Kernels = dict["AskedKernel", "Kernel"]

START_S: Final = 600.0
"""From the guest's first program to the run's begin: imports take an emulated Python minutes."""
AFTER_S: Final = 300.0
"""What teardown and sealing may take beyond `limits.run_s`."""
LINE_BYTES_MAX: Final = 1 << 16
GUEST_UP: Final = "guest up"
REQUEST: Final = "request"
AGAIN: Final = "the same command makes it again; with another kernel if it stays so"


def kernels_of(points: Sequence[Point], stop: Stop, say: Callable[[str], None]) -> Kernels:
    """The kernels of all guests that points ask for, fetched where they are not here yet.

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


class Told:
    """What the run in the guest says on its standard output; a sink."""

    def __init__(self, show_phase: Callable[[str], None]) -> None:
        self.begins_s: float | None = None
        """When the run began, by this machine's monotonic clock."""
        self.phase = ""
        self.error: dict[str, Any] | None = None
        self._show_phase = show_phase
        self._lines = agent.Lines(LINE_BYTES_MAX)

    def write(self, piece: bytes) -> None:
        """More of it; what is no event was printed by somebody else."""
        for line in self._lines.feed(piece):
            try:
                event = json.loads(line or b"")
            except (ValueError, RecursionError):
                continue
            match event:
                case {"event": "begins"}:
                    self.begins_s = clock.monotonic()
                case {"event": "phase", "phase": str(name)}:
                    self.phase = name
                    self._show_phase(name)
                case {"event": "error", "what": str()}:
                    self.error = event

    def flush(self) -> None:
        """Nothing is kept back."""


class GuestRun(Execution):
    """One run under way in a guest. `execute` is called once."""

    def __init__(self, carrying: Carrying, run: PlannedRun, position: int, kernel: Kernel) -> None:
        super().__init__(carrying, run, position)
        self.kernel = kernel
        self.machine = self.setup.machine
        self._told = Told(carrying.show_phase)
        self._kvm: bool | None = None
        """None: it did not come up."""
        self._began_s = clock.monotonic()
        self._work = carrying.folder.runs_path.resolve() / f"{PARTIAL_PREFIX}{run.run_id}-guest"
        self._sealed: tuple[RunRecord, dict[str, Any]] | None = None
        """Record and provenance of what the guest sealed."""

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        """The guest has the run's limit; see `_look`."""
        yield

    def _forward(self, partial: PartialRun, resources: Resources) -> None:
        with self.phase(GUEST_UP):
            (self._work / RUNS).mkdir(parents=True)
            self._in_guest(self._work)
        sealed = self._work / RUNS / self.run.run_id
        record, _ = self._sealed = sealed_elsewhere(sealed, "the virtual machine", AGAIN)
        self.found.outcome = Outcome(metrics=record.metrics)

    def _failed(self, error: Exception, partial: PartialRun) -> None:
        self._failed_in = f"guest/{self._told.phase}" if self._told.phase else GUEST_UP
        self.found.provenance = self._provenance()
        super()._failed(error, partial)

    def _take_down(self, partial: PartialRun) -> None:
        """The guest has ended."""
        if self._sealed is None:
            shutil.rmtree(self._work, ignore_errors=True)

    def _is_emulated(self) -> bool:
        return self._kvm is False

    def _in_guest(self, work: Path) -> None:
        """From the boot to the end of the guest; RunFailed, Interrupted."""
        carrying = self.carrying
        asked = AskedRun(
            **asked_of(self, self.setup.resolved()),
            primary=carrying.primary,
            commit=source_commit(),
        )
        (work / REQUEST).write_text(asked.model_dump_json(), "utf-8")
        ours = [f"{name}={value}" for name, value in importing_us().items()]
        command = ["env", *ours, sys.executable, "-m", MODULE, REQUEST]
        said = Tail()
        carrying.show_phase(GUEST_UP)
        say = self.found.notes.append
        outputs: dict[str, Sink] = {"stdout": self._told, "stderr": said}

        def attend(guest: Guest) -> int:
            self._kvm = guest.kvm
            return guest.attend(outputs, say, self._look(guest))

        code = attended(Boot(command, work, self.kernel, self.machine.size), say, attend)
        if self._told.error is not None:
            raise agent.error_of(self._told.error)
        if code != 0:
            raise RunFailed(
                f"nfslab ended with exit code {code} in the virtual machine",
                why="\n       ".join(said.lines) or "it said nothing",
                fix="try `nfslab vm run -- nfslab doctor` with the same kernel",
            )

    def _look(self, guest: Guest) -> Callable[[], None]:
        """Asks whether to stop, and whether the run has had its time."""
        limit_s = self.run.point.setup.limits.run_s + AFTER_S
        ready_s: float | None = None

        def look() -> None:
            nonlocal ready_s
            self.carrying.stop.check()
            now = clock.monotonic()
            if ready_s is None and guest.ready:
                ready_s = now
            begins_s = self._told.begins_s
            if begins_s is not None and now - begins_s > limit_s:
                raise guest.lost(
                    f"the run did not end within {format_duration(limit_s)}: its limit, and "
                    f"{format_duration(AFTER_S)} for taking down"
                )
            if begins_s is None and ready_s is not None and now - ready_s > START_S:
                raise guest.lost(
                    f"nfslab did not start in the virtual machine within {format_duration(START_S)}"
                )

        return look

    def _seal(self, partial: PartialRun, started_ns: int, duration_ns: int) -> CatalogueLine:
        """What the guest sealed, with what only this machine knows; or a run that failed."""
        if self._sealed is None:
            return super()._seal(partial, started_ns, duration_ns)
        record, provenance = self._sealed
        checks = list(record.checks)
        if (self.carrying.turn.beside() or self._was_beside) and record.status == "ok":
            checks.append(another_experiment())
        if self._is_emulated() and CHECK not in [check.name for check in checks]:
            checks.append(emulated())
        begins_s = self._told.begins_s or self._began_s
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
            adopted = self.carrying.folder.adopt_run(self._work / RUNS / self.run.run_id)
            return adopted.seal(record.model_copy(update=whole), provenance | self._provenance())
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    def _provenance(self) -> dict[str, Any]:
        """Of the guest as it was made."""
        machine = self.machine
        made = as_made(machine.kernel or "", self.kernel, machine.size, self._kvm)
        return {"virtual_machine": made | {"runs_on": fingerprint()}}
