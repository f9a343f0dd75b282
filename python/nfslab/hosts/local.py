"""This machine, as a place to run programs on.

Decisions: arguments are passed as they are, nothing is ever interpolated into a shell
line. Joining a control group comes before the program's first instruction, and as root,
so it is done by a fixed two-line shell wrapper; giving up root's powers by `setpriv`. A
child dies with its runner where `setpriv` can arrange it; the journal is what is relied
upon. CPU time is what wait4(2) reports, with the children that the program waited for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Literal, Self

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.hosts.base import Completed, Host, Link, failure, tail
from nfslab.machine.launch import Launch
from nfslab.machine.starting import start
from nfslab.results.records import ClockRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nfslab.machine.cgroup import Cgroup
    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.machine.wire import Wire

OUTPUT_LIMIT_BYTES = 64 << 20
"""What `run` keeps of a program's output; the part left out is marked."""
WAIT_SLICE_S = 0.2
"""How often a wait looks whether the run was cancelled."""


class LocalHost(Host):
    """This machine."""

    kind: ClassVar[str] = "local"
    summary: ClassVar[str] = "this machine"
    has_our_files: ClassVar[bool] = True

    def __init__(self, wire: Wire | None = None) -> None:
        self.name = self.kind
        self._cgroup: Cgroup | None = None
        self._network: Path | None = None
        """The network namespace that its programs join; None: ours."""
        self._seen_by = Link()

    def up(self, resources: Resources) -> None:
        """Nothing is to be made."""

    def down(self) -> None:
        """Nothing was made."""

    @property
    def link(self) -> Link:
        """Loopback, unless it is reached by others."""
        return self._seen_by

    def seen_by(self, link: Link) -> Self:
        """The same host as others see it: its address, and theirs."""
        self._seen_by = link
        return self

    def facts(self) -> dict[str, Any]:
        """Its kernel; all else is in the provenance."""
        return {"kernel": os.uname().release}

    def monotonic_ns(self) -> int:
        """Our own clock."""
        return clock.monotonic_ns()

    def clock(self) -> ClockRecord:
        """The same clock: 0, exactly."""
        return ClockRecord()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """We are here."""
        yield

    def limited(self, cgroup: Cgroup) -> Self:
        """The same host, whose programs all join this control group."""
        import copy

        host = copy.copy(self)
        host._cgroup = cgroup
        return host

    def copy(self, source: Path, destination: Path) -> None:
        """Contents, modes and times; symbolic links stay links."""
        try:
            if source.is_dir():
                shutil.copytree(source, destination, symlinks=True)
            else:
                shutil.copy2(source, destination)
        except OSError as error:
            raise RunFailed(
                f"cannot copy {source} to {destination}",
                why=str(error),
                fix="make room there and let this user write",
            ) from error

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
        stdin: bytes | Literal["pipe"] | None = None,
        stop_signal: int = signal.SIGTERM,
        watcher: LaunchWatcher | None = None,
    ) -> Process:
        """Start a program and return at once; see `Host.spawn`."""
        watched = False
        if watcher is not None:
            argv, env, watched = watcher.wrapped(argv, env, user)
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
            launch = Launch(
                list(argv), env, cwd, user, self._cgroup, stdin, stop_signal, self._network
            )
            process = start(launch, resources, out, err)
        if watcher is not None and watched:
            watcher.spawned(process)
        return process

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
        stdin: bytes | None = None,
        log: Path | None = None,
        cancelled: Callable[[], float] | None = None,
        watcher: LaunchWatcher | None = None,
    ) -> Completed:
        """Run a program to its end; see `Host.run`."""
        with contextlib.ExitStack() as stack:
            if watcher is not None:
                argv, env, watched = watcher.wrapped(argv, env, user)
                if watched:
                    stack.enter_context(watcher.beside())
            out = stack.enter_context(tempfile.TemporaryFile())
            err = stack.enter_context(tempfile.TemporaryFile())
            command = Launch(
                list(argv), env, cwd, user, self._cgroup, stdin, signal.SIGTERM, self._network
            )
            process = start(command, resources, out, err)
            try:
                deadline = process.started_monotonic_ns / 1e9 + timeout_s
                late = _wait_watching(process, deadline, cancelled)
            finally:
                process.stop()
                wall_s = (clock.monotonic_ns() - process.started_monotonic_ns) / 1e9
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


def _wait_watching(
    process: Process, deadline: float, cancelled: Callable[[], float] | None
) -> bool:
    """Wait for the end; True when the deadline came first. What `cancelled` raises."""
    while True:
        left = deadline - clock.monotonic()
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
