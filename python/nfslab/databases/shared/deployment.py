"""How an engine's programs are run for one run: where, as whom, with which environment.

Everything goes through the run's `Host` and `Resources`, as an argument list. Two things
of the caller's environment must not leak into a measurement: the locale (messages and
decimal points are read back: LC_ALL=C) and the variables of its client libraries (PGHOST,
MYSQL_HOME, ...), which are taken away by env(1).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab.errors import RunFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Self

    from nfslab.hosts.base import Completed, Host
    from nfslab.machine.resources import Entry, Resources
    from nfslab.machine.started import Process
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.workloads.base import RunContext

CLIENT_VARIABLES: Final = ("PG", "MYSQL_", "MARIADB_")
"""Beginnings of names: libpq's, those of MariaDB's libraries."""
ENVIRONMENT: Final = {"LC_ALL": "C", "TZ": "UTC"}
COMMAND_LIMIT_S: Final = 24 * 3600.0
"""Bound for one program; the run's own time limit ends it before."""


def without_client_variables(argv: Sequence[str]) -> list[str]:
    """The command, started without such variables of our own environment."""
    names = sorted(name for name in os.environ if name.startswith(CLIENT_VARIABLES))
    if not names:
        return list(argv)
    return ["env", *(part for name in names for part in ("-u", name)), *argv]


@dataclass(slots=True)
class Deployment:
    """Where and as whom an engine's programs run, for one run."""

    host: Host
    resources: Resources
    user: int | None
    """The user of the server; None: the caller."""
    logs: Path
    """Folder for what the programs say."""
    remaining_s: Callable[[], float]
    commands: list[list[str]]
    """What was started, for the run's record."""
    watcher: LaunchWatcher | None = None
    """Of the first program that is started."""
    say: Callable[[str], None] = lambda _text: None
    """How far something long is."""

    @classmethod
    def of(cls, context: RunContext, user: int | None, **more: Any) -> Self:
        """On the run's server host."""
        return cls(
            host=context.server_host,
            resources=context.resources,
            user=user,
            logs=context.logs,
            remaining_s=context.remaining_s,
            commands=context.commands,
            say=context.say,
            **more,
        )

    def run(
        self,
        argv: Sequence[str],
        *,
        log: str | None = None,
        user: int | None = None,
        env: Mapping[str, str] | None = None,
        record: bool = True,
        check: bool = True,
    ) -> Completed:
        """Run a program to its end, within the run's time; RunFailed shows its last lines."""
        if record:
            self.commands.append(list(argv))
        return self.host.run(
            without_client_variables(argv),
            resources=self.resources,
            timeout_s=COMMAND_LIMIT_S,
            check=check,
            env=ENVIRONMENT | dict(env or {}),
            user=user,
            cwd=Path("/"),
            log=self.logs / log if log else None,
            cancelled=self.remaining_s,
        )

    def start(
        self,
        argv: Sequence[str],
        *,
        log: str,
        user: int | None = None,
        env: Mapping[str, str] | None = None,
        stdout: str | None = None,
        stop_signal: int,
        host: Host | None = None,
        stdin: Literal["pipe"] | None = None,
    ) -> Process:
        """Start a program that runs beside us; on the server's host, unless another is given."""
        self.commands.append(list(argv))
        return (host or self.host).spawn(
            without_client_variables(argv),
            resources=self.resources,
            log=self.logs / log,
            stdout=self.logs / stdout if stdout else None,
            env=ENVIRONMENT | dict(env or {}),
            user=user,
            cwd=Path("/"),
            stdin=stdin,
            stop_signal=stop_signal,
            watcher=self.watcher,
        )

    def synchronise(self, path: Path) -> None:
        """Write everything of this path's file system to stable storage (syncfs)."""
        self.run(["sync", "-f", str(path)], record=False)


def short_private_folder(resources: Resources, name: str, user: int | None) -> Entry:
    """A new private folder of `user` (mode 0700) whose path is short, for a socket.

    The path of a Unix socket has at most 107 bytes (sun_path), so it cannot lie below a
    target. Journalled: whoever asked for it undoes it.
    """
    import tempfile

    for parent in (Path("/tmp"), Path(tempfile.gettempdir()), Path("/var/tmp")):
        path = parent / f"{resources.name}-{name}"
        if len(os.fsencode(path)) > SOCKET_FOLDER_BYTES_MAX or not os.access(parent, os.W_OK):
            continue
        return resources.make_directory(path, owner=user, mode=0o700)
    raise RunFailed(
        "there is no folder for the server's socket",
        why=f"/tmp and {tempfile.gettempdir()} cannot be written to, or have too long a path",
        fix="set TMPDIR to a folder with a short path",
    )


SOCKET_FOLDER_BYTES_MAX: Final = 107 - len("/.s.PGSQL.65535.lock")
