"""What a run makes outside its folder, and how all of it goes away again.

Processes, mounts, loop devices, control groups and folders must not outlive the run that
made them. Each is written into the run's journal *before* it is made (see `journal`) and
is undone in the opposite order (see `undo`), by `Resources.close` when the run ends, or
by `recover` at the next start when the runner was killed. A kill at any instant, also
inside of this module, therefore leaves nothing behind that the next start does not find.

    with Resources("b000-1a2b3c4d-a1") as resources:
        entry = resources.make_directory(parent / resources.name)
        loop = resources.loop(file)         # the intent is on stable storage now
        ...                                 # make it
        loop.bind(device="/dev/loop3")      # optional: what it became
        loop.undo()                         # or: release(), when it is gone already

Decisions: things are found again by what they are (a token in a name, an environment, a
UUID), not by the number they had. Recovery touches nothing of a runner that lives, and
nothing of another machine that shares the state folder.
Limits: without root, processes that changed their user cannot be seen or ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import signal
import subprocess
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab.errors import NfslabError, RunFailed, one_line
from nfslab.machine import journal as journals
from nfslab.machine import nfs_mounts
from nfslab.machine.journal import Journal, OpenEntry
from nfslab.machine.mounts import mount_of, mounts
from nfslab.machine.processes import identity_of
from nfslab.machine.trees import names_token
from nfslab.machine.undo import UNDO, Scope, end_strays, process_root
from nfslab.machine.users import as_user, primary_group

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TOKEN_BYTES = 8
ENTRIES_MAX = 100_000
"""Things that one run may have open at once: a bound, not a hope."""
COMMAND_SHOWN_CHARACTERS = 200


class Entry:
    """One thing in the journal: bound when it is made, released when it is gone.

    As a context manager: what was made is undone when the block is left.
    """

    def __init__(self, resources: Resources, entry: OpenEntry) -> None:
        self._resources = resources
        self._entry = entry

    @property
    def what(self) -> dict[str, Any]:
        """What the journal knows of it."""
        return self._entry.what

    @property
    def path(self) -> Path:
        """Path of a folder, mount point, control group or backing file."""
        for key in ("path", "backing_file", "mount_point"):
            if key in self.what:
                return Path(self.what[key])
        raise KeyError("path")

    def bind(self, **what: Any) -> None:
        """It is made, and this is how it is known (a process: `pid=`)."""
        self._resources._bind(self._entry, what)

    def reaped_by(self, reap: Callable[[], object]) -> None:
        """A process of ours: what to call when it was ended, so that no zombie stays."""
        self._resources._reapers[self._entry.number] = reap

    def release(self) -> None:
        """It is gone: nothing is left to undo. Harmless when said twice."""
        self._resources._release(self._entry)

    def undo(self) -> str:
        """Undo it now and release it; what was done, in words. RunFailed, OSError."""
        reap = self._resources._reapers.get(self._entry.number)
        done = self._resources._undo(self._entry)
        if reap is not None:
            reap()
        return done

    def __enter__(self) -> Entry:
        return self

    def __exit__(self, *_error: object) -> None:
        self.undo()


class Resources:
    """Everything that must not outlive one run (or one experiment), in its own journal.

    `purpose` is shown to people (the run's id). May be used from several threads.
    """

    def __init__(self, purpose: str = "", *, state: Path | None = None) -> None:
        self.token = secrets.token_hex(TOKEN_BYTES)
        folder = (state or journals.state_folder()) / "journals"
        self._journal = Journal.create(folder, self.token, purpose)
        self._scope = Scope(self.token)
        self._open: dict[int, OpenEntry] = {}
        self._reapers: dict[int, Callable[[], object]] = {}
        self._next = 1
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._closed = False

    @property
    def name(self) -> str:
        """A name that proves to be ours: for folders, groups, arrays."""
        return f"nfslab-{self.token}"

    def process(
        self, pid: int | None, argv: Sequence[str], *, stop_signal: int = signal.SIGTERM
    ) -> Entry:
        """A program about to be started (`pid` None, then `bind(pid=...)`), or running."""
        command = " ".join(argv)[:COMMAND_SHOWN_CHARACTERS]
        entry = self._intend("process", {"command": command, "stop_signal": int(stop_signal)})
        if pid is not None:
            entry.bind(pid=pid)
        return entry

    def mount(self, mount_point: Path) -> Entry:
        """A mount about to be made; its mount point lies in a folder of ours."""
        return self._intend("mount", {"mount_point": self._own(mount_point)})

    def loop(self, backing_file: Path) -> Entry:
        """A loop device about to be attached to a file in a folder of ours."""
        return self._intend("loop", {"backing_file": self._own(backing_file)})

    def directory(self, path: Path, *, owner: int | None = None) -> Entry:
        """A folder about to be made (not there yet); its path holds the token.

        `owner` is who can remove it where root cannot.
        """
        where = self._own(path)
        if os.path.lexists(where):
            raise RunFailed(f"{where} exists already", fix="remove it, or use another name")
        # Where it is found again: the disk may not be mounted when it is looked for.
        what: dict[str, Any] = {"path": where, "mount_point": str(mount_of(where).mount_point)}
        return self._intend("directory", what if owner is None else what | {"owner": owner})

    def make_directory(self, path: Path, *, owner: int | None = None, mode: int = 0o700) -> Entry:
        """Journal a folder, make it, and give it to `owner`; OSError leaves nothing."""
        entry = self.directory(path, owner=owner)
        try:
            try:
                os.mkdir(entry.path, mode)
                os.chmod(entry.path, mode)
                if owner is not None and owner != os.geteuid():
                    os.chown(entry.path, owner, primary_group(owner))
            except PermissionError:
                # An NFS server that squashes root: the owner may do what root may not.
                if owner is None or os.geteuid() != 0:
                    raise
                _make_as(entry.path, owner, mode)
        except BaseException:
            entry.undo()
            raise
        return entry

    def cgroup(self, path: Path) -> Entry:
        """A control group about to be made; its name holds the token."""
        return self._intend("cgroup", {"path": self._own(path)})

    def device_mapper(self, name: str) -> Entry:
        """A device-mapper device about to be made; its name holds the token."""
        if not names_token(Path(name), self.token):
            raise ValueError(f"{name!r} does not hold the token {self.token}")
        return self._intend("device_mapper", {"name": name})

    def md(self, uuid: str) -> Entry:
        """An md array about to be made with this UUID."""
        return self._intend("md", {"uuid": uuid})

    def signature(self, device: str, uuids: Sequence[str]) -> Entry:
        """A signature with one of these UUIDs, about to be written to a given device."""
        return self._intend("signature", {"device": device, "uuids": list(uuids)})

    def network(self, name: str, device: str) -> Entry:
        """A network namespace about to be made, and this side's device of its veth pair."""
        if not names_token(Path(name), self.token):
            raise ValueError(f"{name!r} does not hold the token {self.token}")
        return self._intend("network", {"name": name, "device": device})

    def setting(self, file: Path, before: str, after: str | None = None) -> Entry:
        """A kernel's setting about to be changed; `after` (or bound later): how it reads then."""
        what = {"file": str(file), "before": before, "boot": journals.boot_id()}
        return self._intend("setting", what if after is None else what | {"after": after})

    def nfsd_threads(self, before: int, after: int) -> Entry:
        """How few threads of the kernel's NFS server stay, about to be changed."""
        what = {"before": before, "after": after, "boot": journals.boot_id()}
        return self._intend("nfsd_threads", what)

    def nfsd(self, control: Path, port: int) -> Entry:
        """The kernel's NFS server about to listen on `port`; `control`: its file system, ours."""
        return self._intend("nfsd", {"control": self._own(control), "port": port})

    def close(self) -> list[str]:
        """Undo what is still open, newest first; what had to be undone, in words.

        Never raises for what cannot be undone: that is told, and stays in the journal.
        After an interrupt it may be called again.
        """
        with self._lock:
            if self._closed or os.getpid() != self._owner:
                return []
            self._closed = True
            entries = list(self._open.values())
            try:
                told, left = undo_all(entries, self._scope, self._journal)
            except BaseException:
                # Interrupted: what is not undone is still in the journal, and here.
                self._closed = False
                raise
            self._open = {entry.number: entry for entry in left}
            try:
                if left:
                    self._journal.close()
                else:
                    self._journal.remove()
            except OSError as error:
                told.append(f"could not remove the journal {self._journal.path}: {error}")
        # Not under our lock: whoever waits for a process holds that process's lock.
        for entry in entries:
            if (reap := self._reapers.pop(entry.number, None)) is not None:
                reap()
        return told

    def __enter__(self) -> Resources:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _own(self, path: Path) -> str:
        """The path without symbolic links on the way; ValueError when it is not ours."""
        resolved = Path(os.path.realpath(path.parent)) / path.name
        if not names_token(resolved, self.token):
            raise ValueError(f"{path}: no part of this path holds the token {self.token}")
        text = str(resolved)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise RunFailed(
                f"the path {text!r} is not valid UTF-8", fix="use a folder whose name is UTF-8"
            ) from None
        return text

    def _intend(self, kind: str, what: dict[str, Any]) -> Entry:
        with self._lock:
            if self._closed:
                raise RunFailed("this run is closed: nothing can be started for it any more")
            if len(self._open) >= ENTRIES_MAX:
                raise RunFailed(
                    f"more than {ENTRIES_MAX} things open in one run",
                    fix="use fewer targets and generators in one run",
                )
            entry = OpenEntry(self._next, kind, what)
            self._journal.append(
                {"op": "intent", "id": entry.number, "kind": kind, "what": what}, durable=True
            )
            self._next += 1
            self._open[entry.number] = entry
            return Entry(self, entry)

    def _bind(self, entry: OpenEntry, what: dict[str, Any]) -> None:
        with self._lock:
            if entry.number not in self._open:
                return
            if "pid" in what and "start_ticks" not in what:
                identity = identity_of(what["pid"])
                what |= {"start_ticks": identity.start_ticks if identity else 0}
            entry.what |= what
            self._journal.append({"op": "bind", "id": entry.number, "what": what}, durable=False)

    def _release(self, entry: OpenEntry) -> None:
        with self._lock:
            if self._open.pop(entry.number, None) is None:
                return
            self._reapers.pop(entry.number, None)
            try:
                self._journal.append({"op": "release", "id": entry.number}, durable=False)
                if not self._open:
                    self._journal.compact()
            except (NfslabError, OSError):
                # A release that is lost makes recovery look for what is not there.
                return

    def _undo(self, entry: OpenEntry) -> str:
        with self._lock:
            if entry.number not in self._open:
                return ""
            done = UNDO[entry.kind](entry.what, self._scope)
            self._release(entry)
            return done


def _make_as(path: Path, owner: int, mode: int) -> None:
    """mkdir(1) as that user; PermissionError when that user may not either."""
    with contextlib.suppress(OSError):
        os.rmdir(path)
    argv = [*as_user(owner), "mkdir", "-m", f"{mode:o}", "--", str(path)]
    completed = subprocess.run(argv, cwd="/", capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise PermissionError(errno.EACCES, completed.stderr.strip(), str(path))


def undo_all(
    entries: list[OpenEntry], scope: Scope, journal: Journal
) -> tuple[list[str], list[OpenEntry]]:
    """Undo entries, newest first: (what was done or failed, in words; what is left).

    Processes that carry the token but are in no entry (a child of a child) go first, so
    that they hold no mount busy; those in an entry go in their turn, because a mount may
    need its server until it is unmounted.
    """
    told: list[str] = []
    left: list[OpenEntry] = []
    roots = [process_root(e.what) for e in entries if e.kind == "process"]
    kept = [root for root in roots if root is not None] if scope.pids_valid else []
    failed = _attempt(told, "stray processes", lambda: end_strays(scope, kept))
    for entry in reversed(entries):
        function = UNDO.get(entry.kind)
        if function is None:
            told.append(f"could not undo a {entry.kind!r}: made by another version of nfslab")
            left.append(entry)
        elif _attempt(told, entry.kind, partial(function, entry.what, scope)):
            left.append(entry)
        else:
            try:
                journal.append({"op": "release", "id": entry.number}, durable=False)
            except NfslabError:
                continue
    failed = _attempt(told, "processes", lambda: end_strays(scope, [])) or failed
    if failed and not left:
        # Keep the journal: its token is what the next start finds them by.
        left.append(OpenEntry(0, "process", {}))
    return told, list(reversed(left))


def _attempt(told: list[str], kind: str, action: Callable[[], str]) -> bool:
    """Try one undo; its sentence (done or failed) goes to `told`. True when it failed."""
    try:
        if sentence := action():
            told.append(sentence)
    except Exception as error:
        told.append(f"could not undo ({kind}): {one_line(error)}")
        return True
    return False


def recover(progress: Callable[[str], None] | None = None) -> list[str]:
    """Clean up what dead runners of this user on this machine left; what was done.

    To be called at every start, before anything is made. Never raises for what it finds.
    """
    told: list[str] = []

    def tell(sentence: str) -> None:
        told.append(sentence)
        if progress is not None:
            progress(sentence)

    for folder in (state / "journals" for state in journals.state_folders()):
        if not folder.is_dir() or folder.stat().st_uid != os.geteuid():
            continue
        try:
            journals.remove_unborn(folder)
            paths = sorted(folder.glob(f"*{journals.SUFFIX}"))
        except OSError as error:
            tell(f"could not look into {folder}: {error}")
            continue
        for path in paths:
            try:
                for sentence in _recover_one(path):
                    tell(sentence)
            except Exception as error:
                tell(f"could not clean up after {path.name}: {one_line(error)}")
    return told


def _freed(path: Path) -> bool:
    """A runner that was killed cannot end, nor its lock, while a thread of it waits for an NFS
    server that died with it: its mounts of the kernel's client are taken away. Were there any?"""
    content = journals.content_of(path)
    if content is None or not journals.is_dead(path):
        return False
    token = str(content.header.get("token", ""))
    places = {
        Path(str(entry.what.get("mount_point"))) for entry in content.open if entry.kind == "mount"
    }
    stuck = [
        mount
        for mount in mounts()
        if mount.mount_point in places
        and mount.filesystem in nfs_mounts.KERNEL_NFS
        and names_token(mount.mount_point, token)
    ]
    for mount in stuck:
        nfs_mounts.unmount(mount)
    return bool(stuck)


def _recover_one(path: Path) -> list[str]:
    """Clean up after one journal's runner, unless it lives."""
    try:
        journal = Journal.adopt_dead(path)
    except RunFailed:
        if not _freed(path):
            raise
        journal = Journal.adopt_dead(path)
    if journal is None:
        return []
    try:
        content = journal.read()
        if content is None:
            return [f"{path} is left alone: its first line is not that of a journal we know"]
        header = content.header
        token = str(header.get("token", ""))
        if journals.is_alive(header):
            return []
        if header.get("machine") != journals.machine_id():
            return [f"{path} is left alone: it belongs to another machine"]
        if len(token) != 2 * TOKEN_BYTES or path.name != f"{token}{journals.SUFFIX}":
            return [f"{path} is left alone: its name and its content do not agree"]
        same_boot = header.get("boot_id") == journals.boot_id()
        same_ids = header.get("process_namespace") == journals.process_namespace()
        told, left = undo_all(content.open, Scope(token, same_boot and same_ids), journal)
        if not left:
            journal.remove()
        run = f" (left by {header['purpose']})" if header.get("purpose") else ""
        return [f"{sentence}{run}" for sentence in told]
    finally:
        journal.close()
