"""One experiment at a time on a machine: whose turn it is.

    /run/lock/nfslab-experiment-UID        the turn of that user: who has it locked measures
    /run/lock/nfslab-experiment-UID-NAME   who goes on beside another one (`--anyway`)

A file is its user's alone (0600), so nobody else can lock it; who has one locked says the kernel
(/proc/locks), and is believed if the process and the file are the same user's. A lock is gone with
its process, whatever ends it. Files stay, until the machine's next start. Their time is that of
their last lock: so a run that came and went between two looks is noticed, too.

Runs of the same user and root's are waited for. Another user's is seen and said; how long it is
waited for is the caller's business. Experiments in another container are not seen, nor those on
another machine.

`NFSLAB_TURN` is another name for the turn; empty: nobody is asked.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAME: Final = "nfslab-experiment"
FOLDERS: Final = (Path("/run/lock"), Path("/dev/shm"), Path("/tmp"))
"""The first that is root's, and where all may make files and remove their own alone."""
LOCKS: Final = Path("/proc/locks")
ENTRIES_MOST: Final = 10_000
"""Entries of the folder that are looked at."""
COMMAND_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True)
class Holder:
    """Who measures."""

    pid: int
    uid: int
    command: str
    """Empty where the system hides it."""

    @property
    def is_ours(self) -> bool:
        """Of the same user, or root's: nobody who would hold us up on purpose."""
        return self.uid in (0, os.geteuid())

    def __str__(self) -> str:
        user = str(self.uid)
        with contextlib.suppress(KeyError):
            user = pwd.getpwuid(self.uid).pw_name
        return f"process {self.pid} of {user}" + (f": {self.command}" if self.command else "")


@dataclass(frozen=True, slots=True)
class _File:
    """A file of somebody's runs."""

    path: str
    uid: int
    inode: int
    locked_ns: int
    pid: int
    """Of who has it locked now; 0: nobody."""


class Turn:
    """This process and the turn. A context manager: what was taken is given back."""

    def __init__(self) -> None:
        self._name = os.environ.get("NFSLAB_TURN", NAME).replace("/", "-")
        self._folder = next(filter(_usable, FOLDERS), None) if self._name else None
        self._turn: int | None = None
        self._beside: int | None = None
        self._seen: dict[int, int] = {}
        """Inode -> when it was locked, as of the last look."""

    def __enter__(self) -> Turn:
        return self

    def __exit__(self, *_error: object) -> None:
        for one in (self._turn, self._beside):
            if one is not None:
                os.close(one)
        self._turn = self._beside = None

    def take(self) -> bool:
        """It is ours, from now on or already (or nobody is asked)."""
        if self._turn is not None or self._folder is None:
            return True
        if self._others():
            return False
        mine = _opened(self._own())
        # Where somebody else took the name first, two runs of this user that begin at the same
        # instant do not exclude each other: both are marked.
        mine = self._spare() if mine is None else _locked(mine)
        if mine is None:
            return False
        self._turn = mine
        # Of two that came at the same moment, who locked first.
        since_ns = os.fstat(mine).st_mtime_ns
        if any(one.locked_ns <= since_ns for one in self._others()):
            os.close(mine)
            self._turn = None
        else:
            self._look()
        return self._turn is not None

    def holder(self) -> Holder | None:
        """Who measures, one of ours first; None if nobody does any more, or it is not known."""
        held = [Holder(one.pid, one.uid, _command(one.pid)) for one in self._others()]
        return min(held, key=lambda one: not one.is_ours, default=None)

    def go_beside(self) -> None:
        """Say that this process measures, too."""
        if self._folder is None or self._beside is not None:
            return
        self._look()
        self._beside = self._spare()

    def _spare(self) -> int | None:
        """A file of ours beside the turn's, locked: one of an earlier run, or a new one."""
        for one in self._files():
            if one.uid == os.geteuid() and one.path != self._own() and not one.pid:
                spare = _opened(one.path)
                if spare is not None and (locked := _locked(spare)) is not None:
                    return locked
        with contextlib.suppress(OSError):
            return _locked(tempfile.mkstemp(prefix=f"{self._own()}-")[0])
        return None

    def beside(self) -> bool:
        """Does another experiment run beside this one, or did one begin since the last call?"""
        if self._folder is None:
            return False
        if self._turn is None:
            self.take()
        before = self._seen
        self._look()
        begun = any(before.get(inode) != at_ns for inode, at_ns in self._seen.items())
        return begun or bool(self._others())

    def _own(self) -> str:
        return f"{self._folder}/{self._name}-{os.geteuid()}"

    def _mine(self) -> set[int]:
        return {os.fstat(one).st_ino for one in (self._turn, self._beside) if one is not None}

    def _look(self) -> None:
        mine = self._mine()
        self._seen = {one.inode: one.locked_ns for one in self._files() if one.inode not in mine}

    def _others(self) -> list[_File]:
        """Those that are locked, but by us."""
        mine = self._mine()
        return [one for one in self._files() if one.pid and one.inode not in mine]

    def _files(self) -> list[_File]:
        locks = _locks()
        found = {}
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            for entry in itertools.islice(entries, ENTRIES_MOST):
                if not entry.name.startswith(f"{self._name}-"):
                    continue
                with contextlib.suppress(OSError):
                    of = entry.stat(follow_symlinks=False)
                    if not stat.S_ISREG(of.st_mode):
                        continue
                    pids = locks.get((of.st_dev, of.st_ino), [])
                    pid = next((pid for pid in pids if _is_of(pid, of.st_uid)), 0)
                    found[of.st_ino] = _File(entry.path, of.st_uid, of.st_ino, of.st_mtime_ns, pid)
        return sorted(found.values(), key=lambda one: one.path)


def _opened(path: str) -> int | None:
    """Our file, made when missing; None: another's."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with contextlib.suppress(OSError):
        descriptor = os.open(path, flags, 0o600)
        if os.fstat(descriptor).st_uid == os.geteuid():
            return descriptor
        os.close(descriptor)
    return None


def _locked(descriptor: int) -> int | None:
    """The same, locked from now on; None (and closed): another process has it locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.utime(descriptor)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _usable(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        of = folder.stat()
        shared = stat.S_ISVTX | stat.S_IWOTH | stat.S_IXOTH
        return of.st_uid == 0 and of.st_mode & shared == shared
    return False


def _locks() -> dict[tuple[int, int], list[int]]:
    """(device, inode) -> who has it locked by flock(2)."""
    found: dict[tuple[int, int], list[int]] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in LOCKS.read_text(encoding="ascii").splitlines():
            # proc_locks(5): 1: FLOCK ADVISORY WRITE 12098 fe:00:5350426 0 EOF; "->" waits.
            words = line.split()
            if words[1] == "FLOCK":
                major, minor, inode = words[5].split(":")
                device = os.makedev(int(major, 16), int(minor, 16))
                found.setdefault((device, int(inode)), []).append(int(words[4]))
    return found


def _is_of(pid: int, uid: int) -> bool:
    """Root's own processes may be anybody's for a moment (setuid); nobody else's are root's."""
    with contextlib.suppress(OSError):
        return os.stat(f"/proc/{pid}").st_uid in (0, uid)
    return False


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return " ".join(words).strip()[:COMMAND_CHARACTERS]
    return ""
