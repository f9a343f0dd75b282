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

import json
import pickle
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.errors import Interrupted, RunFailed
from nfslab.experiment.adopting import sealed_elsewhere
from nfslab.experiment.failure import Failure, expected, keep_traceback, reason_of
from nfslab.experiment.in_guest import MODULE, Asked
from nfslab.experiment.provenance import fingerprint, source_commit
from nfslab.experiment.sealing import Findings, Sealing
from nfslab.experiment.validity import another_experiment, emulated
from nfslab.experiment.watching import Watching
from nfslab.machine import agent
from nfslab.machine.own_command import importing_us
from nfslab.quantities import format_duration
from nfslab.results.catalogue import PARTIAL_PREFIX, RUNS
from nfslab.results.emulation import CHECK
from nfslab.results.records import PhaseRecord
from nfslab.vm import kernel as kernel_files
from nfslab.vm.guest import Tail
from nfslab.vm.run import Boot, as_made, attended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.experiment.execution import Carrying
    from nfslab.experiment.guest_section import AskedKernel
    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.setup import Point
    from nfslab.experiment.stop import Stop
    from nfslab.results.records import CatalogueLine, Metric, RunRecord
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


class GuestRun:
    """One run under way in a guest. `execute` is called once, as of `RunExecution`."""

    def __init__(self, carrying: Carrying, run: PlannedRun, position: int, kernel: Kernel) -> None:
        self.carrying = carrying
        self.run = run
        self.position = position
        self.kernel = kernel
        self.machine = run.point.setup.machine
        self._told = Told(carrying.show_phase)
        self._kvm: bool | None = None
        """None: it did not come up."""
        self._started_unix_ns = clock.wall_ns()
        self._began_s = clock.monotonic()
        self._notes: list[str] = []
        self._record: RunRecord | None = None

    def execute(self) -> CatalogueLine:
        """Carry the run out; its line of the catalogue.

        Raises `Interrupted` (nothing is left of the run), or `ResultsError` when not even a failed
        run can be stored.
        """
        turn, folder = self.carrying.turn, self.carrying.folder
        was_beside = turn.beside()
        work = folder.runs_path.resolve() / f"{PARTIAL_PREFIX}{self.run.run_id}-guest"
        try:
            try:
                (work / RUNS).mkdir(parents=True)
                self._in_guest(work)
                return self._adopted(work / RUNS / self.run.run_id, was_beside)
            except Interrupted:
                raise
            except Exception as error:
                return self._failed(error)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            shutil.rmtree(folder.runs_path / f"{PARTIAL_PREFIX}{self.run.run_id}", True)

    def primary_metric(self) -> tuple[str, Metric] | None:
        """Name and value of the metric that is shown first; None without one."""
        metrics = self._record.metrics if self._record else {}
        return next(((name, m) for name, m in metrics.items() if m.primary), None)

    def _in_guest(self, work: Path) -> None:
        """From the boot to the end of the guest; RunFailed, Interrupted."""
        carrying = self.carrying
        asked = Asked(carrying.record, self.run, self.position, carrying.primary, source_commit())
        (work / REQUEST).write_bytes(pickle.dumps(asked))
        ours = [f"{name}={value}" for name, value in importing_us().items()]
        command = ["env", *ours, sys.executable, "-m", MODULE, REQUEST]
        said = Tail()
        carrying.show_phase(GUEST_UP)
        say = self._notes.append
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

    def _adopted(self, sealed: Path, was_beside: bool) -> CatalogueLine:
        """What the guest sealed, sealed here; RunFailed when it is not whole."""
        record, provenance = sealed_elsewhere(sealed, "the virtual machine", AGAIN)
        checks = list(record.checks)
        if (self.carrying.turn.beside() or was_beside) and record.status == "ok":
            checks.append(another_experiment())
        if self._kvm is False and CHECK not in [check.name for check in checks]:
            checks.append(emulated())
        begins_s = self._told.begins_s or self._began_s
        up = PhaseRecord(
            name=GUEST_UP,
            start_unix_ns=self._started_unix_ns,
            duration_ns=round((begins_s - self._began_s) * 1e9),
        )
        self._record = record.model_copy(
            update={
                "checks": checks,
                "notes": [*record.notes, *self._notes],
                "phases": [up, *record.phases],
                "started_unix_ns": self._started_unix_ns,
                "duration_ns": self._duration_ns(),
            }
        )
        partial = self.carrying.folder.adopt_run(sealed)
        return partial.seal(self._record, provenance | self._provenance())

    def _failed(self, error: Exception) -> CatalogueLine:
        """The run as failed; ResultsError when not even that can be stored."""
        folder = self.carrying.folder
        shutil.rmtree(folder.runs_path / f"{PARTIAL_PREFIX}{self.run.run_id}", True)
        partial = folder.begin_run(self.run.run_id)
        if not expected(error):
            keep_traceback(error, partial.logs)
        where = f"guest/{self._told.phase}" if self._told.phase else GUEST_UP
        found = Findings(provenance=self._provenance(), failure=Failure(reason_of(error), where))
        if self._kvm is False:
            found.checks.append(emulated())
        self._record = None
        sealing = Sealing(
            folder=folder,
            experiment=self.carrying.record,
            run=self.run,
            position=self.position,
            found=found,
            watching=Watching({}),
            load=self.run.point.setup.workload.make().load_shape(),
            started_unix_ns=self._started_unix_ns,
            duration_ns=self._duration_ns(),
        )
        return sealing.store(partial)

    def _duration_ns(self) -> int:
        return round((clock.monotonic() - self._began_s) * 1e9)

    def _provenance(self) -> dict[str, Any]:
        """Of the guest as it was made."""
        machine = self.machine
        made = as_made(machine.kernel or "", self.kernel, machine.size, self._kvm)
        return {"virtual_machine": made | {"runs_on": fingerprint()}}
