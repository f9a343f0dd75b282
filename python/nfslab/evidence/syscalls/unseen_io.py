"""Who reads and writes past the system calls that are watched: by io_uring, or Linux's aio.

    /proc/PID/maps  pages that a ring (anon_inode:[io_uring]) or a context (/[aio]) shares with
                    the kernel
    /proc/PID/fd    a ring whose pages the program brought itself (IORING_SETUP_NO_MMAP)

What goes through a ring is no read, write or fsync call, and whoever holds one may use it: then the
table lacks that, and a reader of it must be told. Processes are looked at when watching begins, in
turns that lie twice as far apart each time, and when it ends.

Limits: a ring that came and went between two looks is not found, nor are those of processes whose
/proc may not be read (another user's, without root).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab import clock
from nfslab.machine.processes import all_statuses, descendants_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.machine.processes import Status

IO_URING, AIO = "io_uring", "aio (io_submit)"
RING: Final = "anon_inode:[io_uring]"
MAPPED: Final = {
    IO_URING: re.compile(rb" anon_inode:\[io_uring\](?: \(deleted\))?$", re.MULTILINE),
    AIO: re.compile(rb" /\[aio\](?: \(deleted\))?$", re.MULTILINE),
}
"""Of a line of maps; the kernel names the mappings (fs/aio.c, io_uring/io_uring.c)."""
FIRST_TURN_S, LAST_TURN_S = 0.2, 60.0
PROCESSES_MOST: Final = 4096
NAMED_MOST: Final = 3
"""Processes that a note names; the rest are counted."""
BYTES_MOST: Final = 64 << 20
"""Of one file of /proc."""


def unseen_ways(pid: int) -> set[str]:
    """Which of them a process holds now; none when it has gone or may not be looked at."""
    mapped = _read(f"/proc/{pid}/maps")
    found = {name for name, pattern in MAPPED.items() if pattern.search(mapped)}
    if IO_URING not in found and _holds_ring(pid):
        found.add(IO_URING)
    return found


def _holds_ring(pid: int) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{folder}/{name}") == RING:
                return True
        except OSError:
            continue  # closed meanwhile
    return False


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(BYTES_MOST)
    except OSError:
        return b""


@dataclass(frozen=True, slots=True)
class Whose:
    """The processes that are looked at, with all below them."""

    pids: Sequence[int] = ()
    mark: str = ""
    """Or: what a launch of ours has in its command line or its environment."""

    def found(self, statuses: Sequence[Status]) -> list[int]:
        """Those that there are."""
        roots = list(self.pids)
        if self.mark:
            below = descendants_of([os.getpid()], statuses, PROCESSES_MOST)
            roots += [pid for pid in below if pid != os.getpid() and _carries(pid, self.mark)]
        return descendants_of(roots, statuses, PROCESSES_MOST)


def _carries(pid: int, mark: str) -> bool:
    sought = mark.encode()
    return any(sought in _read(f"/proc/{pid}/{name}") for name in ("cmdline", "environ"))


class UnseenIo:
    """What was found during one watch."""

    def __init__(self) -> None:
        self._whose = Whose()
        self._found: dict[str, dict[int, str]] = {}
        self._next_s, self._apart_s = 0.0, FIRST_TURN_S

    def begin(self, whose: Whose) -> None:
        """Look at these, now for the first time."""
        self._whose = whose
        self.look()
        self._next_s = clock.monotonic() + FIRST_TURN_S

    def turn(self) -> None:
        """Look again if it is time; call it as often as you like."""
        now = clock.monotonic()
        if now < self._next_s:
            return
        self.look()
        self._apart_s = min(2 * self._apart_s, LAST_TURN_S)
        self._next_s = now + self._apart_s

    def look(self) -> None:
        """At all of them that there are now."""
        if not self._whose.pids and not self._whose.mark:
            return
        statuses = all_statuses()
        names = {status.identity.pid: status.name for status in statuses}
        for pid in self._whose.found(statuses):
            for way in unseen_ways(pid):
                self._found.setdefault(way, {}).setdefault(pid, names.get(pid, "a process"))

    @property
    def notes(self) -> list[str]:
        """One for each way that somebody holds."""
        return [
            f"not all is here: {_named(holders)} {'hold' if len(holders) > 1 else 'holds'} {way}, "
            "and what is read, written or synced through it is not seen"
            for way, holders in sorted(self._found.items())
        ]


def _named(holders: dict[int, str]) -> str:
    first = [f"{name} ({pid})" for pid, name in list(holders.items())[:NAMED_MOST]]
    if left := len(holders) - len(first):
        first.append(f"{left:,} more process{'es' if left > 1 else ''}")
    return " and ".join(filter(None, [", ".join(first[:-1]), first[-1]]))
