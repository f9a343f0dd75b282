"""Running pgbench and watching over it: time, server, room for its log.

pgbench is a program of its own; nothing here sits in its loop. Ten times a second it is
looked at: does it run, does the server run, is the run's time over, does the transaction
log stay within its room. Whatever ends the run ends pgbench first.

Where the log is written matters: pgbench writes it while it measures. When the results
folder shares its device with a target, the log goes to memory (/dev/shm) as long as it
surely fits; the run's notes say where it was.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab import clock
from nfslab.databases.postgres.failures import full_target
from nfslab.databases.postgres.server import Server
from nfslab.errors import RunFailed
from nfslab.machine.clock_pair import clock_pair
from nfslab.machine.endings import failed
from nfslab.machine.processes import CLOCK_TICKS_PER_S, all_statuses, status_of
from nfslab.workloads.pgbench.printed import PrintedReport, read_printed_report
from nfslab.workloads.pgbench.transaction_log import BYTES_PER_TRANSACTION, LOG_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nfslab.databases.postgres.server import Reached
    from nfslab.hosts.base import Host
    from nfslab.machine.processes import Status
    from nfslab.machine.resources import Entry
    from nfslab.targets.base import Place
    from nfslab.workloads.pgbench.parameters import PgbenchParameters

POLL_S: Final = 0.1
READINGS_MOST: Final = 20
"""Of all processes, to find an instant between the ends of two; one takes some milliseconds."""
STOP_GRACE_S: Final = 3.0
DEATH_WAIT_S: Final = 3.0
"""How long a dying server may take to end after a client noticed."""
LOST_WAIT_S: Final = 30.0
"""Where pgbench lost its connection: PostgreSQL gives its own processes 5 s to end (postmaster.c,
SIGKILL_CHILDREN_AFTER_SECS), and a busy machine makes more of it."""
LOST: Final = "server closed the connection"
"""libpq's words."""
MEMORY_FOLDER: Final = Path("/dev/shm")
MEMORY_LOG_BYTES_MAX: Final = 512 << 20
FREE_BYTES_MIN: Final = 64 << 20
"""The log may not take the last of a file system: the results need room as well."""
ASSUMED_TPS: Final = 20_000
"""For the room of a log whose length is not known: more than two CPUs ever made."""


@dataclass(frozen=True, slots=True)
class PgbenchRun:
    """A pgbench that ended well."""

    printed: PrintedReport
    started_ns: int
    """CLOCK_MONOTONIC when it was started."""
    realtime_offset_ns: tuple[int, int]
    """Wall clock minus monotonic clock, before and after: a difference is a clock step."""
    client_cpu_s: float
    server_cpu_s: float | None
    """Of all server processes while pgbench ran; None when it could not be read."""


@dataclass(frozen=True, slots=True)
class LogRoom:
    """Where pgbench's transaction log goes while it runs."""

    entry: Entry
    limit_bytes: int
    note: str

    @property
    def folder(self) -> Path:
        """A folder of this run alone."""
        return self.entry.path

    @property
    def prefix(self) -> Path:
        """pgbench appends its process id, and a thread's number."""
        return self.folder / "transactions"

    def files(self) -> list[Path]:
        """The log's files, the first thread's first."""
        found = self.folder.glob(f"{self.prefix.name}.*")
        return sorted(found, key=lambda path: [int(n) for n in path.name.split(".")[1:]])

    def check(self) -> None:
        """RunFailed when the log grew beyond its limit, or its file system is full."""
        size = sum(path.stat().st_size for path in self.files())
        free = shutil.disk_usage(self.folder).free
        if size > self.limit_bytes or free < FREE_BYTES_MIN:
            raise RunFailed(
                f"pgbench's transaction log needs too much room ({size} bytes so far)",
                why=f"{self.folder} has {free} bytes left; the log may have {self.limit_bytes}",
                fix="shorten the run, make room there, or set workload.sampling_rate below 1",
            )


def expected_transactions(parameters: PgbenchParameters) -> int:
    """At most so many transactions are logged (an estimate with `duration`)."""
    if parameters.transactions is not None:
        count = float(parameters.transactions * parameters.clients)
    else:
        count = (parameters.duration or 0.0) * (parameters.rate or ASSUMED_TPS)
    return int(count * parameters.sampling_rate) + 1


def log_room(
    server: Reached,
    parameters: PgbenchParameters,
    places: Iterable[Path],
    *,
    memory_limited: bool,
) -> LogRoom:
    """Choose where the log goes; RunFailed when it cannot fit anywhere.

    `places`: folders of the database, those that are here.
    `memory_limited`: the load lives in a memory cgroup, where memory is not ours to take.
    """
    logs = server.deployment.logs
    expected = expected_transactions(parameters) * BYTES_PER_TRANSACTION
    devices = {os.stat(place).st_dev for place in places}
    shares = os.stat(logs).st_dev in devices
    name = f"{server.deployment.resources.name}-log-{secrets.token_hex(3)}"
    note = ""
    parent = logs
    if shares:
        usable = MEMORY_FOLDER.is_dir() and not memory_limited
        memory = shutil.disk_usage(MEMORY_FOLDER).free if usable else 0
        fits = expected <= MEMORY_LOG_BYTES_MAX and 4 * expected <= memory
        if fits and os.access(MEMORY_FOLDER, os.W_OK):
            parent = MEMORY_FOLDER
        else:
            note = (
                "pgbench wrote its transaction log to the device under test: its results "
                "folder is on the same file system, and memory is limited or too small"
            )
    free = shutil.disk_usage(parent).free - FREE_BYTES_MIN
    if parameters.transactions is not None and expected > free:
        raise RunFailed(
            f"there is no room for pgbench's transaction log in {parent}",
            why=f"it needs about {expected} bytes, {free} are free",
            fix="make room there, run fewer transactions, or set workload.sampling_rate below 1",
        )
    entry = server.deployment.resources.make_directory(parent / name)
    limit = MEMORY_LOG_BYTES_MAX if parent == MEMORY_FOLDER else LOG_BYTES_MAX
    return LogRoom(entry, limit, note)


def run_pgbench(
    server: Reached,
    argv: list[str],
    *,
    name: str,
    client: Host,
    room: LogRoom | None,
    places: Mapping[str, Place],
) -> PgbenchRun:
    """Run pgbench on `client` to its end; RunFailed says whose fault it was, if it failed."""
    deployment = server.deployment
    out = deployment.logs / f"{name}.out"
    log = deployment.logs / f"{name}.log"
    pid = server.process.pid if isinstance(server, Server) else None
    cpu_before = None if pid is None else server_cpu_s(pid)
    offset_before = _realtime_offset_ns()
    started_ns = clock.monotonic_ns()
    process = deployment.start(
        argv,
        host=client,
        log=log.name,
        stdout=out.name,
        env=server.client_environment(),
        stop_signal=signal.SIGTERM,
    )
    try:
        while (code := process.poll()) is None:
            deployment.remaining_s()
            if not server.alive():
                raise server.death("PostgreSQL died in the middle of the run")
            if room is not None:
                room.check()
            clock.sleep(POLL_S)
    finally:
        process.stop(grace_s=STOP_GRACE_S)
    said = log.read_text(encoding="utf-8", errors="replace")
    if code != 0:
        raise _failure(server, code, said, places)
    cpu_after = None if pid is None else server_cpu_s(pid)
    known = cpu_before is not None and cpu_after is not None
    return PgbenchRun(
        printed=read_printed_report(out.read_text(encoding="utf-8", errors="replace")),
        started_ns=started_ns,
        realtime_offset_ns=(offset_before, _realtime_offset_ns()),
        client_cpu_s=sum(process.cpu_s()),
        server_cpu_s=cpu_after - cpu_before if known else None,  # type: ignore[operator]
    )


def _failure(server: Reached, code: int, said: str, places: Mapping[str, Place]) -> RunFailed:
    """Why pgbench failed: a full target, a dead server, or its own words."""
    lines = [line for line in said.splitlines() if line.strip()]
    if full := full_target(lines, places):
        return full
    if server.ends_within(LOST_WAIT_S if LOST in said else DEATH_WAIT_S):
        return server.death("PostgreSQL died in the middle of the run", "\n".join(lines[-3:]))
    words = "\n       ".join(lines[-12:]) or "it said nothing"
    return failed("pgbench", code, words, "see logs/pgbench.log and logs/postgres.log of the run")


def server_cpu_s(postmaster: int) -> float | None:
    """CPU seconds so far of a server's processes: the living ones and those that ended.

    All of PostgreSQL's processes are children of the postmaster, which waits for each:
    those that ended are in its own account (proc(5): cutime, cstime). One that it waits for while
    the others are read would be in neither: then they are read again, `READINGS_MOST` times.
    Resolution: a clock tick (10 ms) a process. None when there is no such process, or when its
    children came and went through all readings.
    """
    before = status_of(postmaster)
    for _ in range(READINGS_MOST):
        children = [status for status in all_statuses() if status.parent == postmaster]
        after = status_of(postmaster)
        if before is None or after is None:
            return None
        if _waited_ticks(before) == _waited_ticks(after):
            own = (status.user_ticks + status.system_ticks for status in [after, *children])
            return (sum(own) + _waited_ticks(after)) / CLOCK_TICKS_PER_S
        before = after
    return None


def _waited_ticks(status: Status) -> int:
    return status.waited_user_ticks + status.waited_system_ticks


def _realtime_offset_ns() -> int:
    """Wall clock minus monotonic clock, read as closely together as it goes."""
    wall_ns, monotonic_ns, _ = clock_pair()
    return wall_ns - monotonic_ns
