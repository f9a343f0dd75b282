"""A MariaDB server for one run: started on a private socket, asked, stopped.

The socket lies in a folder of the server's user (0700): there the account `root` without a
password is safe. Stopping is SIGTERM (a fast shutdown), then SIGKILL; a crash ends the server,
there is nothing that starts it again.
"""

from __future__ import annotations

import secrets
import signal
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.mariadb.settings import as_arguments
from nfslab.databases.shared.deployment import short_private_folder
from nfslab.databases.shared.last_words import log_tail, told
from nfslab.databases.shared.served import wait_until_ready
from nfslab.errors import RunFailed
from nfslab.machine.endings import failed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pymysql

    from nfslab.databases.shared.deployment import Deployment
    from nfslab.databases.shared.settings import SettingValue
    from nfslab.machine.resources import Entry
    from nfslab.machine.started import Process
    from nfslab.targets.base import Place

USER: Final = "root"
STOP_S: Final = 20.0
"""A shutdown flushes pages; what is thrown away anyhow may not take longer."""
CONNECT_S: Final = 10
FULL: Final = ("No space left on device", "Disk quota exceeded", "Disk is full", "Errcode: 28",
               "error 28", "Disk full")  # fmt: skip


@dataclass(frozen=True, slots=True)
class MariadbPlace:
    """Where a database lives: its data directory, and the folder of its redo log."""

    data: Path
    log: Path
    temporary: Path | None = None
    """Of its temporary files; None: the server's private folder."""


@dataclass(slots=True)
class MariadbServer:
    """A server that accepts connections."""

    deployment: Deployment
    process: Process
    log: Path
    log_start: int
    private: Entry
    """The folder of its socket."""
    places: Mapping[str, Place]

    @property
    def socket(self) -> Path:
        """Where it is reached."""
        return self.private.path / "socket"

    def connect(self, database: str | None = None) -> pymysql.Connection[Any]:
        """A connection of nfslab's own (autocommit); RunFailed when the server is gone."""
        import pymysql

        try:
            return connected(self.socket, database)
        except (pymysql.Error, OSError) as error:
            raise self.death("MariaDB cannot be reached", str(error)) from error

    def rows(self, statement: str, database: str | None = None) -> Sequence[tuple[Any, ...]]:
        """What one statement yields, over a connection of its own."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def variables(self, what: str) -> dict[str, str]:
        """SHOW GLOBAL VARIABLES or STATUS."""
        return {str(name): str(value) for name, value in self.rows(f"SHOW GLOBAL {what}")}

    def alive(self) -> bool:
        """Does it still run?"""
        return self.process.poll() is None

    def ends_within(self, limit_s: float) -> bool:
        """Wait so long for its end."""
        return self.process.ended_within(limit_s)

    def death(self, what: str, also: str = "") -> RunFailed:
        """The error for a server that failed, with its own last words."""
        if (code := self.process.poll()) is not None and code < 0:
            return failed("the database server", code, "", "see its log in the run's logs")
        lines = log_tail(self.log, since=self.log_start)
        lines += [line for line in also.strip().splitlines() if line.strip()]
        return explained(what, lines, self.places)

    def stop(self, *, hurry: bool = False, grace_s: float = STOP_S) -> int:
        """Shut down, unless in a hurry; its exit code."""
        if self.alive() and not hurry:
            self.process.stop(signal.SIGTERM, grace_s)
        code = self.process.stop(signal.SIGKILL)
        self.private.undo()
        return code


def explained(what: str, lines: list[str], places: Mapping[str, Place]) -> RunFailed:
    """A full target first; its own words always."""
    for line in lines:
        if any(mark in line for mark in FULL):
            role = "wal" if "ib_logfile" in line and "wal" in places else "data"
            return RunFailed(
                f"the target {places[role].target!r} (role {role}) is full: {places[role].path}",
                why=line.strip(),
                fix="free space there, take a larger target, a smaller workload.scale, "
                "or a smaller innodb_log_file_size",
            )
    return RunFailed(what, why=told(lines), fix="see logs/mariadb.log of the run")


def start_server(
    deployment: Deployment,
    program: str,
    place: MariadbPlace,
    settings: Mapping[str, SettingValue],
    *,
    places: Mapping[str, Place],
    log: str = "mariadb.log",
) -> MariadbServer:
    """Start a server and wait until it accepts connections; RunFailed in its own words."""
    import pymysql

    name = f"my-{secrets.token_hex(3)}"
    private = short_private_folder(deployment.resources, name, deployment.user)
    own = {
        "datadir": place.data,
        "innodb_log_group_home_dir": place.log,
        "socket": private.path / "socket",
        "pid_file": private.path / "pid",
        "tmpdir": place.temporary or private.path,
    }
    # Those of ours come last: the last one given is the one that counts.
    argv = [
        program,
        "--no-defaults",
        *as_arguments(settings),
        *(f"--{option}={path}" for option, path in own.items()),
        "--skip-networking",
    ]
    path = deployment.logs / log
    log_start = path.stat().st_size if path.exists() else 0
    try:
        process = deployment.start(argv, log=log, user=deployment.user, stop_signal=signal.SIGTERM)
    except BaseException:
        private.undo()
        raise
    server = MariadbServer(deployment, process, path, log_start, private, places)
    try:
        wait_until_ready(
            server, "MariaDB", lambda: connected(server.socket, None).close(),
            pymysql.Error, OSError,
        )  # fmt: skip
    except BaseException:
        server.stop(hurry=True)
        raise
    return server


def connected(path: Path, database: str | None = None) -> pymysql.Connection[Any]:
    """A connection (autocommit); pymysql.Error, OSError."""
    import pymysql

    # PyMySQL leaves its own socket open where nobody listens yet.
    reached = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        reached.settimeout(CONNECT_S)
        reached.connect(str(path))
        reached.settimeout(None)
        connection = pymysql.Connection(
            unix_socket=str(path), user=USER, database=database, autocommit=True,
            charset="utf8mb4", defer_connect=True, local_infile=True,
        )  # fmt: skip
        connection.connect(reached)
    except BaseException:
        reached.close()
        raise
    return connection
