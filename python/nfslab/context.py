"""What the plug-ins of one run share: its timed part, and the services that they offer each other.

The runner makes one of each for a run and hands them on in `RunContext`. A target or a workload
sets the service that it brought up; a collector reads it, and asks to be called when the timed
part begins. A new service is one field here, with a type.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from nfslab import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from nfslab._core import RpcRecorder
    from nfslab.databases.postgres.service import PostgresService
    from nfslab.databases.shared.service import DatabaseService
    from nfslab.machine.cgroup import Cgroup
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.mounts.kernel_recorder import KernelRecorder
    from nfslab.mounts.none import NfsExport
    from nfslab.results.records import RunRecord


class RecordsCalls(Protocol):
    """An NFS server that writes its calls to a file."""

    def record(self, file: Path, rows_max: int | None = None) -> int:
        """Every call from now on, as Parquet; the instant, CLOCK_MONOTONIC. RunFailed.

        Beyond `rows_max` calls are counted, not written.
        """

    def end_recording(self) -> dict[str, Any]:
        """The file gets its name: rows, lost, left_out, cpu_s, at_ns, file. RunFailed."""


@dataclass(slots=True)
class Services:
    """What is up in a run, for those that load or watch it; by target where it is a target's."""

    engine: str = ""
    """Of the database under load, with a server or without."""
    database: DatabaseService | None = None
    """Of whatever engine; an engine without a server has none."""
    postgres: PostgresService | None = None
    """The same, where it is a PostgreSQL."""
    web_server_pids: Sequence[int] = ()
    """Of a web server that the workload started, and of its application; the server's first."""
    nfs_exports: dict[str, NfsExport] = field(default_factory=dict)
    """Not mounted: the workload is the client."""
    rpc_recorders: dict[str, RpcRecorder | KernelRecorder] = field(default_factory=dict)
    """Of NFS clients."""
    nfs_served: list[tuple[str, list[str]]] = field(default_factory=list)
    """Of each NFS server of the run on this host: HOST:/EXPORT, and options that tell its ports."""
    nfs_servers: dict[str, RecordsCalls] = field(default_factory=dict)
    """Servers that record their calls."""
    server_watcher: LaunchWatcher | None = None
    """Who watches the workload's own server from its launch on: an option of it."""
    syscalls_by: str = ""
    """The collector that watches system calls: one at a time."""
    memory_cgroup: Cgroup | None = None
    """Where server and client of the workload are, when their memory is limited."""

    def server_pids(self) -> list[int]:
        """Processes of the workload's own server, if it has one: its files are used by them."""
        return list(self.web_server_pids) if self.database is None else [self.database.pid]


@dataclass(frozen=True, slots=True)
class Share:
    """Which part of a load that several client hosts make a run is."""

    host: int
    """0-based."""
    hosts: int
    processes: int
    """Of the workload, on each host."""

    @property
    def of(self) -> int:
        """Processes of all hosts."""
        return self.hosts * self.processes

    @property
    def indices(self) -> range:
        """Of the processes here, among those of all hosts."""
        return range(self.host * self.processes, (self.host + 1) * self.processes)


WHOLE: Final = Share(0, 1, 1)
"""A load that one host makes."""


@dataclass(frozen=True, slots=True)
class HostPart:
    """What one of several hosts measured: its own sealed run."""

    name: str
    share: Share
    folder: Path
    record: RunRecord
    offset_ns: int
    """Its monotonic clock minus ours."""


@dataclass(frozen=True, slots=True)
class Met:
    """When all that met go on."""

    at_ns: int
    """On the monotonic clock of this host."""
    common_ns: int
    """The same instant on the clock on which the run is put together."""
    said: tuple[Any, ...]
    """What each of them said, in the order of the hosts."""


class TimedPart:
    """The part of a run that its figures are of; the runner owns it.

        with context.timed() as part:
            process = context.client_host.spawn(argv, watcher=part.watcher, ...)
            ...
        part.was(start_ns, end_ns)      # when the program itself says it more exactly

    Instants are nanoseconds of `clock`, the monotonic clock of the host that the workload's
    client runs on. They are None until they are known: a run that fails before has none.

    On one of several client hosts the block begins at the instant that all of them were given
    (`CommonStart`); a program that takes its instant beforehand asks for it with `lead_s`:

        with context.timed(lead_s=0.1) as part:
            program.begin(at_ns=part.start_ns)
            part.began(program.began_ns)   # by its own account
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self.start_ns: int | None = None
        self.end_ns: int | None = None
        self.began_ns: int | None = None
        """When the last of its programs really began, by its own account; None: it has none."""
        self.watcher: LaunchWatcher | None = None
        """Who watches the program that is timed: an option of its launch."""
        self._clock = clock
        self._at_start: list[Callable[[], object]] = []

    def at_start(self, call: Callable[[], object]) -> None:
        """Have this called once, right before the timed program starts (after a warm-up)."""
        self._at_start.append(call)

    @contextlib.contextmanager
    def __call__(self, lead_s: float = 0.0) -> Iterator[TimedPart]:
        """The timed part is the block, unless `was` says it more exactly.

        With `lead_s` it begins so much later than the block, at `start_ns`.
        """
        given_ns = self._given()
        calls, self._at_start = self._at_start, []
        for call in calls:
            call()
        if given_ns is None:
            self.start_ns = self._clock() + round(lead_s * 1e9)
        elif lead_s:
            self.start_ns = given_ns
        else:
            self._wait_until(given_ns)
            self.start_ns = self.began_ns = self._clock()
        try:
            yield self
        finally:
            self.end_ns = self._clock()

    def _given(self) -> int | None:
        """The instant that somebody else decides on, once it is known; None: nobody does."""
        return None

    def _wait_until(self, at_ns: int) -> None:
        """Of `clock`; never too early."""
        while (left_ns := at_ns - self._clock()) > 0:
            clock.sleep(left_ns / 1e9)

    def meet(self, gate: str, said: Any = None) -> Met:
        """Wait until the programs of all client hosts are at this gate, in the block or before it.

        For a load of several phases, which have to begin together to add up. What each host says, a
        little JSON, all of them hear: so they decide alike what comes next.
        """
        now_ns = self._clock()
        return Met(now_ns, now_ns, (said,))

    def began(self, at_ns: int) -> None:
        """When its programs really began; of several, the last."""
        self.began_ns = at_ns

    def was(self, start_ns: int, end_ns: int) -> None:
        """When it really began and ended, by the timed program's own account."""
        self.start_ns, self.end_ns = start_ns, end_ns

    def start_or(self, began_ns: int) -> int:
        """Where t = 0 is; `began_ns` of a run whose timed part never began."""
        return began_ns if self.start_ns is None else self.start_ns
