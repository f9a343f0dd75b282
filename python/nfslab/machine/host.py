"""Where a program runs: a value that is handed around, today always this machine.

Every program that nfslab starts goes through a `Host`: it is journalled before it is
started, runs in a session of its own (the terminal's Ctrl-C is ours to handle), carries
the run's token, may run as an unprivileged user and inside a control group, and writes to
files, never to a pipe that somebody has to empty. What it reads is there beforehand; only who
asks for it ("pipe") may tell a program something while it runs.

Decisions: arguments are passed as they are, nothing is ever interpolated into a shell
line. Joining a control group comes before the program's first instruction, and as root,
so it is done by a fixed two-line shell wrapper; giving up root's powers by `setpriv`. A
child dies with its runner where `setpriv` can arrange it; the journal is what is relied
upon. CPU time is what wait4(2) reports, with the children that the program waited for.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, Protocol

from nfslab.errors import RunFailed
from nfslab.machine.launch import Launch
from nfslab.machine.started import Process

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nfslab.machine.cgroup import Cgroup
    from nfslab.machine.resources import Resources

__all__ = ["Completed", "Host", "LocalHost", "Process", "failure", "local_host", "tail"]

OUTPUT_LIMIT_BYTES = 64 << 20
"""What `run` keeps of a program's output; the part left out is marked."""
TAIL_LINES = 20
"""How many last lines of output an error shows."""
WAIT_SLICE_S = 0.2
"""How often a wait looks whether the run was cancelled."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended. Times in seconds; CPU with the children it waited for."""

    argv: list[str]
    returncode: int
    """Exit code, or minus the signal that ended it."""
    stdout: str
    stderr: str
    wall_s: float
    user_s: float
    system_s: float


class Host(Protocol):
    """Where a process runs."""

    name: str

    def spawn(
        self,
        argv: Sequence[str],
        *,
        resources: Resources,
        log: Path | None = None,
        stdout: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: int | None = None,
        cgroup: Cgroup | None = None,
        stdin: bytes | Literal["pipe"] | None = None,
        stop_signal: int = signal.SIGTERM,
    ) -> Process:
        """Start a program and return at once.

        `log` gets its output (appended), `stdout` its standard output alone when given;
        without them output is thrown away. `env` is added to our own environment.
        `stdin` is what it reads; with "pipe" it is told while it runs (`Process.tell`).
        `stop_signal` is how it is best asked to end, also by a later recovery.
        Raises RunFailed, or Unavailable when this user may not do what is asked.
        """
        ...

    def run(
        self,
        argv: Sequence[str],
        *,
        resources: Resources,
        timeout_s: float,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: int | None = None,
        cgroup: Cgroup | None = None,
        stdin: bytes | None = None,
        log: Path | None = None,
        cancelled: Callable[[], float] | None = None,
    ) -> Completed:
        """Run a program to its end.

        `cancelled` is called several times a second and may raise to end it; what it
        returns (seconds left) bounds the time as well. Raises RunFailed with the last
        lines of output when it fails (`check`) or takes longer than `timeout_s`.
        """
        ...


class LocalHost:
    """This machine."""

    name = "local"

    def spawn(
        self,
        argv: Sequence[str],
        *,
        resources: Resources,
        log: Path | None = None,
        stdout: Path | None = None,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: int | None = None,
        cgroup: Cgroup | None = None,
        stdin: bytes | Literal["pipe"] | None = None,
        stop_signal: int = signal.SIGTERM,
    ) -> Process:
        """Start a program and return at once; see `Host.spawn`."""
        with contextlib.ExitStack() as stack:
            out: Any = subprocess.DEVNULL
            err: Any = subprocess.DEVNULL
            try:
                if log is not None:
                    out = err = stack.enter_context(log.open("ab"))
                if stdout is not None:
                    out = stack.enter_context(stdout.open("wb"))
            except OSError as error:
                raise RunFailed(
                    f"cannot write {error.filename}: {error.strerror}",
                    fix="make room there and let this user write",
                ) from error
            return self._start(
                Launch(list(argv), env, cwd, user, cgroup, stdin, stop_signal),
                resources,
                out,
                err,
            )

    def run(
        self,
        argv: Sequence[str],
        *,
        resources: Resources,
        timeout_s: float,
        check: bool = True,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: int | None = None,
        cgroup: Cgroup | None = None,
        stdin: bytes | None = None,
        log: Path | None = None,
        cancelled: Callable[[], float] | None = None,
    ) -> Completed:
        """Run a program to its end; see `Host.run`."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            command = Launch(list(argv), env, cwd, user, cgroup, stdin, signal.SIGTERM)
            process = self._start(command, resources, out, err)
            try:
                deadline = process.started_monotonic_ns / 1e9 + timeout_s
                late = _wait_watching(process, deadline, cancelled)
            finally:
                process.stop()
                wall_s = (time.monotonic_ns() - process.started_monotonic_ns) / 1e9
                if log is not None:
                    _append_log(log, process, out, err)
            user_s, system_s = process.cpu_s()
            completed = Completed(
                argv=process.argv,
                returncode=process.wait(0),
                stdout=_text(out),
                stderr=_text(err),
                wall_s=wall_s,
                user_s=user_s,
                system_s=system_s,
            )
        if late:
            raise RunFailed(
                f"{Path(process.argv[0]).name} was ended after {wall_s:.1f} s: its time was over",
                why=tail(completed),
                fix="allow more time, or look at what it waits for",
            )
        if check and completed.returncode != 0:
            raise failure(completed)
        return completed

    def _start(
        self, command: Launch, resources: Resources, out: IO[bytes] | int, err: IO[bytes] | int
    ) -> Process:
        """Journal, start, bind."""
        argv, environment = command.prepared(resources.token)
        # Before the journal entry: nothing is made when the program cannot be found.
        wrapped = command.wrapped(argv)
        with contextlib.ExitStack() as stack:
            source: IO[bytes] | int = subprocess.DEVNULL
            if command.stdin == "pipe":
                source = subprocess.PIPE
            elif command.stdin is not None:
                given = stack.enter_context(tempfile.TemporaryFile())
                given.write(command.stdin)
                given.seek(0)
                source = given
            entry = resources.process(None, argv, stop_signal=command.stop_signal)
            started_ns = time.monotonic_ns()
            try:
                popen = subprocess.Popen(
                    wrapped,
                    stdin=source,
                    stdout=out,
                    stderr=err,
                    env=environment,
                    cwd=command.cwd or ("/" if command.user is not None else None),
                    start_new_session=True,
                )
            except OSError as error:
                entry.release()
                raise RunFailed(
                    f"cannot start {argv[0]}",
                    why=f"{error.strerror} ({error.filename})",
                    fix="see that it can be executed, and that the folder it starts in is there",
                ) from error
            process = Process(popen, argv, entry, command.stop_signal, started_ns)
            try:
                entry.bind(pid=popen.pid)
            except BaseException:
                process.stop(9)
                raise
            return process


def local_host() -> Host:
    """This machine, as a place to run programs on."""
    return LocalHost()


def _wait_watching(
    process: Process, deadline: float, cancelled: Callable[[], float] | None
) -> bool:
    """Wait for the end; True when the deadline came first. What `cancelled` raises."""
    while True:
        left = deadline - time.monotonic()
        if cancelled is not None:
            left = min(left, cancelled())
        if process.ended_within(max(0.0, min(left, WAIT_SLICE_S))):
            process.wait()
            return False
        if left <= 0:
            return True


def _text(file: IO[bytes]) -> str:
    """What was written, within the limit; what is left out is marked."""
    size = os.fstat(file.fileno()).st_size
    left_out = max(0, size - OUTPUT_LIMIT_BYTES)
    text = os.pread(file.fileno(), OUTPUT_LIMIT_BYTES, left_out).decode(errors="replace")
    return f"[the first {left_out} bytes are left out]\n{text}" if left_out else text


def _append_log(log: Path, process: Process, out: IO[bytes], err: IO[bytes]) -> None:
    """Add one finished program to a log; a full disk must not hide its outcome."""
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(process.argv)}\n{_text(out)}{_text(err)}")
        file.write(f"[exit code {process.poll()}]\n")


def tail(completed: Completed, lines: int = TAIL_LINES) -> str:
    """The last lines that a program said, for an error."""
    said = (completed.stdout.rstrip() + "\n" + completed.stderr.rstrip()).strip().splitlines()
    return "\n       ".join(said[-lines:]) or "it said nothing"


def failure(completed: Completed) -> RunFailed:
    """The error for a program that ended with another exit code than 0."""
    code, name = completed.returncode, Path(completed.argv[0]).name
    if code < 0:
        with contextlib.suppress(ValueError):
            return RunFailed(
                f"{name} was ended by {signal.Signals(-code).name}",
                why=tail(completed),
                fix="see `dmesg` if nobody ended it: the kernel may have been out of memory",
            )
    return RunFailed(
        f"{name} failed with exit code {code}",
        why=tail(completed),
        fix=f"to see more, run it by hand: {shlex.join(completed.argv)}",
    )
