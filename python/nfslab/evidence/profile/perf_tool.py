"""perf(1): what it may watch here, how it is told to begin and to end, what it says.

    trial (perf stat) ─► grant ─► perf record, begun with its event off ─► enable ─► disable ─► end
                                       ▲ commands and answers by two FIFOs ▲

Decisions. What the kernel grants is tried, never concluded from perf_event_paranoid: a counting
event is opened by `perf stat`, for the whole machine and then for own processes. perf itself
falls back from kernel and user to user alone (`:u` in the event's name), and from `cycles` to
`cpu-clock` where there are no counters: what it did is read back from its output. The user's
perfconfig and debug-symbol servers have no say (environment).

Facts used here (perf 6.1, tools/perf/builtin-record.c): `--control fifo:` is there since 5.10 and
answers "ack"; `-D -1` begins with events off; SIGINT ends the record and leaves a whole file;
`--max-size` ends it when the file is that large; without `--no-buildid` it would read the whole
file again at its end. `perf script` asks addr2line for every frame unless told `--no-inline`:
minutes of CPU for large programs.

Limits: perf of another kernel version reads and records what both know. Hardware counters
were never there where this was written: `cycles` has been tried as far as its refusal.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nfslab.machine.started import Process

Event = Literal["cycles", "cpu-clock"]
Scope = Literal["machine", "processes"]
CallGraph = Literal["fp", "dwarf", "lbr"]

OLDEST: Final = (5, 10)
"""The first version with `--control fifo:`."""
TRIAL_LIMIT_S: Final = 10.0
FIELDS: Final = "comm,pid,tid,cpu,time,event,period,ip,sym,dso"
ENVIRONMENT: Final = {"PERF_CONFIG": "/dev/null", "DEBUGINFOD_URLS": "", "LC_ALL": "C"}
PARANOID: Final = "/proc/sys/kernel/perf_event_paranoid"
INSTALL: Final = "apt install linux-perf"
KALLSYMS_LINES: Final = 1000
GRANT: Final = (
    "run as root, or: sysctl kernel.perf_event_paranoid=-1 (whole machine; 1 for own processes)"
)


@dataclass(frozen=True, slots=True)
class Grant:
    """What this user may profile."""

    scope: Scope
    kernel: bool
    """Samples in the kernel, too."""
    event: Event


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to record."""

    scope: Scope
    event: Event
    frequency_hz: int
    call_graph: CallGraph
    size_limit_bytes: int
    pids: Sequence[int] = ()
    """Of the scope "processes": these with all they start."""


def version() -> tuple[int, int] | None:
    """Of the perf that is found first; None when there is none that works."""
    said = _said(["perf", "--version"])
    found = re.search(r"perf version (\d+)\.(\d+)", said[1]) if said else None
    return (int(found[1]), int(found[2])) if found else None


def available(scope: Scope | Literal["auto"] = "auto") -> Availability:
    """Is there a perf that can be steered, and may this user profile anything with it?"""
    if shutil.which("perf") is None:
        return Availability(False, "perf not found", INSTALL)
    found = version()
    if found is None:
        said = (_said(["perf", "--version"]) or (0, ""))[1].strip().splitlines()
        why = said[0] if said else "it says nothing"
        return Availability(False, f"perf does not start: {why}", f"{INSTALL} (of this kernel)")
    if found < OLDEST:
        return Availability(
            False,
            f"perf {found[0]}.{found[1]} is too old: it cannot be steered (5.10 can)",
            INSTALL,
        )
    if granted(scope) is None:
        asked = "the whole machine" if scope == "machine" else "anything"
        return Availability(False, f"this user may not profile {asked} ({_refused(scope)})", GRANT)
    return Availability(True)


def granted(scope: Scope | Literal["auto"] = "auto") -> Grant | None:
    """What may be profiled: the whole machine if it may, else own processes; tried now."""
    scopes: Iterable[Scope] = ("machine", "processes") if scope == "auto" else (scope,)
    for one in scopes:
        said = _said(_trial(one))
        if said is not None and said[0] == 0 and (made := grant_of(said[1], one)) is not None:
            return made
    return None


def grant_of(printed: str, scope: Scope) -> Grant | None:
    """What `perf stat -x,` with both events has shown to work; None when nothing did."""
    counted = {}
    for line in printed.splitlines():
        words = line.split(",")
        if len(words) > 2 and not words[0].startswith("<"):
            name, _, modifier = words[2].partition(":")
            counted[name] = modifier
    for event in ("cycles", "cpu-clock"):
        if event in counted:
            kernel = "u" not in counted[event]
            return Grant(scope, kernel, "cycles" if event == "cycles" else "cpu-clock")
    return None


def takes(wanted: Wanted) -> Availability:
    """Can exactly this be recorded? A short record is made and thrown away."""
    command = record_command(wanted, Path(os.devnull), None)
    done = _said([*command, "--", "true"])
    if done is not None and done[0] == 0:
        return Availability(True)
    lines = [line.strip() for line in (done or (0, "it did not end"))[1].splitlines()]
    why = next((line for line in lines if line and line != "Error:"), "it says nothing")
    return Availability(
        False,
        f"perf cannot record {wanted.event} with call graphs by {wanted.call_graph}: {why}",
        'call_graph = "fp", or event = "cpu-clock"',
    )


def _trial(scope: Scope) -> list[str]:
    whole = ["-a"] if scope == "machine" else []
    return ["perf", "stat", "-x,", *whole, "-e", "cycles,cpu-clock", "--", "true"]


def _refused(scope: Scope | Literal["auto"]) -> str:
    """The kernel's setting, or perf's own words where that is not the reason."""
    try:
        level = Path(PARANOID).read_text(encoding="ascii").strip()
    except OSError:
        return "this kernel has no perf events"
    said = _said(_trial("machine" if scope == "machine" else "processes"))
    lines = [line.strip() for line in (said or (0, ""))[1].splitlines()]
    told = next((line for line in lines if line and line != "Error:"), "")
    return f"perf_event_paranoid = {level}{f'; {told}' if told else ''}"


def _said(command: Sequence[str]) -> tuple[int, str] | None:
    """(exit code, all it printed) of a short command; None when it cannot be run or hangs."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | ENVIRONMENT,
            timeout=TRIAL_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.returncode, done.stdout.decode(errors="replace")


def record_command(wanted: Wanted, data: Path, control: Control | None) -> list[str]:
    """perf record, its event off until it is enabled (when it can be told so)."""
    argv = ["perf", "record"]
    if wanted.scope == "machine":
        argv.append("-a")
    elif wanted.pids:
        argv += ["-p", ",".join(map(str, wanted.pids))]
    argv += ["-e", wanted.event, "-F", str(wanted.frequency_hz)]
    argv += ["--call-graph", wanted.call_graph, "-k", "CLOCK_MONOTONIC"]
    argv += ["--sample-cpu", "--no-buildid", "--no-buildid-cache"]
    argv += ["--max-size", f"{max(1, wanted.size_limit_bytes >> 10)}K"]
    if control is not None:
        argv += ["-D", "-1", "--control", f"fifo:{control.commands},{control.answers}"]
    return [*argv, "-o", str(data)]


def script_command(data: Path) -> list[str]:
    """The samples as text, with what was lost and who was forked."""
    return ["perf", "--no-pager", "script", "-i", str(data), "--ns", "--no-inline",
            "--show-lost-events", "--show-task-events", "-F", FIELDS]  # fmt: skip


def statistics_command(data: Path) -> list[str]:
    """How many records of which kind there are."""
    return ["perf", "--no-pager", "report", "--stats", "-i", str(data)]


def record_counts(printed: str) -> dict[str, int]:
    """Kind -> records, as `perf report --stats` lists them: the largest number said of each.

    (The sum over all events has how often samples were lost, an event's own part how many.)
    """
    counts: dict[str, int] = {}
    for line in printed.splitlines():
        if found := re.match(r"\s*(\w+) events:\s+(\d+)", line):
            counts[found[1]] = max(counts.get(found[1], 0), int(found[2]))
    return counts


class Control:
    """Two FIFOs in a folder: what perf record is told, and that it has done it."""

    def __init__(self, folder: Path) -> None:
        self.commands, self.answers = folder / "commands", folder / "answers"
        self._descriptors: list[int] = []
        for path in (self.commands, self.answers):
            os.mkfifo(path, 0o600)
            # Both ways: opening waits for nobody, and a reader that ends is no SIGPIPE.
            self._descriptors.append(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))

    def ask(self, command: str, process: Process, limit_s: float) -> bool:
        """Tell perf; True when it has done it, False when it has ended. RunFailed: too late."""
        commands, answers = self._descriptors
        os.write(commands, f"{command}\n".encode())
        deadline = clock.monotonic() + limit_s
        poller = select.poll()
        poller.register(answers, select.POLLIN)
        ended = os.pidfd_open(process.pid) if process.poll() is None else None
        try:
            if ended is None:
                return False
            poller.register(ended, select.POLLIN)
            while (left_s := deadline - clock.monotonic()) > 0:
                ready = {descriptor for descriptor, _ in poller.poll(left_s * 1000)}
                if answers in ready and b"ack" in os.read(answers, 256):
                    return True
                if ended in ready:
                    return False
        finally:
            if ended is not None:
                os.close(ended)
        raise RunFailed(
            f"perf did not {command} its event within {limit_s:g} s",
            fix="see what perf said: logs/profile-perf.log of the run",
        )

    def close(self) -> None:
        """Both FIFOs go; harmless when they are gone."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        for path in (self.commands, self.answers):
            path.unlink(missing_ok=True)


def kernel_symbols_hidden() -> bool:
    """Does /proc/kallsyms show this user no addresses (kernel.kptr_restrict)?"""
    try:
        with open("/proc/kallsyms", encoding="ascii", errors="replace") as file:
            # Some kernels begin with symbols that really are at address 0.
            first = [file.readline().partition(" ")[0] for _ in range(KALLSYMS_LINES)]
    except OSError:
        return True
    return not any(address.strip("0") for address in first)
