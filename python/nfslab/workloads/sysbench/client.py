"""sysbench as the client of any engine: its arguments, running it, its end.

SQLite is a library: then sysbench's process is the database, too, and is what is watched.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab import clock
from nfslab.databases.postgres.deployment import ROLE_NAME
from nfslab.databases.shared.deployment import ENVIRONMENT, without_client_variables
from nfslab.databases.sqlite.database import DRIVER
from nfslab.machine.availability import Availability
from nfslab.machine.endings import failed
from nfslab.machine.tools import said_by
from nfslab.workloads.sysbench.rows import Transactions, read_rows

if TYPE_CHECKING:
    from nfslab.databases.base import Database
    from nfslab.databases.mariadb.server import MariadbServer
    from nfslab.databases.postgres.server import Server
    from nfslab.databases.sqlite.settings import SqliteSettings
    from nfslab.machine.started import Process
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.workloads.base import RunContext

PROGRAM: Final = "sysbench"
PACKAGE_FIX: Final = "install it (Debian: apt-get install sysbench)"
PROBE_TIMEOUT_S: Final = 20.0
POLL_S: Final = 0.1
STOP_GRACE_S: Final = 3.0
DEATH_WAIT_S: Final = 5.0
"""A server that dies closes its connections first: its client may end before it."""
CLIENTS_MAX: Final = 4096
SHARED: Final = Path(__file__).parent / "transactions.lua"
"""What each script reads."""


@dataclass(frozen=True, slots=True)
class Load:
    """What it is to do."""

    script: Path
    clients: int
    """Connections, each with a thread of its own."""
    max_tries: int
    reached: list[str]
    """Where the database is, as sysbench takes it."""
    options: Mapping[str, int] = field(default_factory=dict)
    """Of the script."""
    name: str = ""
    """application_name of its connections to PostgreSQL."""

    def command(self, *, seed: int, seconds: float, log: Path) -> list[str]:
        """The whole of it; `log`: of the rows, a file for each client."""
        own = {"max_tries": self.max_tries, "log": log, **self.options}
        return [
            *(("env", f"PGAPPNAME={self.name}") if self.name else ()),
            PROGRAM, *self.reached, f"--threads={self.clients}", f"--time={int(seconds)}",
            "--events=0", f"--rand-seed={seed % (2**31 - 1) + 1}",
            *(f"--{name}={value}" for name, value in own.items()), str(self.script), "run",
        ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClientRun:
    """A sysbench that ended well."""

    rows: Transactions
    printed: str
    cpu_s: float


def available(driver: str) -> Availability:
    """Is sysbench here, with a driver for this ("" for none)?"""
    program = shutil.which(PROGRAM)
    if program is None:
        return Availability(False, f"there is no {PROGRAM}", PACKAGE_FIX)
    if driver and driver not in _drivers(program):
        return Availability(
            False, f"{program} was built without its driver for {driver}", PACKAGE_FIX
        )
    return Availability(True)


@lru_cache(maxsize=4)
def _drivers(program: str) -> frozenset[str]:
    try:
        said = said_by([program, "--help"], PROBE_TIMEOUT_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(re.findall(r"^  (mysql|pgsql) - ", said, re.MULTILINE))


def whole_seconds(value: float) -> float:
    """As sysbench takes them; ValueError."""
    if value != int(value):
        raise ValueError(f"sysbench takes whole seconds, not {value:g}")
    return value


def at_postgres(server: Server) -> list[str]:
    """Where it is reached."""
    return [
        "--db-driver=pgsql", f"--pgsql-host={server.host}", f"--pgsql-port={server.port}",
        f"--pgsql-user={ROLE_NAME}", f"--pgsql-db={server.deployment.database}",
    ]  # fmt: skip


def at_mariadb(server: MariadbServer, database: str) -> list[str]:
    """Where it is reached."""
    return [
        "--db-driver=mysql", f"--mysql-socket={server.socket}", "--mysql-user=root",
        f"--mysql-db={database}", "--mysql-ignore-errors=1213,1020,1205",
    ]  # fmt: skip


def at_sqlite(file: Path, settings: SqliteSettings) -> list[str]:
    """Where it is, and how it is opened."""
    pragmas = ";".join(f"{name}={value}" for name, value in settings.pragmas().items())
    return [
        f"--sqlite={file}", f"--sqlite_driver={DRIVER}", f"--pragmas={pragmas}",
        f"--busy_timeout={settings.busy_timeout_ms}",
    ]  # fmt: skip


def run(
    context: RunContext, database: Database, argv: list[str], name: str, clients: int,
    watcher: LaunchWatcher | None = None,
) -> ClientRun:  # fmt: skip
    """To its end; RunFailed in its words, or in those of a server that died."""
    argv = without_client_variables(argv)
    context.commands.append(argv)
    out, log = context.logs / f"{name}.out", context.logs / f"{name}.log"
    process = context.client_host.spawn(
        argv, resources=context.resources, log=log, stdout=out, env=ENVIRONMENT, watcher=watcher
    )
    try:
        code = _watched(context, database, process)
    finally:
        process.stop(grace_s=STOP_GRACE_S)
    printed = out.read_text(encoding="utf-8", errors="replace")
    if code != 0:
        said = printed + log.read_text(encoding="utf-8", errors="replace")
        lines = [line for line in said.splitlines() if "FATAL" in line] or said.splitlines()
        if database.ends_within(DEATH_WAIT_S):
            raise database.death(f"{database.title} died in the middle of the run", said)
        words = "\n       ".join(lines[-6:]) or "it said nothing"
        raise failed("sysbench", code, words, f"see logs/{name}.log and the server's log")
    files = [context.logs / f"{name}.rows.{client}" for client in range(clients)]
    rows = read_rows(files)
    for file in files:
        file.unlink()
    return ClientRun(rows, printed, sum(process.cpu_s()))


def _watched(context: RunContext, database: Database, process: Process) -> int:
    while (code := process.poll()) is None:
        context.remaining_s()
        if not database.alive():
            raise database.death(f"{database.title} died in the middle of the run")
        clock.sleep(POLL_S)
    return code
