"""Where a program runs: a value that is handed around, today always this machine.

Every program that nfslab starts goes through a `Host`: it is journalled before it is
started, runs in a session of its own (the terminal's Ctrl-C is ours to handle), carries
the run's token, may run as an unprivileged user and inside a control group, and writes to
files, never to a pipe that somebody has to empty.

Decisions: arguments are passed as they are, nothing is ever interpolated into a shell
line. Joining a control group comes before the program's first instruction, and as root,
so it is done by a fixed two-line shell wrapper; giving up root's powers by `setpriv`. A
child dies with its runner where `setpriv` can arrange it; the journal is what is relied
upon. CPU time is what wait4(2) reports, with the children that the program waited for.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from nfslab.errors import RunFailed, Unavailable
from nfslab.machine.processes import CLOCK_TICKS_PER_S, TOKEN_VARIABLE, status_of
from nfslab.machine.users import as_user, home_of, user_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nfslab.machine.cgroup import Cgroup
    from nfslab.machine.resources import Entry, Resources

JOIN_CGROUP = 'echo $$ > "$1/cgroup.procs" && shift && exec "$@"'
OUTPUT_LIMIT_BYTES = 64 << 20
"""What `run` keeps of a program's output; the part left out is marked."""
TAIL_LINES = 20
"""How many last lines of output an error shows."""
WAIT_SLICE_S = 0.2
"""How often a wait looks whether the run was cancelled."""
KILL_LIMIT_S = 10.0
PER_USER = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "MAIL")
"""Variables that point into the caller's home: not for another user."""


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


class Process:
    """A started program, journalled. Made by `Host.spawn`."""

    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        argv: list[str],
        entry: Entry,
        stop_signal: int,
        started_monotonic_ns: int,
    ) -> None:
        self.pid = popen.pid
        self.argv = argv
        self.started_monotonic_ns = started_monotonic_ns
        self._popen = popen
        self._entry = entry
        self._stop_signal = stop_signal
        self._returncode: int | None = None
        self._cpu_s = (0.0, 0.0)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Process({self.pid}, {self.argv!r})"

    def poll(self) -> int | None:
        """Exit code (minus the signal when one ended it); None while it runs."""
        with self._lock:
            if self._returncode is None:
                self._reap(os.WNOHANG)
            return self._returncode

    def wait(self, timeout_s: float | None = None) -> int:
        """Wait for the end; RunFailed when `timeout_s` is over (it goes on running)."""
        if not self._ended_within(timeout_s):
            raise RunFailed(f"{self.argv[0]} still runs after {timeout_s:g} s")
        with self._lock:
            if self._returncode is None:
                self._reap(0)
            assert self._returncode is not None
            return self._returncode

    def stop(self, signal: int | None = None, grace_s: float = 5.0) -> int:
        """Ask it to end, after the grace insist; its whole group goes. The exit code.

        `signal` defaults to the one given to `spawn`, SIGTERM unless said otherwise.
        """
        if (code := self.poll()) is not None:
            return code
        self._signal_group(signal or self._stop_signal)
        self._ended_within(grace_s)
        # Also what is left of the group. The leader is not waited for yet, so the number
        # of its group cannot have been given to anyone else.
        self._signal_group(9)
        return self.wait(KILL_LIMIT_S)

    def cpu_s(self) -> tuple[float, float]:
        """CPU seconds (user, system) so far; after the end: exact, from wait4(2)."""
        if self.poll() is None and (status := status_of(self.pid)) is not None:
            user = status.user_ticks + status.waited_user_ticks
            system = status.system_ticks + status.waited_system_ticks
            return user / CLOCK_TICKS_PER_S, system / CLOCK_TICKS_PER_S
        return self._cpu_s

    def _ended_within(self, timeout_s: float | None) -> bool:
        """Wait, without reaping, until it ended (True) or the time is over (False)."""
        if self.poll() is not None:
            return True
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return self._ended_within_polling(deadline)
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        try:
            while True:
                left = None if deadline is None else deadline - time.monotonic()
                if poller.poll(None if left is None else max(0, int(left * 1000) + 1)):
                    return True
                if left is not None and left <= 0:
                    return False
        finally:
            os.close(descriptor)

    def _ended_within_polling(self, deadline: float | None) -> bool:
        """The same where the kernel has no pidfd (before 5.3)."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while self._returncode is None and os.waitid(os.P_PID, self.pid, flags) is None:
            if deadline is not None and time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def _reap(self, flags: int) -> None:
        """wait4; the caller holds the lock."""
        pid, status, usage = os.wait4(self.pid, flags)
        if pid == 0:
            return
        self._cpu_s = (usage.ru_utime, usage.ru_stime)
        self._returncode = os.waitstatus_to_exitcode(status)
        # So that Popen does not wait for a stranger that got the number meanwhile.
        self._popen.returncode = self._returncode
        self._entry.release()

    def _signal_group(self, number: int) -> None:
        with self._lock, contextlib.suppress(ProcessLookupError):
            if self._returncode is None:
                os.killpg(self.pid, number)


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
        stdin: bytes | None = None,
        stop_signal: int = signal.SIGTERM,
    ) -> Process:
        """Start a program and return at once.

        `log` gets its output (appended), `stdout` its standard output alone when given;
        without them output is thrown away. `env` is added to our own environment.
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
        stdin: bytes | None = None,
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
                raise RunFailed(f"cannot write {error.filename}: {error.strerror}") from error
            return self._start(
                _Command(list(argv), env, cwd, user, cgroup, stdin, stop_signal),
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
            command = _Command(list(argv), env, cwd, user, cgroup, stdin, signal.SIGTERM)
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
        self, command: _Command, resources: Resources, out: IO[bytes] | int, err: IO[bytes] | int
    ) -> Process:
        """Journal, start, bind."""
        argv, environment = command.prepared(resources.token)
        # Before the journal entry: nothing is made when the program cannot be found.
        wrapped = command.wrapped(argv)
        with contextlib.ExitStack() as stack:
            source: IO[bytes] | int = subprocess.DEVNULL
            if command.stdin is not None:
                source = stack.enter_context(tempfile.TemporaryFile())
                source.write(command.stdin)
                source.seek(0)
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
                    f"cannot start {argv[0]}", why=f"{error.strerror} ({error.filename})"
                ) from error
            process = Process(popen, argv, entry, command.stop_signal, started_ns)
            try:
                entry.bind(pid=popen.pid)
            except BaseException:
                process.stop(9)
                raise
            return process


@dataclass(frozen=True, slots=True)
class _Command:
    """A program as asked for."""

    argv: list[str]
    env: Mapping[str, str] | None
    cwd: Path | None
    user: int | None
    cgroup: Cgroup | None
    stdin: bytes | None
    stop_signal: int

    @property
    def other_user(self) -> int | None:
        """The user to become; None when it is us."""
        return None if self.user == os.geteuid() else self.user

    def prepared(self, token: str) -> tuple[list[str], dict[str, str]]:
        """Program with its whole path, and its environment; RunFailed, Unavailable."""
        environment = dict(os.environ)
        if (user := self.other_user) is not None:
            if os.geteuid() != 0:
                raise Unavailable(
                    f"cannot run {self.argv[0]} as {user_name(user)}",
                    why="only root can start programs as another user",
                    fix="run nfslab as root, or leave the user out",
                )
            for name in PER_USER:
                environment.pop(name, None)
            environment |= {"HOME": home_of(user), "USER": user_name(user)}
            environment["LOGNAME"] = environment["USER"]
        environment |= self.env or {}
        environment[TOKEN_VARIABLE] = token
        name = self.argv[0]
        if "/" in name and not os.path.isabs(name) and self.cwd is not None:
            name = str(self.cwd / name)
        program = shutil.which(name, path=environment.get("PATH", os.defpath))
        if program is None:
            raise RunFailed(
                f"the program {self.argv[0]!r} was not found",
                why="it is in no folder of PATH" if "/" not in name else "no such program",
                fix="install it (`nfslab doctor` knows the package of many), or correct its name",
            )
        return [os.path.abspath(program), *self.argv[1:]], environment

    def wrapped(self, argv: list[str]) -> list[str]:
        """With what happens between fork and the program: group, user, death with us."""
        setpriv = shutil.which("setpriv")
        before: list[str] = []
        if self.other_user is not None:
            if setpriv is None:
                raise Unavailable(
                    f"cannot run {argv[0]} as {user_name(self.other_user)}",
                    why="the program setpriv is missing",
                    fix="apt install util-linux",
                )
            before = as_user(self.other_user)
        elif setpriv is not None:
            before = [setpriv]
        # The kernel sends the signal when the *thread* that started the child ends, so
        # only the main thread's end is as good as the runner's.
        if before and threading.current_thread() is threading.main_thread():
            dies = signal.SIGKILL if self.stop_signal == signal.SIGTERM else self.stop_signal
            before = [*before, "--pdeathsig", signal.Signals(dies).name.removeprefix("SIG")]
        elif self.other_user is None:
            before = []
        wrapped = [*before, "--", *argv] if before else argv
        if self.cgroup is not None:
            group = str(self.cgroup.path)
            wrapped = ["/bin/sh", "-c", JOIN_CGROUP, "nfslab-join", group, *wrapped]
        return wrapped


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
        if process._ended_within(max(0.0, min(left, WAIT_SLICE_S))):
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
                f"{name} was ended by {signal.Signals(-code).name}", why=tail(completed)
            )
    return RunFailed(f"{name} failed with exit code {code}", why=tail(completed))
