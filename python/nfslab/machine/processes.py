"""Processes as the kernel shows them: who is who, who belongs to us, and how they end.

A process id alone is no identity: it is reused. Here a process is its id together with
its start time (clock ticks since boot), and a signal goes through a pidfd that was
verified *after* it was opened, so that it never reaches a stranger.

A program that we start carries `NFSLAB_RUN=<token>` in its environment, and so do its
children: what `/proc/<pid>/environ` shows was set at exec, so a child that was forked an
instant before a kill is found as well. Programs that overwrite their environment
(PostgreSQL's backends do) are found as descendants of a process that did not.

Limits: other users' environments are unreadable without root; what such processes carry
is then not seen. A descendant that has dropped its environment and whose parents are gone
is found only inside a control group of ours (PostgreSQL's backends end by themselves when
their postmaster does). Processes in uninterruptible sleep cannot be ended by anyone: they are
reported, not waited for.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

TOKEN_VARIABLE = "NFSLAB_RUN"
CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
ENVIRON_LIMIT_BYTES = 4 << 20
"""Read at most this much of an environment (the kernel allows 2 MiB with 8 MiB stacks)."""
GRACE_S = 2.0
KILL_LIMIT_S = 15.0
"""How long a process may take to vanish after SIGKILL before it is reported as stuck."""
POLL_S = 0.05
ANCESTORS_MAX = 64


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for as long as it lives: its id and when it started."""

    pid: int
    start_ticks: int


PF_EXITING: Final = 0x4


@dataclass(frozen=True, slots=True)
class Status:
    """What `/proc/<pid>/stat` says (proc_pid_stat(5)); times in clock ticks."""

    identity: Identity
    name: str
    state: str
    parent: int
    group: int
    session: int
    user_ticks: int
    system_ticks: int
    waited_user_ticks: int
    waited_system_ticks: int
    flags: int = 0
    """PF_* of include/linux/sched.h."""

    @property
    def alive(self) -> bool:
        """Not a zombie and not dead."""
        return self.state not in "ZXx"

    @property
    def exiting(self) -> bool:
        """It runs no program any more; it may yet wait for long, for a server to take its data."""
        return bool(self.flags & PF_EXITING)


def parse_status(text: str) -> Status:
    """The content of `/proc/<pid>/stat`; names may hold spaces and parentheses."""
    opening, closing = text.index("("), text.rindex(")")
    fields = text[closing + 2 :].split()
    return Status(
        identity=Identity(int(text[:opening]), int(fields[19])),
        name=text[opening + 1 : closing],
        state=fields[0],
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        user_ticks=int(fields[11]),
        system_ticks=int(fields[12]),
        waited_user_ticks=int(fields[13]),
        waited_system_ticks=int(fields[14]),
        flags=int(fields[6]),
    )


def status_of(pid: int) -> Status | None:
    """Status of a process; None when there is none of that id."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return parse_status(file.read())
    except (OSError, ValueError, IndexError):
        return None


def identity_of(pid: int) -> Identity | None:
    """Identity of a living process; None when there is none, or only a zombie."""
    status = status_of(pid)
    return status.identity if status is not None and status.alive else None


def all_statuses() -> list[Status]:
    """Every process that is visible, zombies included."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and (status := status_of(int(name))) is not None:
            found.append(status)
    return found


def carries_token(pid: int, token: str) -> bool:
    """Was the process started with this token in its environment?"""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read(ENVIRON_LIMIT_BYTES).split(b"\0")
    except OSError:
        return False
    return f"{TOKEN_VARIABLE}={token}".encode() in entries


def ourselves(statuses: Iterable[Status]) -> set[int]:
    """This process and its ancestors: never to be ended by us."""
    parents = {status.identity.pid: status.parent for status in statuses}
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and len(found) < ANCESTORS_MAX:
        found.add(pid)
        pid = parents.get(pid, 0)
    return found


def find_ours(token: str, roots: Iterable[Identity] = ()) -> list[Status]:
    """Living processes that belong to a token: carriers, `roots`, and their descendants."""
    statuses = all_statuses()
    spared = ourselves(statuses)
    known_roots = set(roots)
    by_pid = {status.identity.pid: status for status in statuses}
    first = [
        pid
        for pid, status in by_pid.items()
        if status.identity in known_roots or (token and carries_token(pid, token))
    ]
    found = descendants_of(first, statuses, len(by_pid), spared)
    return [by_pid[pid] for pid in found if by_pid[pid].alive]


def descendants_of(
    pids: Iterable[int],
    statuses: Iterable[Status],
    most: int,
    spared: Collection[int] = (),
) -> list[int]:
    """These processes and all below them that are there, at most so many; none of `spared`, nor
    what is below them only."""
    children: dict[int, list[int]] = {}
    for status in statuses:
        children.setdefault(status.parent, []).append(status.identity.pid)
    waiting = list(pids)
    found: dict[int, None] = {}
    while waiting and len(found) < most:
        pid = waiting.pop()
        if pid not in found and pid not in spared:
            found[pid] = None
            waiting += children.get(pid, ())
    return list(found)


def send_signal(identity: Identity, number: int) -> bool:
    """Signal exactly this process; False when it is gone. PermissionError as it comes."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
        # Kernels before 5.3: the window between check and signal stays open.
        if identity_of(identity.pid) != identity:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, number)
        return True
    try:
        if identity_of(identity.pid) != identity:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


def wait_for_change(processes: Iterable[Status], timeout_s: float) -> None:
    """Return when one of the processes ends, or after the timeout."""
    poller, descriptors = select.poll(), []
    try:
        for status in processes:
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(status.identity.pid)
                descriptors.append(descriptor)
                poller.register(descriptor, select.POLLIN)
        poller.poll(max(1, int(timeout_s * 1000)))
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def end_all(
    find: Callable[[], list[Status]], *, first: int = signal.SIGTERM, grace_s: float = GRACE_S
) -> tuple[list[Status], list[Status]]:
    """End whatever `find` finds, again and again until it finds nothing.

    Each gets `first`, and SIGKILL once `grace_s` is over. Returns (ended, still there):
    the second list holds what could not be ended (permission, uninterruptible sleep).
    """
    begin: float | None = None
    seen: dict[Identity, Status] = {}
    warned: set[Identity] = set()
    while living := find():
        now = clock.monotonic()
        if begin is None:
            begin = now  # Behind the first look: that may take longer than the grace.
        if now > begin + grace_s + KILL_LIMIT_S:
            stuck = {status.identity for status in living}
            return [s for i, s in seen.items() if i not in stuck], living
        for status in living:
            seen.setdefault(status.identity, status)
            if now >= begin + grace_s:
                number = int(signal.SIGKILL)
            elif status.identity not in warned:
                warned.add(status.identity)
                number = first
            else:
                continue
            with contextlib.suppress(PermissionError):
                send_signal(status.identity, number)
        wait_for_change(living, POLL_S)
    return list(seen.values()), []
