"""A PostgreSQL server for one run: started, reached, watched, stopped.

Who may connect: by default only a Unix socket in a private folder (0700) of the server's
user; there `trust` is safe, since only that user and root get to the socket. With TCP the
server listens on its side of the link to the client's host (loopback when that is here), on a
port that the kernel gave, for the ends of the link alone (of several client hosts: for each of
them), and asks for a password made for this run (SCRAM); there is never an open port without one.
The access file lies beside the socket, the cluster's own files are not touched.

Decisions: settings are given as arguments, so what ran can be read from the run's record
and repeated by hand. A crash of any backend ends the server (restart_after_crash = off):
a run that survived a crash would measure the recovery. Stopping is fast shutdown
(SIGINT), then immediate (SIGQUIT), then SIGKILL, each within its bound; SIGQUIT is also
what a dead runner's server gets, since it removes PostgreSQL's shared memory. One that
had to be killed leaves a small segment (ipcs -m), as PostgreSQL always does then.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
import signal
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.databases.postgres.clients import clients_are_gone
from nfslab.databases.postgres.deployment import ROLE_NAME
from nfslab.databases.postgres.failures import explained
from nfslab.databases.postgres.settings import as_arguments
from nfslab.databases.shared.deployment import short_private_folder
from nfslab.databases.shared.last_words import log_tail
from nfslab.databases.shared.served import READY_POLL_S, wait_until_ready
from nfslab.errors import RunFailed
from nfslab.machine.endings import failed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import psycopg

    from nfslab.databases.postgres.deployment import PostgresDeployment
    from nfslab.databases.shared.settings import SettingValue
    from nfslab.hosts.base import Link
    from nfslab.machine.resources import Entry
    from nfslab.machine.started import Process
    from nfslab.targets.base import Place

PORT_ATTEMPTS: Final = 5
FAST_STOP_S: Final = 15.0
"""A fast shutdown writes a checkpoint; what is thrown away anyhow may not take longer."""
IMMEDIATE_STOP_S: Final = 5.0
SOCKET_PORT: Final = 5432
"""With a socket only, the number is but a part of the socket's file name."""
PORT_IN_USE: Final = ("could not bind", "Address already in use", "could not create any TCP/IP")


class Reached(ABC):
    """How a server's clients reach it."""

    deployment: PostgresDeployment
    host: str
    port: int
    password: str

    def client_arguments(self) -> list[str]:
        """`-h -p -U` for PostgreSQL's own programs."""
        return ["-h", self.host, "-p", str(self.port), "-U", ROLE_NAME]

    def client_environment(self) -> dict[str, str]:
        """The password, for PostgreSQL's own programs: never in an argument list."""
        return {"PGPASSWORD": self.password} if self.password else {}

    def conninfo(self, database: str | None = None) -> str:
        """Connection string for psycopg, for the load's database unless another is named; every
        value that the environment could change."""
        from psycopg.conninfo import make_conninfo

        values: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "user": ROLE_NAME,
            "dbname": database or self.deployment.database,
            "application_name": "nfslab",
            "client_encoding": "UTF8",
            "sslmode": "disable",
            "connect_timeout": 30,
            "options": "-c statement_timeout=0 -c lock_timeout=0",
        }
        if self.password:
            values["password"] = self.password
        return make_conninfo(**values)

    def connect(self, database: str | None = None) -> psycopg.Connection[Any]:
        """A connection of nfslab's own (autocommit); RunFailed when the server is gone."""
        import psycopg

        try:
            return psycopg.connect(self.conninfo(database), autocommit=True)
        except psycopg.OperationalError as error:
            raise self.death("PostgreSQL cannot be reached", str(error)) from error

    def clients_are_gone(self, name: str) -> bool:
        """Are the sessions with this application_name over? It is waited for; RunFailed."""
        import psycopg

        try:
            with contextlib.closing(self.connect()) as connection:
                return clients_are_gone(connection, name, self.deployment.installation.major)
        except psycopg.OperationalError as error:
            raise self.death("PostgreSQL ended after the load", str(error)) from error

    @abstractmethod
    def alive(self) -> bool:
        """Does it still run, as far as is known here?"""

    @abstractmethod
    def ends_within(self, limit_s: float) -> bool:
        """Whether it is gone, or goes so soon, as far as is known here."""

    @abstractmethod
    def death(self, what: str, also: str = "") -> RunFailed:
        """The error for a server that failed."""


@dataclass(slots=True)
class ServerElsewhere(Reached):
    """One that another machine of the run has: whether it lives is seen there."""

    deployment: PostgresDeployment
    """Of the programs that are its clients here."""
    host: str
    port: int
    password: str

    def alive(self) -> bool:
        """Nobody here would know."""
        return True

    def ends_within(self, limit_s: float) -> bool:
        """Nobody here would know."""
        return False

    def death(self, what: str, also: str = "") -> RunFailed:
        """In the client's words."""
        why = "; ".join(line.strip() for line in also.splitlines() if line.strip())
        return RunFailed(
            what, why=why or "it did not say why", fix="see logs/postgres.log of the whole run"
        )


@dataclass(slots=True)
class Server(Reached):
    """A server that accepts connections."""

    deployment: PostgresDeployment
    process: Process
    log: Path
    host: str
    """Folder of the socket, or the address that it listens on."""
    port: int
    places: Mapping[str, Place]
    log_start: int
    """Bytes of the log that were there before this server."""
    password: str = ""
    private: Entry | None = None
    """The folder of its socket."""

    def alive(self) -> bool:
        """Does the server's first process still run?"""
        return self.process.poll() is None

    def ends_within(self, limit_s: float) -> bool:
        """Wait so long for the end of the server's first process."""
        return self.process.ended_within(limit_s)

    def death(self, what: str, also: str = "") -> RunFailed:
        """The error for a server that failed, with its own last words."""
        if (code := self.process.poll()) is not None and code < 0:
            return failed("the database server", code, "", "see its log in the run's logs")
        lines = log_tail(self.log, since=self.log_start)
        lines += [line for line in also.strip().splitlines() if line.strip()]
        return explained(what, lines, self.places)

    def stop(self, *, hurry: bool = False) -> None:
        """Shut down: fast unless in a hurry, then immediate, then by force."""
        steps = [] if hurry else [(signal.SIGINT, FAST_STOP_S)]
        for number, limit_s in [*steps, (signal.SIGQUIT, IMMEDIATE_STOP_S)]:
            if not self.alive():
                break
            _signal(self.process.pid, number)
            self.process.ended_within(limit_s)
        self.process.stop(signal.SIGKILL)
        self._forget_folder()

    def _forget_folder(self) -> None:
        if self.private is not None:
            self.private.undo()
            self.private = None

    def shut_down_cleanly(self) -> None:
        """Fast shutdown that has to succeed: the cluster's files are needed afterwards."""
        _signal(self.process.pid, signal.SIGINT)
        deadline = clock.monotonic() + max(1.0, self.deployment.remaining_s())
        while self.alive() and clock.monotonic() < deadline:
            self.deployment.remaining_s()
            clock.sleep(READY_POLL_S)
        code = self.process.poll()
        if code != 0:
            self.stop(hurry=True)
            raise self.death(f"PostgreSQL did not shut down cleanly (exit code {code})")
        self._forget_folder()


def _signal(pid: int, number: int) -> None:
    """To the postmaster alone, and surely to it (it was started by us)."""
    from nfslab.machine.processes import identity_of, send_signal

    identity = identity_of(pid)
    if identity is not None:
        send_signal(identity, number)


def start_server(
    deployment: PostgresDeployment,
    data: Path,
    settings: Mapping[str, SettingValue],
    *,
    places: Mapping[str, Place],
    link: Link | None = None,
    log: str = "postgres.log",
) -> Server:
    """Start a server on a cluster and wait until it accepts connections.

    With `link` it listens for TCP on the servers' side of it. Raises RunFailed with the server's
    own words when it does not start.
    """
    tcp = link is not None
    name = f"pg-{secrets.token_hex(3)}"
    private = short_private_folder(deployment.resources, name, deployment.user)
    password = secrets.token_urlsafe(24) if tcp else ""
    try:
        access = _write_access(private.path, deployment.user, link)
        for left in reversed(range(PORT_ATTEMPTS)):
            try:
                server = _launch(deployment, data, settings, access, places, link, log)
                break
            except RunFailed as error:
                # Somebody may have taken the port between our look and the server's start.
                taken = tcp and any(mark in str(error) for mark in PORT_IN_USE)
                if not taken or not left:
                    raise
        server.private = private
        if link is not None:
            try:
                _set_password(server, password)
            except BaseException:
                server.stop(hurry=True)
                raise
            server.host, server.password = link.server, password
    except BaseException:
        private.undo()
        raise
    return server


def _launch(
    deployment: PostgresDeployment,
    data: Path,
    settings: Mapping[str, SettingValue],
    access: Path,
    places: Mapping[str, Place],
    link: Link | None,
    log: str,
) -> Server:
    """Start it once, and wait until it accepts connections on its socket."""
    import psycopg

    port = SOCKET_PORT if link is None else _free_port(link.server)
    folder = str(access.parent)
    own: dict[str, SettingValue] = {
        "listen_addresses": "" if link is None else link.server,
        "port": port,
        "unix_socket_directories": '"' + folder.replace('"', '""') + '"',
        "unix_socket_permissions": "0700",
        "hba_file": str(access),
        "logging_collector": False,
        "log_destination": "stderr",
        "log_line_prefix": "%m [%p] %b ",
        "lc_messages": "C",
        "restart_after_crash": False,
        "ssl": False,
        "password_encryption": "scram-sha-256",
    }
    # Those of ours come last: the last one given is the one that counts.
    argv = [
        deployment.installation.program("postgres"),
        *("-D", str(data)),
        *as_arguments(dict(settings) | own),
    ]
    path = deployment.logs / log
    log_start = path.stat().st_size if path.exists() else 0
    process = deployment.start(
        argv,
        log=log,
        user=deployment.user,
        stop_signal=signal.SIGQUIT,
        env=deployment.delays.environment(access.parent),
    )
    server = Server(deployment, process, path, folder, port, places, log_start)
    try:
        # As pg_ctl does.
        wait_until_ready(
            server, "PostgreSQL", lambda: psycopg.connect(server.conninfo("postgres")).close(),
            psycopg.OperationalError,
        )  # fmt: skip
    except BaseException:
        server.stop(hurry=True)
        raise
    return server


def _set_password(server: Server, password: str) -> None:
    """Give the run's user its password, as a SCRAM verifier: the text itself stays here."""
    from psycopg import sql

    with server.connect("postgres") as connection:
        verifier = connection.pgconn.encrypt_password(
            password.encode(), ROLE_NAME.encode(), b"scram-sha-256"
        )
        connection.execute(
            sql.SQL("ALTER ROLE {} PASSWORD {}").format(
                sql.Identifier(ROLE_NAME), sql.Literal(verifier.decode())
            )
        )


def _free_port(address: str) -> int:
    """A port that is free now; another program may take it before the server does."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def _write_access(folder: Path, user: int | None, link: Link | None) -> Path:
    """Who may connect (pg_hba.conf), readable by the server's user (and root) only."""
    rules = ["local all all trust"]
    if link is not None:
        # The clients; and nfslab itself, which asks the server from its own side.
        rules += [
            f"host all all {ipaddress.ip_network(address)} scram-sha-256"
            for address in dict.fromkeys((*link.addresses, link.server))
        ]
    path = folder / "pg_hba.conf"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write("".join(f"{rule}\n" for rule in rules))
        if user is not None:
            os.fchown(stream.fileno(), user, -1)
    return path
