"""Removing a folder of ours without ever touching what is not.

The way down to the folder and every step inside goes by descriptors opened with
O_NOFOLLOW: a symbolic link, also one that was put there meanwhile, is removed as a link
or refused as a parent, never followed. Mounts are not crossed: something mounted below
(a bind mount looks like a folder) makes the removal refuse.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from typing import TYPE_CHECKING

from nfslab.errors import RunFailed
from nfslab.machine.mounts import answers, mounts_below
from nfslab.machine.users import as_user

if TYPE_CHECKING:
    from pathlib import Path

REMOVE_LIMIT_S = 600.0
DEPTH_MAX = 200
"""Deeper trees are refused (each level holds a descriptor)."""


def names_token(path: Path, token: str) -> bool:
    """Is this path ours by its name: does a component of it hold our token?"""
    return bool(token) and any(token in part for part in path.parts)


def remove_tree(path: Path, owner: int | None = None) -> bool:
    """Remove a folder and all in it; False when there was none. RunFailed, OSError.

    `owner` is tried when root may not (an NFS server that squashes root).
    """
    if not answers(path):
        raise RunFailed(
            f"{path} is left alone",
            why="its file server does not answer",
            fix="the next start of nfslab tries again, when the server answers",
        )
    refuse_mounts(path)
    try:
        return _remove(path)
    except PermissionError:
        if owner is None or os.geteuid() != 0:
            raise
    remove_as(path, owner)
    return True


def refuse_mounts(path: Path) -> None:
    """RunFailed when something is mounted at the path or below it."""
    mounted = mounts_below(path)
    if mounted:
        raise RunFailed(
            f"{path} is left alone",
            why=f"{mounted[-1].filesystem} is still mounted at {mounted[-1].mount_point}",
            fix=shlex.join(["umount", str(mounted[-1].mount_point)]),
        )


def remove_as(path: Path, owner: int) -> None:
    """The same with rm(1) as that user; it follows no links and crosses no mounts."""
    argv = [*as_user(owner), "rm", "-rf", "--one-file-system", "--", str(path)]
    completed = subprocess.run(
        argv, cwd="/", capture_output=True, text=True, timeout=REMOVE_LIMIT_S, check=False
    )
    if completed.returncode != 0:
        raise RunFailed(
            f"{path} could not be removed",
            why=completed.stderr.strip(),
            fix=f"remove it by hand: rm -r {shlex.quote(str(path))}",
        )


def _remove(path: Path) -> bool:
    try:
        parent = _open_folder(path.parent)
    except FileNotFoundError:
        return False
    try:
        facts = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode):
            raise RunFailed(
                f"{path} is left alone",
                why="it is not a folder any more",
                fix="look what took its place; nfslab removes only what it made",
            )
        _empty(parent, path.name, facts.st_dev, 0)
        os.rmdir(path.name, dir_fd=parent)
    except FileNotFoundError:
        return False
    finally:
        os.close(parent)
    return True


def _open_folder(path: Path) -> int:
    """Descriptor of a folder, reached without following any symbolic link."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open("/", flags)
    for part in path.parts[1:]:
        try:
            below = os.open(part, flags, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _empty(parent: int, name: str, device: int, depth: int) -> None:
    """Remove all that is in the folder `name` of `parent`."""
    if depth > DEPTH_MAX:
        raise RunFailed(
            f"{name} is left alone",
            why=f"more than {DEPTH_MAX} levels deep",
            fix="remove it by hand",
        )
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = os.open(name, flags, dir_fd=parent)
    except PermissionError:
        # A program may have closed its own folder; it is ours, so open it again.
        os.chmod(name, 0o700, dir_fd=parent)
        folder = os.open(name, flags, dir_fd=parent)
    try:
        if os.fstat(folder).st_dev != device:
            raise RunFailed(
                f"{name} is left alone",
                why="another file system begins there",
                fix="unmount what is below; the next start of nfslab tries again",
            )
        with os.scandir(folder) as entries:
            listing = [(e.name, e.is_dir(follow_symlinks=False)) for e in entries]
        for below, is_folder in listing:
            if is_folder:
                _empty(folder, below, device, depth + 1)
                os.rmdir(below, dir_fd=folder)
            else:
                _unlink(folder, below)
    finally:
        os.close(folder)


def _unlink(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except PermissionError:
        os.fchmod(folder, 0o700)
        os.unlink(name, dir_fd=folder)
