"""Where the CPU time goes: perf samples stacks while a load runs; or: that the CPUs were idle.

    start: perf record, its event off ─► switched on, /proc/stat read ─► the load may begin
    stop:  /proc/stat, switched off ─► perf record ends ─► perf script's text ─► folded stacks

Decisions. The whole machine is recorded, since an NFS server, kernel threads and interrupts are
part of where time goes; where that is not granted, this process (the core's loads run in it) with
all that belongs to the run. `cycles` where there are hardware counters, else `cpu-clock`; what was
recorded is read from the record itself. 99 Hz by default: odd, so that nothing that happens every
1 or 10 ms is always hit or always missed. perf.data lies in the run's folder, is bounded, and goes
when it has been read (unless `keep`).

How idle the CPUs were. cpu-clock is a timer: of a CPU that sleeps, some kernels give a sample of
the idle task and some give none (one machine did either by CPU). So idle is what is *not* busy:

    idle share = 1 - samples that are not idle / (rate of samples x CPUs x seconds)

in the timed part; /proc/stat is read at both ends of the recording, and a difference beyond both
errors is a note. With cycles, or without the whole machine, the share is /proc/stat's. Time that a
hypervisor took (steal) gives no samples and looks idle to them: it is told.

Cost: Evidence.cpu_s is perf's CPU time while it recorded. Its start before the load and the reading
behind it are in the summary (`perf_cpu_s`, `folding_cpu_s`): they disturb nobody's timed part. What
the load itself loses (an interrupt and a walk of the stack a sample) is in docs/profile.md.

Limits: code that runs with interrupts off is not hit by cpu-clock, but the place where they are
switched on again. Frame pointers are missing in most distributions' programs: user stacks are
then short or wrong above the leaf (`broken` tells how many); the leaf is right.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Collector, CollectorParameters, Evidence
from nfslab.evidence.profile import perf_tool
from nfslab.evidence.profile.perf_evidence import Recorded, summary, tables
from nfslab.evidence.profile.perf_script import (
    KERNEL_THREADS,
    KTHREADD,
    NFSLAB,
    PERF,
    RUN,
    ScriptReader,
)
from nfslab.evidence.profile.perf_tool import Control, Wanted
from nfslab.machine.availability import Availability
from nfslab.machine.cpu_times import process_cpu_ns, read_cpu_times
from nfslab.machine.processes import find_ours, status_of
from nfslab.quantities import Size

if TYPE_CHECKING:
    from nfslab.evidence.profile.perf_script import Folded
    from nfslab.evidence.profile.perf_tool import Grant
    from nfslab.machine.started import Process
    from nfslab.workloads.base import RunContext

READY_LIMIT_S: Final = 30.0
"""perf first reads the maps of all processes: a second for some thousand of them."""
SWITCH_LIMIT_S: Final = 10.0
END_LIMIT_S: Final = 30.0
READ_LIMIT_S: Final = 600.0
"""For perf script's text; a record of the default size takes about a minute."""
PIECE_BYTES: Final = 1 << 20
FOLDER: Final = "profile"
KEPT: Final = "perf.data"
NS_PER_S: Final = 1e9


class ProfileCollectorParameters(CollectorParameters):
    """What `[collectors.profile]` may hold."""

    frequency: int = Field(default=99, ge=1, le=20_000)
    """Samples a second of each CPU."""
    event: Literal["auto", "cycles", "cpu-clock"] = "auto"
    scope: Literal["auto", "machine", "processes"] = "auto"
    """The whole machine, or this run's processes; auto: the machine where it is granted."""
    call_graph: Literal["fp", "dwarf", "lbr"] = "fp"
    """Frame pointers; dwarf copies 8 KiB of stack with every sample; lbr needs hardware."""
    limit: Size = Field(default=256 << 20, ge=1 << 20, le=8 << 30)
    """perf.data at most; recording ends when it is full."""
    keep: bool = False
    """Keep perf.data in the run's folder (evidence/perf.data)."""


class ProfileCollector(Collector):
    """CPU profile of the machine or of the run's processes, by perf."""

    kind: ClassVar[str] = "profile"
    summary: ClassVar[str] = "where the CPU time goes (perf), or that the CPUs were idle"
    Parameters: ClassVar[type[CollectorParameters]] = ProfileCollectorParameters

    parameters: ProfileCollectorParameters

    @classmethod
    def available(cls) -> Availability:
        """Is there a perf, and may this user profile anything with it?"""
        return perf_tool.available()

    def applies(self, context: RunContext) -> Availability:
        """May it record what the file asks for? Event and call graphs are tried."""
        answer = perf_tool.available(self.parameters.scope)
        if not answer.ok:
            return answer
        grant = perf_tool.granted(self.parameters.scope)
        if grant is None:
            return Availability(False, "perf may not profile any more", perf_tool.GRANT)
        if self.parameters.event == "cycles" and grant.event != "cycles":
            return Availability(
                False,
                "this machine has no hardware counters (virtual machines mostly have none)",
                'event = "auto"',
            )
        if self.parameters.call_graph == "fp":
            return answer
        return perf_tool.takes(replace(self._wanted(grant), pids=()))

    def start(self, context: RunContext) -> None:
        """Begin to record; RunFailed, in perf's words, when it does not."""
        grant = perf_tool.granted(self.parameters.scope)
        assert grant is not None, "else it does not apply"
        profile = _Profile(context, self._wanted(grant), grant, keep=self.parameters.keep)
        profile.begin()
        self._watch = profile

    def _wanted(self, grant: Grant) -> Wanted:
        return Wanted(
            scope=grant.scope,
            event=grant.event if self.parameters.event == "auto" else self.parameters.event,
            frequency_hz=self.parameters.frequency,
            call_graph=self.parameters.call_graph,
            size_limit_bytes=self.parameters.limit,
        )


class _Profile:
    """One run's record: perf, where it writes, what it is told."""

    def __init__(self, context: RunContext, wanted: Wanted, grant: Grant, keep: bool) -> None:
        self._context, self._wanted, self._keep = context, wanted, keep
        self._folder = context.folder / FOLDER
        self._data = self._folder / KEPT
        self._log = context.folder / "logs" / "profile-perf.log"
        self._control: Control | None = None
        self._process: Process | None = None
        self._roots: dict[int, str] = {}
        self._recorded = Recorded(
            wanted.frequency_hz, wanted.call_graph, replace(grant, event=wanted.event)
        )
        self._recorded.size_limit_bytes = wanted.size_limit_bytes
        self._cpu_began_ns = 0

    def begin(self) -> None:
        """The event is on when this returns; nothing is left over when it fails."""
        try:
            self._folder.mkdir()
            self._control = Control(self._folder)
            self._spawn()
        except OSError as error:
            self._abandon()
            raise RunFailed(
                "the profile cannot be recorded",
                why=str(error),
                fix="see that the results folder has room, or leave the collector profile out",
            ) from error
        except BaseException:
            self._abandon()
            raise

    def _spawn(self) -> None:
        assert self._control is not None
        ours = [status.identity.pid for status in find_ours(self._context.resources.token)]
        pids = [os.getpid(), *ours] if self._wanted.scope == "processes" else []
        wanted = replace(self._wanted, pids=pids)
        command = perf_tool.record_command(wanted, self._data, self._control)
        self._context.commands.append(command)
        self._process = self._context.client_host.spawn(
            command,
            resources=self._context.resources,
            log=self._log,
            env=perf_tool.ENVIRONMENT,
            stop_signal=signal.SIGINT,
        )
        if not self._control.ask("enable", self._process, READY_LIMIT_S):
            raise RunFailed(
                f"perf record ended at once (exit code {self._process.poll()})",
                why=self._last_words(),
                fix=perf_tool.GRANT,
            )
        self._recorded.begin = read_cpu_times()
        self._recorded.begin_ns = clock.monotonic_ns()
        self._cpu_began_ns = process_cpu_ns(self._process.pid) or 0
        self._roots = dict.fromkeys(ours, RUN)
        self._roots |= {os.getpid(): NFSLAB, self._process.pid: PERF}
        kernel = status_of(KTHREADD)
        if kernel is not None and kernel.name == "kthreadd":
            self._roots[KTHREADD] = KERNEL_THREADS

    def end(self) -> Evidence:
        """What was recorded; the record itself goes unless it is kept."""
        try:
            self._end_record()
            return self._read()
        finally:
            self._abandon()

    def _end_record(self) -> None:
        assert self._process is not None
        assert self._control is not None
        recorded = self._recorded
        recorded.end = read_cpu_times()
        recorded.end_ns = clock.monotonic_ns()
        if not self._control.ask("disable", self._process, SWITCH_LIMIT_S):
            recorded.notes.append(
                "perf record ended by itself, before the load did: "
                f"{self._last_words() or 'it said nothing'}"
            )
        used_ns = process_cpu_ns(self._process.pid)
        self._process.stop(signal.SIGINT, grace_s=END_LIMIT_S)
        # The clock of one that has ended is gone; what wait4(2) says includes its start.
        recorded.perf_cpu_s = sum(self._process.cpu_s())
        recorded.recording_cpu_s = (
            recorded.perf_cpu_s if used_ns is None else (used_ns - self._cpu_began_ns) / NS_PER_S
        )
        timed = self._context.timed
        recorded.zero_ns = timed.start_or(recorded.begin_ns)
        recorded.timed_end_ns = recorded.end_ns if timed.end_ns is None else timed.end_ns

    def _read(self) -> Evidence:
        recorded = self._recorded
        began = clock.thread_cpu()
        if not self._data.is_file() or not self._data.stat().st_size:
            raise RunFailed(
                "perf recorded nothing",
                why=self._last_words(),
                fix="see what perf said: logs/profile-perf.log of the run",
            )
        recorded.data_bytes = self._data.stat().st_size
        folded = self._fold()
        recorded.record_counts = self._count_records()
        if self._keep:
            self._keep_data()
        summed = summary(folded, recorded)
        summed["perf_cpu_s"] = recorded.perf_cpu_s
        summed["folding_cpu_s"] = clock.thread_cpu() - began
        self._context.notes.extend(f"collector profile: {note}" for note in recorded.notes)
        found = tables(folded, recorded)
        return Evidence(
            tables=found,
            summary=summed,
            cpu_s=recorded.recording_cpu_s,
            wall_s=(recorded.end_ns - recorded.begin_ns) / NS_PER_S,
        )

    def _fold(self) -> Folded:
        """The text of perf script, folded while it comes."""
        recorded = self._recorded
        reader = ScriptReader(recorded.window_ns, self._roots)
        reading, writing = os.pipe2(os.O_CLOEXEC)
        process: Process | None = None
        try:
            try:
                process = self._context.client_host.spawn(
                    perf_tool.script_command(self._data),
                    resources=self._context.resources,
                    log=self._log,
                    # A pipe's end by its name in /proc: the host opens files, and this is one.
                    stdout=Path(f"/proc/self/fd/{writing}"),
                    env=perf_tool.ENVIRONMENT,
                )
            finally:
                os.close(writing)
            whole = _pour(reading, reader)
            code = process.wait(END_LIMIT_S) if whole else 0
        finally:
            if process is not None:
                process.stop()
            os.close(reading)
        recorded.perf_cpu_s += sum(process.cpu_s())
        folded = reader.finish()
        if not whole:
            recorded.notes.append(
                f"the record was not read to its end within {READ_LIMIT_S:g} s: give "
                "collectors.profile a lower frequency or limit"
            )
        if code != 0:
            told = f"perf script failed with exit code {code}: {self._last_words()}"
            if not folded.samples:
                raise RunFailed(
                    "the profile cannot be read",
                    why=told,
                    fix="see what perf said: logs/profile-perf.log of the run",
                )
            recorded.notes.append(told)
        return folded

    def _count_records(self) -> dict[str, int]:
        """Kinds of records, for those that perf script does not show (throttling)."""
        try:
            done = self._context.client_host.run(
                perf_tool.statistics_command(self._data),
                resources=self._context.resources,
                timeout_s=END_LIMIT_S,
                check=False,
                env=perf_tool.ENVIRONMENT,
            )
        except RunFailed as error:
            self._recorded.notes.append(f"records were not counted: {error.what}")
            return {}
        self._recorded.perf_cpu_s += done.user_s + done.system_s
        return perf_tool.record_counts(done.stdout)

    def _keep_data(self) -> None:
        kept = self._context.folder / "evidence" / KEPT
        try:
            kept.parent.mkdir(exist_ok=True)
            self._data.rename(kept)
        except OSError as error:
            self._recorded.notes.append(f"perf.data could not be kept: {error}")

    def _last_words(self) -> str:
        """The last lines that perf said, without its progress."""
        try:
            said = self._log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        told = [line for line in lines if not line.startswith(("Events ", "Error:", "[ perf rec"))]
        return " ".join((told or lines)[-3:])[:600]

    def _abandon(self) -> None:
        """End what still runs, remove what is left; harmless when all is over."""
        if self._process is not None:
            self._process.stop(signal.SIGINT, grace_s=END_LIMIT_S)
        if self._control is not None:
            self._control.close()
        with contextlib.suppress(OSError):
            shutil.rmtree(self._folder)


def _pour(descriptor: int, reader: ScriptReader) -> bool:
    """All of a pipe into the reader; False when the time was over before its end."""
    deadline = clock.monotonic() + READ_LIMIT_S
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    while (left_s := deadline - clock.monotonic()) > 0:
        if poller.poll(left_s * 1000):
            piece = os.read(descriptor, PIECE_BYTES)
            if not piece:
                return True
            reader.feed(piece)
    return False
