"""Whom `nfslab syscalls` watches: a process, a PostgreSQL by its data directory, a command."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nfslab.errors import UsageError
from nfslab.evidence.syscalls.ways import Subject
from nfslab.machine.processes import identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nfslab.machine.processes import Identity

PIDFILE: Final = "postmaster.pid"
PID_LINE, PORT_LINE, SOCKET_LINE, HOST_LINE = 0, 3, 4, 5
"""Lines of postmaster.pid ("Database File Layout": lock file)."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is watched."""

    subject: Subject
    alive: Callable[[], bool]
    """Is any of it still there?"""
    conninfo: str = ""


def target_of(argv: Sequence[str], pids: Sequence[int], postgres: Path | None) -> Target:
    """Of the command line; UsageError when there is no such process, server or program."""
    if argv:
        _check_program(argv[0])
        return Target(Subject(argv=argv), lambda: True)
    conninfo = ""
    if postgres is not None:
        pid, conninfo = _server(postgres)
        pids = [pid]
    known = [_process(pid) for pid in pids]
    return Target(
        Subject(pids=list(pids), has_views=True),
        lambda: any(identity_of(one.pid) == one for one in known),
        conninfo,
    )


def _check_program(name: str) -> None:
    """UsageError when it cannot be started."""
    if not name:
        raise UsageError("the command is an empty text", fix="give a program after --")
    if shutil.which(name) is not None:
        return
    if not os.path.exists(name) or os.sep not in name:
        raise UsageError(
            f"the program {name!r} was not found", fix="correct its name, or give its path"
        )
    if os.path.isdir(name):
        raise UsageError(f"{name} is a folder", fix="give a program after --")
    raise UsageError(
        f"{name} cannot be executed",
        why="it has no permission to be",
        fix=shlex.join(["chmod", "+x", name]),
    )


def _process(pid: int) -> Identity:
    """UsageError when it is none: not there, or a thread."""
    identity = identity_of(pid)
    if identity is None:
        raise UsageError(f"there is no process {pid}", fix="see ps -e, or pgrep NAME")
    owner = _process_of_thread(pid)
    if owner not in (None, pid):
        raise UsageError(
            f"{pid} is a thread of process {owner}",
            why="all threads of a process are watched together",
            fix=f"--pid {owner}",
        )
    return identity


def _process_of_thread(number: int) -> int | None:
    """None where it cannot be read."""
    try:
        text = Path(f"/proc/{number}/status").read_text("utf-8", errors="replace")
    except OSError:
        return None
    groups = [line.split()[1] for line in text.splitlines() if line.startswith("Tgid:")]
    return int(groups[0]) if groups else None


def _server(folder: Path) -> tuple[int, str]:
    """Pid of the postmaster, and how to reach it (empty: only by /proc)."""
    path = folder / PIDFILE
    try:
        lines = path.read_text("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        is_cluster = (folder / "PG_VERSION").exists()
        raise UsageError(
            f"no PostgreSQL runs in {folder}" if is_cluster else f"{folder} is no data directory",
            why=f"there is no {PIDFILE} in it",
            fix="start the server" if is_cluster else "give the folder that has PG_VERSION in it",
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot read {path}",
            why=error.strerror or str(error),
            fix="run as root, or as its user",
        ) from error
    try:
        pid = int(lines[PID_LINE])
    except (IndexError, ValueError):
        raise UsageError(f"{path} has no process id in it", fix="is the server starting?") from None
    # A server that was killed leaves its file, and its number may be another's by now.
    if identity_of(pid) is None or not _is_in(pid, folder):
        raise UsageError(
            f"no PostgreSQL runs in {folder}",
            why=f"process {pid} of {PIDFILE} is not there or is another program",
            fix="start the server",
        )
    return pid, _conninfo(lines)


def _is_in(pid: int, folder: Path) -> bool:
    """A postmaster's working directory is its data directory; unreadable counts as yes."""
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder)
    except OSError:
        return True


def _conninfo(lines: Sequence[str]) -> str:
    def line(number: int) -> str:
        return lines[number].strip() if number < len(lines) else ""

    port, socket, host = line(PORT_LINE), line(SOCKET_LINE), line(HOST_LINE)
    where = socket or ("127.0.0.1" if host == "*" else host)
    if not port.isdecimal() or not where:
        return ""
    quoted = where.replace("\\", "\\\\").replace("'", "\\'")
    user = "" if "PGUSER" in os.environ else " user=postgres"
    return f"host='{quoted}' port={port} dbname=postgres{user}"
