"""What every host (where programs run) has to be able to do.

A host is brought *up* for a run and taken *down* after it; between the two it starts programs,
copies files to itself, tells facts, and compares its clock with ours. Targets, servers, mounts,
workloads and collectors are told on which host they act; none takes one by itself.

Every program that nfslab starts goes through a host: it is journalled before it is started, runs
in a session of its own (the terminal's Ctrl-C is ours to handle), carries the run's token, may run
as an unprivileged user and inside a control group, and writes to files, never to a pipe that
somebody has to empty. What it reads is there beforehand; only who asks for it ("pipe") may tell a
program something while it runs.

A new host is one file in this folder, one line in `registry.py`, one test file.
"""

from __future__ import annotations

import shlex
import signal
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.machine.endings import failed
from nfslab.results.records import ClockRecord, HostRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from nfslab.machine.cgroup import Cgroup
    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.machine.wire import Wire

LOOPBACK = "127.0.0.1"
TAIL_LINES = 20
"""How many last lines of output an error shows."""


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


@dataclass(frozen=True, slots=True)
class Link:
    """How a host reaches the servers: what they listen on, and as whom they see it."""

    server: str = LOOPBACK
    """Address of the servers' side: they listen here, the host connects here."""
    client: str = LOOPBACK
    """Address of the host, as the servers see it; of several: a network that has theirs."""
    clients: tuple[str, ...] = ()
    """Of several hosts: the address of each, where it is known."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """Whom the servers are for: addresses, or a network."""
        return self.clients or (self.client,)

    @property
    def is_loopback(self) -> bool:
        """No network in between."""
        return self.server == LOOPBACK


@dataclass(frozen=True, slots=True)
class Hosts:
    """Where a target is needed, and where what serves it runs."""

    files: Host
    """Its files are used here: by the workload's client, or by the server of a database."""
    servers: Host


class Host(ABC):
    """Where a program runs."""

    kind: ClassVar[str]
    summary: ClassVar[str]
    name: str
    has_our_files: ClassVar[bool]
    """Its programs see the files and mounts of this machine."""

    @abstractmethod
    def __init__(self, wire: Wire | None = None) -> None:
        """`wire`: between it and the servers, where it has a network of its own."""

    @classmethod
    def available(cls, wire: Wire | None = None) -> Availability:
        """Can there be such a host here, for this user, with such a wire to the servers?"""
        return Availability(True)

    @abstractmethod
    def up(self, resources: Resources) -> None:
        """Make it ready for a run; RunFailed, Unavailable."""

    @abstractmethod
    def down(self) -> None:
        """Remove what `up` made; also when that failed half way."""

    @property
    @abstractmethod
    def link(self) -> Link:
        """To the host of the servers, which is this machine."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What a record keeps of it (JSON)."""

    @abstractmethod
    def monotonic_ns(self) -> int:
        """Its CLOCK_MONOTONIC now."""

    @abstractmethod
    def clock(self) -> ClockRecord:
        """Its monotonic clock against this machine's, measured now."""

    @abstractmethod
    def entered(self) -> AbstractContextManager[None]:
        """What the calling thread, and threads that it starts, does in the block is done there.

        For what lives in our own process (a FUSE mount's sockets). RunFailed where that cannot be.
        """

    @abstractmethod
    def limited(self, cgroup: Cgroup) -> Host:
        """The same host, whose programs all join this control group."""

    @abstractmethod
    def copy(self, source: Path, destination: Path) -> None:
        """Copy a file or a folder of this machine to a path there; RunFailed."""

    @abstractmethod
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
        """Start a program and return at once.

        `log` gets its output (appended), `stdout` its standard output alone when given;
        without them output is thrown away. `env` is added to our own environment.
        `stdin` is what it reads; with "pipe" it is told while it runs (`Process.tell`).
        `stop_signal` is how it is best asked to end, also by a later recovery.
        `watcher` watches it from its first instruction, unless it has watched another one.
        Raises RunFailed, or Unavailable when this user may not do what is asked.
        """

    @abstractmethod
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
        """Run a program to its end; `watcher` as `spawn`.

        `cancelled` is called several times a second and may raise to end it; what it
        returns (seconds left) bounds the time as well. Raises RunFailed with the last
        lines of output when it fails (`check`) or takes longer than `timeout_s`.
        """

    def record(self) -> HostRecord:
        """For the run's record: its name, facts and clock."""
        return HostRecord(name=self.name, kind=self.kind, clock=self.clock(), facts=self.facts())


def tail(completed: Completed) -> str:
    """The last lines that a program said, for an error."""
    said = (completed.stdout.rstrip() + "\n" + completed.stderr.rstrip()).strip().splitlines()
    return "\n       ".join(said[-TAIL_LINES:]) or "it said nothing"


def failure(completed: Completed) -> RunFailed:
    """The error for a program that ended with another exit code than 0."""
    by_hand = f"to see more, run it by hand: {shlex.join(completed.argv)}"
    name = Path(completed.argv[0]).name
    return failed(name, completed.returncode, tail(completed), by_hand)
