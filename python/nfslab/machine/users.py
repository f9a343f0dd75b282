"""Who runs what: an unprivileged user for servers that refuse root, and what it can reach.

A database server must not run as root, and the user it runs as has to reach the folders
that we make for it. Whether it can is tried, not computed: access lists, NFS servers that
squash root and security modules all have a say that permission bits do not show.
"""

from __future__ import annotations

import functools
import os
import pwd
import shlex
import shutil
import subprocess
from pathlib import Path

from nfslab.machine.availability import Availability

SERVER_USERS = ("postgres", "nobody")
OVERFLOW_ID = 65534
"""Linux's id of "nobody" (/proc/sys/kernel/overflowuid), also without an entry for it."""
PROBE_LIMIT_S = 30.0
TRAVERSE = 'for folder; do [ -x "$folder" ] || { printf %s "$folder"; exit 3; }; done'


def unprivileged_user() -> int | None:
    """User id for servers that refuse to run as root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in SERVER_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return entry.pw_uid
    return OVERFLOW_ID


def primary_group(uid: int) -> int:
    """The user's own group; the id itself when the user has no entry."""
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def user_name(uid: int) -> str:
    """Name of a user, or its number in words."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


@functools.lru_cache(maxsize=16)
def home_of(uid: int) -> str:
    """A home that exists and can be entered: the user's own, or the root folder."""
    try:
        home = pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"
    return home if os.path.isdir(home) and reachable_by(home, uid).ok else "/"


def as_user(uid: int) -> list[str]:
    """The beginning of a command that gives root's powers up for a user's (setpriv)."""
    return [
        shutil.which("setpriv") or "setpriv",
        f"--reuid={uid}",
        f"--regid={primary_group(uid)}",
        "--clear-groups",
    ]


def becomes(uid: int | None) -> Availability:
    """Can programs be run as that user (None: the caller)?"""
    if uid is None or uid == os.geteuid() or shutil.which("setpriv"):
        return Availability(True)
    reason = f"root's powers cannot be given up for {user_name(uid)}'s: setpriv is missing"
    return Availability(False, reason, "apt install util-linux")


def reachable_by(path: str | Path, uid: int) -> Availability:
    """Can that user traverse every folder down to (and including) the path?"""
    place = Path(os.path.abspath(path))
    folders = [*reversed(place.parents), place]
    if place.exists() and not place.is_dir():
        folders.pop()
    if uid == os.geteuid():
        blocked = next((f for f in folders if not os.access(f, os.X_OK)), None)
    elif os.geteuid() == 0 and shutil.which("setpriv"):
        blocked = _tried(folders, uid)
    else:
        blocked = next((f for f in folders if not _permitted(f, uid)), None)
    if blocked is None:
        return Availability(True)
    named = shlex.quote(str(blocked))
    if not os.path.lexists(blocked):
        return Availability(False, f"{blocked} does not exist", f"mkdir -p {named}")
    return Availability(
        False,
        f"{user_name(uid)} cannot enter {blocked}",
        f"chmod o+x {named}, or choose a path outside of it (for example below /var/tmp)",
    )


def _tried(folders: list[Path], uid: int) -> Path | None:
    """The first folder that the user cannot enter, found by trying it as that user."""
    argv = [*as_user(uid), "/bin/sh", "-c", TRAVERSE, "sh", *map(str, folders)]
    completed = subprocess.run(
        argv, cwd="/", capture_output=True, timeout=PROBE_LIMIT_S, check=False
    )
    if completed.returncode == 0:
        return None
    if completed.returncode == 3:
        return Path(os.fsdecode(completed.stdout))
    return next((f for f in folders if not _permitted(f, uid)), None)


def _permitted(folder: Path, uid: int) -> bool:
    """By the permission bits alone: may the user enter this folder?"""
    try:
        facts = folder.stat()
    except OSError:
        return False
    if uid == 0:
        return True
    if facts.st_uid == uid:
        return bool(facts.st_mode & 0o100)
    if facts.st_gid == primary_group(uid):
        return bool(facts.st_mode & 0o010)
    return bool(facts.st_mode & 0o001)


def write_private(path: Path, text: str) -> None:
    """Write a file anew that other users can never read: it is made with its mode."""
    path.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
