"""The journal of one runner: what it is about to make, written down before it is made.

A journal is a file of JSON lines in the state folder. Its first line says whose it is
(process id and start time, boot, machine); then come `intent` (about to make), `bind`
(made; it is this one) and `release` (gone). An intent is on stable storage before its
thing is made; bind and release need not be: losing one makes recovery look for something
that it will not find, and after a loss of power neither processes nor mounts are left.

The file is born under a temporary name, locked (flock), filled with its header and then
renamed: a journal under its final name is whole and locked for as long as its runner
lives. A journal whose lock can be had belongs to a dead runner. (A child inherits the lock
between fork and exec, and no longer: recovery waits for that, see `adopt_dead`.)

A torn last line (the kill came inside a write) was not followed by its action, so it is
skipped. A journal without open entries is cut back to its header, or removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nfslab import clock
from nfslab.errors import NfslabError, RunFailed
from nfslab.machine.processes import Identity, identity_of, status_of
from nfslab.results.durable import fsync_path, make_folders

VERSION = 1
SUFFIX = ".jsonl"
UNBORN = ".unborn-"
COMPACT_BYTES = 64 << 10
"""A journal with nothing open is cut back to its header beyond this size."""
INHERITED_LOCK_LIMIT_S = 10.0
"""How long a dead runner's lock may be held by what it was starting."""
INHERITED_LOCK_POLL_S = 0.01
READ_LIMIT_BYTES = 64 << 20
"""A journal beyond this size is no journal of ours."""


@dataclass(slots=True)
class OpenEntry:
    """A thing that was made, or was about to be."""

    number: int
    kind: str
    what: dict[str, Any]


@dataclass(slots=True)
class Content:
    """A journal as read back."""

    header: dict[str, Any]
    open: list[OpenEntry] = field(default_factory=list)
    """In the order in which they were made."""


def boot_id() -> str:
    """Identifies this boot of this kernel; empty when the kernel does not say."""
    return _read("/proc/sys/kernel/random/boot_id")


def machine_id() -> str:
    """Identifies this machine (a home folder may be shared by several)."""
    return _read("/etc/machine-id") or socket.gethostname()


def process_namespace() -> str:
    """Process ids mean something only inside one namespace."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def state_folders() -> list[Path]:
    """Where journals may be, the preferred place first (NFSLAB_STATE: only there)."""
    if given := os.environ.get("NFSLAB_STATE"):
        return [Path(given).absolute()]
    base = os.environ.get("XDG_STATE_HOME", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    return [home / "nfslab", Path(f"/var/tmp/nfslab-{os.geteuid()}")]


def state_folder() -> Path:
    """The first state folder that can be written to, made when missing."""
    reasons = []
    for folder in state_folders():
        try:
            make_folders(folder, 0o700)
            reason = _unsafe(folder)
        except OSError as error:
            reason = error.strerror or str(error)
        if not reason:
            return folder
        reasons.append(f"{folder}: {reason}")
    raise NfslabError(
        "no folder for nfslab's state (journals of what has to be cleaned up)",
        why="; ".join(reasons),
        fix="set NFSLAB_STATE to a folder of yours that can be written to",
    )


def _unsafe(folder: Path) -> str:
    """Why a folder must not hold our journals; empty when it may."""
    facts = folder.stat() if os.environ.get("NFSLAB_STATE") else folder.lstat()
    if not stat.S_ISDIR(facts.st_mode):
        return "not a folder"
    if facts.st_uid != os.geteuid():
        return f"belongs to user {facts.st_uid}"
    if facts.st_mode & stat.S_IWOTH and not os.environ.get("NFSLAB_STATE"):
        return "others may write there"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "not writable"


class Journal:
    """One journal file, open and locked."""

    def __init__(self, path: Path, descriptor: int, header_size: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._header_size = header_size

    @classmethod
    def create(cls, folder: Path, token: str, purpose: str) -> Journal:
        """A new journal of this process in `folder`; RunFailed when it cannot be written."""
        path, unborn = folder / f"{token}{SUFFIX}", folder / f"{UNBORN}{token}"
        identity = identity_of(os.getpid())
        header = {
            "nfslab_journal": VERSION,
            "token": token,
            "purpose": purpose,
            "pid": os.getpid(),
            "start_ticks": identity.start_ticks if identity else 0,
            "boot_id": boot_id(),
            "machine": machine_id(),
            "process_namespace": process_namespace(),
        }
        line = _line(header)
        descriptor = -1
        try:
            make_folders(folder, 0o700)
            with nursery(folder):
                flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                descriptor = os.open(unborn, flags, 0o600)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                journal = cls(path, descriptor, len(line))
                journal._write(line)
                os.fsync(descriptor)
                unborn.rename(path)
            fsync_path(folder)
        except OSError as error:
            for name in (unborn, path):
                with contextlib.suppress(OSError):
                    name.unlink(missing_ok=True)
            if descriptor >= 0:
                os.close(descriptor)
            raise _unwritable(path, error) from error
        return journal

    @classmethod
    def adopt(cls, path: Path) -> Journal | None:
        """Lock the journal of a dead runner; None when it is in use or gone."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another recovery may have removed it while we waited for nothing.
            if os.fstat(descriptor).st_ino == os.stat(path).st_ino:
                return cls(path, descriptor, 0)
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    @classmethod
    def adopt_dead(cls, path: Path) -> Journal | None:
        """As `adopt`, but patient where the runner is dead and its lock still held.

        A child that was between fork and exec when its runner was killed holds the lock a
        moment longer (and cannot be recognised before); another recovery may be at work.
        RunFailed when it goes on being held.
        """
        deadline = clock.monotonic() + INHERITED_LOCK_LIMIT_S
        while True:
            journal = cls.adopt(path)
            if journal is not None or not is_dead(path):
                return journal
            if clock.monotonic() > deadline:
                raise RunFailed(
                    f"{path} is locked though its runner is dead",
                    why="a process that the runner forked still lives",
                    fix=f"end it (fuser {path} names it) and start nfslab again",
                )
            clock.sleep(INHERITED_LOCK_POLL_S)

    def read(self) -> Content | None:
        """Header and open entries; None when the header cannot be understood."""
        size = os.fstat(self._descriptor).st_size
        text = b""
        if size <= READ_LIMIT_BYTES:
            while piece := os.pread(self._descriptor, 1 << 20, len(text)):
                text += piece
        if text and not text.endswith(b"\n"):
            # So that what we append does not become part of the torn line.
            self._write(b"\n")
        return parse(text)

    def append(self, record: dict[str, Any], *, durable: bool) -> None:
        """Add one line; RunFailed when it cannot be written (then it is not there)."""
        try:
            self._write(_line(record))
            if durable:
                os.fsync(self._descriptor)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def compact(self) -> None:
        """Nothing is open: cut the file back to its header when it has grown long."""
        if self._header_size and os.fstat(self._descriptor).st_size > COMPACT_BYTES:
            os.ftruncate(self._descriptor, self._header_size)

    def remove(self) -> None:
        """Nothing is open any more: remove the file, then let the lock go."""
        try:
            self.path.unlink(missing_ok=True)
        finally:
            self.close()

    def close(self) -> None:
        """Let the file and its lock go."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, line: bytes) -> None:
        """Whole or not at all, as far as a full disk is concerned."""
        if self._descriptor < 0:
            raise OSError(errno.EBADF, "the journal is closed")
        before = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise


@contextlib.contextmanager
def nursery(folder: Path) -> Any:
    """Hold the folder's lock: between the birth of a journal and its own lock."""
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def remove_unborn(folder: Path) -> None:
    """Remove journals whose runner died before their birth: it had made nothing yet."""
    with nursery(folder):
        for path in folder.glob(f"{UNBORN}*"):
            path.unlink(missing_ok=True)


def parse(text: bytes) -> Content | None:
    """What a journal's bytes mean; None without a header of this version."""
    records = []
    for line in text.split(b"\n"):
        if not line:
            continue
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict):
            records.append(record)
    if not records or records[0].get("nfslab_journal") != VERSION:
        return None
    content = Content(records[0])
    entries: dict[int, OpenEntry] = {}
    for record in records[1:]:
        number, what = record.get("id"), record.get("what")
        match record.get("op"):
            case "intent" if isinstance(number, int) and isinstance(what, dict):
                entries[number] = OpenEntry(number, str(record.get("kind")), what)
            case "bind" if number in entries and isinstance(what, dict):
                entries[number].what |= what
            case "release" if number in entries:
                del entries[number]
    content.open = list(entries.values())
    return content


def is_alive(header: dict[str, Any]) -> bool:
    """Does the runner of this journal still live (same boot, same process)?

    The lock says so already; this is for file systems where flock is not to be relied on.
    """
    if header.get("boot_id") != boot_id():
        return False
    if header.get("process_namespace") != process_namespace():
        return False
    recorded = Identity(int(header.get("pid", 0)), int(header.get("start_ticks", 0)))
    status = status_of(recorded.pid)
    if status is None or not status.alive or status.exiting:
        return False
    return status.identity == recorded


def is_dead(path: Path) -> bool:
    """Is the runner of this journal known to be dead, whoever holds the lock?"""
    try:
        with path.open("rb") as file:
            content = parse(file.readline())
    except OSError:
        return False
    if content is None:
        return False
    header = content.header
    here = (machine_id(), boot_id(), process_namespace())
    there = (header.get("machine"), header.get("boot_id"), header.get("process_namespace"))
    return here == there and not is_alive(header)


def of_the_living(folder: Path) -> list[Content]:
    """What the journals of living runners in a folder hold; what cannot be read is left out."""
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            content = content_of(path)
            if content is not None and is_alive(content.header):
                found.append(content)
    return found


def content_of(path: Path) -> Content | None:
    """What a journal holds, whoever has its lock; None: it cannot be read."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        return parse(file.read(READ_LIMIT_BYTES))
    return None


def _line(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _unwritable(path: Path, error: OSError) -> RunFailed:
    return RunFailed(
        f"cannot write the journal {path}",
        why=error.strerror or str(error),
        fix="make room there, or set NFSLAB_STATE to another folder",
    )
