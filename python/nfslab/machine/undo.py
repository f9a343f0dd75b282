"""Undoing what a runner made, one function per kind of thing.

Each function gets what the journal says, looks at the machine for what is really there,
makes sure that it is ours, and undoes it. It returns a sentence, or "" when there was
nothing; it raises (RunFailed, OSError) when the thing is there and could not be undone,
and the entry then stays in the journal for the next start.

Ours is what carries the runner's token (64 random bits): in the path of a folder, a mount
point, a loop device's backing file, a control group; in the environment of a process; in
the UUID written to a device.
A path or a number alone never suffices, because other things may have taken it since.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nfslab import clock
from nfslab.errors import RunFailed
from nfslab.machine import kernel_settings, nfs_mounts, nfsd_threads, processes
from nfslab.machine.journal import boot_id
from nfslab.machine.mounts import SYS, answers, loops_backed_by, mount_by_name, mounts
from nfslab.machine.tools import said_by
from nfslab.machine.trees import names_token, remove_tree
from nfslab.results.durable import fsync_path

if TYPE_CHECKING:
    from collections.abc import Callable

UMOUNT_NOFOLLOW = 8
MNT_DETACH = 2
LOOP_CLR_FD = 0x4C01
BUSY_LIMIT_S = 10.0
"""How long something may stay busy after its users were ended."""
BUSY_POLL_S = 0.02
TOOL_LIMIT_S = 60.0
SERVER_GRACE_S = 15.0
"""A PostgreSQL that is asked to quit gives its own processes 5 s; killed, it leaves its shared
memory."""
STACKED_MOUNTS_MAX = 16
NETWORK_NAMESPACES = Path("/run/netns")
"""Where ip-netns(8) keeps them."""
LINK_TOKEN_DIGITS = 13
"""Of the token in a device's name, which has 15 characters."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose things are undone, and whether recorded process ids still mean anything."""

    token: str
    pids_valid: bool = True


def undo_process(what: dict[str, Any], scope: Scope) -> str:
    """End one process and its descendants (strays are found by `end_strays`)."""
    root = process_root(what)
    if root is None or not scope.pids_valid:
        return ""

    def find() -> list[processes.Status]:
        return processes.find_ours("", (root,))

    first = int(what.get("stop_signal", signal.SIGTERM))
    grace_s = SERVER_GRACE_S if first == signal.SIGQUIT else processes.GRACE_S
    ended, stuck = processes.end_all(find, first=first, grace_s=grace_s)
    _refuse_stuck(stuck)
    return _sentence(ended)


def process_root(what: dict[str, Any]) -> processes.Identity | None:
    """Identity of a recorded process; None when it was never bound."""
    pid, start = what.get("pid"), what.get("start_ticks")
    if isinstance(pid, int) and isinstance(start, int) and pid > 1:
        return processes.Identity(pid, start)
    return None


def end_strays(scope: Scope, kept: list[processes.Identity]) -> str:
    """End what carries the token but does not descend from `kept` (undone in their turn)."""

    def find() -> list[processes.Status]:
        all_of_us = processes.find_ours(scope.token, kept)
        spared = {s.identity for s in processes.find_ours("", kept)} if kept else set()
        return [status for status in all_of_us if status.identity not in spared]

    ended, stuck = processes.end_all(find)
    _refuse_stuck(stuck)
    return _sentence(ended)


def _refuse_stuck(stuck: list[processes.Status]) -> None:
    if stuck:
        names = ", ".join(f"{s.identity.pid} ({s.name})" for s in stuck[:8])
        raise RunFailed(
            f"processes that cannot be ended: {names}",
            why="they belong to another user, or wait in the kernel for a device or a server",
            fix="end them as root, or bring the device or server back",
        )


def _sentence(ended: list[processes.Status]) -> str:
    if not ended:
        return ""
    names = ", ".join(f"{s.identity.pid} ({s.name})" for s in ended[:8])
    return f"ended {len(ended)} process{'es' * (len(ended) > 1)}: {names}"


def undo_mount(what: dict[str, Any], scope: Scope) -> str:
    """Unmount; lazily when it stays busy."""
    point = _own_path(what, "mount_point", scope)
    done = ""
    for _ in range(STACKED_MOUNTS_MAX):
        found = [mount for mount in mounts() if mount.mount_point == point]
        if not found:
            return done
        is_nfs = found[-1].filesystem in nfs_mounts.KERNEL_NFS
        lazily = nfs_mounts.unmount(found[-1]) if is_nfs else unmount(point)
        done = f"unmounted {point}{' (lazily: it was busy, or its server gone)' * lazily}"
    raise RunFailed(
        f"{point} is mounted again and again",
        fix="find who mounts it (/proc/mounts, systemd units) and unmount it by hand",
    )


def undo_fuse(what: dict[str, Any], scope: Scope) -> str:
    """A mount of `nfslab mount`: lazily, if its process is dead (the journal's runner was it)."""
    from nfslab.machine.fuse_mounts import dead, is_mounted, living, take_away

    place = Path(str(what["mount_point"]))
    if not is_mounted(place) or place in living():
        return ""
    return take_away(place) if dead([place]) else ""


def unmount(point: Path) -> bool:
    """Unmount what is mounted at `point`; True when it had to be done lazily. OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    deadline = clock.monotonic() + BUSY_LIMIT_S
    while libc.umount2(os.fsencode(point), UMOUNT_NOFOLLOW) != 0:
        code = ctypes.get_errno()
        if code == errno.EPERM and _unmount_fuse(point):
            return False
        if code != errno.EBUSY:
            raise OSError(code, os.strerror(code), str(point))
        if clock.monotonic() > deadline:
            if libc.umount2(os.fsencode(point), UMOUNT_NOFOLLOW | MNT_DETACH) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), str(point))
            return True
        clock.sleep(BUSY_POLL_S)
    return False


def _unmount_fuse(point: Path) -> bool:
    """Without root, FUSE mounts go through the set-uid helper."""
    for helper in ("fusermount3", "fusermount"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if said_by([helper, "-u", "-z", "--", str(point)], TOOL_LIMIT_S).returncode == 0:
                return True
    return False


def undo_loop(what: dict[str, Any], scope: Scope) -> str:
    """Detach every loop device whose backing file is the recorded one."""
    path = _own_path(what, "backing_file", scope)
    names = loops_backed_by(path)
    for name in names:
        detach_loop(name, path)
    return f"detached {', '.join(names)} ({path})" if names else ""


def detach_loop(name: str, path: Path) -> None:
    """Detach a loop device that is backed by `path`; RunFailed when it stays in use."""
    descriptor = os.open(f"/dev/{name}", os.O_RDWR | os.O_CLOEXEC)
    try:
        # Between the listing and now the device may have been given to someone else.
        if name in loops_backed_by(path):
            with contextlib.suppress(OSError):
                fcntl.ioctl(descriptor, LOOP_CLR_FD)
    finally:
        os.close(descriptor)
    deadline = clock.monotonic() + BUSY_LIMIT_S
    while name in loops_backed_by(path):
        if clock.monotonic() > deadline:
            raise RunFailed(
                f"/dev/{name} stays attached to {path}",
                why="something still uses it (a mount in another namespace, a process)",
                fix=f"losetup -d /dev/{name}",
            )
        clock.sleep(BUSY_POLL_S)


def undo_cgroup(what: dict[str, Any], scope: Scope) -> str:
    """End what runs in a control group of ours, then remove it."""
    path = _own_path(what, "path", scope)
    if not path.is_dir():
        return ""

    def find() -> list[processes.Status]:
        text = (path / "cgroup.procs").read_text() if path.is_dir() else ""
        found = [processes.status_of(int(pid)) for pid in text.split()]
        spared = processes.ourselves(processes.all_statuses())
        return [s for s in found if s and s.alive and s.identity.pid not in spared]

    ended, stuck = processes.end_all(find)
    _refuse_stuck(stuck)
    remove_cgroup(path)
    return "; ".join(filter(None, [_sentence(ended), f"removed control group {path}"]))


def remove_cgroup(path: Path) -> None:
    """Remove an empty control group, giving back its page cache; RunFailed, OSError."""
    with contextlib.suppress(OSError):
        # Version 1: page cache would otherwise stay charged to the parent.
        (path / "memory.force_empty").write_text("0")
    deadline = clock.monotonic() + BUSY_LIMIT_S
    while True:
        try:
            path.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError as error:
            # Ended processes leave their group only when they have been waited for.
            if error.errno != errno.EBUSY or clock.monotonic() > deadline:
                raise
        clock.sleep(BUSY_POLL_S)


def undo_directory(what: dict[str, Any], scope: Scope) -> str:
    """Remove a folder of ours with all that is in it."""
    path = _own_path(what, "path", scope)
    if not answers(path):
        raise RunFailed(
            f"{path} cannot be removed",
            why="the server that it is on does not answer",
            fix="bring the server back and start nfslab",
        )
    owner = what.get("owner")
    removed = remove_tree(path, owner if isinstance(owner, int) else None)
    # A loss of power must not bring it back when the journal, on another disk, knows it no more.
    with contextlib.suppress(OSError):
        fsync_path(path.parent)
    if removed:
        return f"removed {path}"
    recorded, now = what.get("mount_point"), mount_by_name(path).mount_point
    if recorded is not None and recorded != str(now):
        raise RunFailed(
            f"{path} cannot be removed",
            why=f"what was mounted at {recorded} is not mounted now",
            fix=f"mount it again and start nfslab; or remove the journal of {scope.token}",
        )
    return ""


def undo_device_mapper(what: dict[str, Any], scope: Scope) -> str:
    """Remove a device-mapper device whose name holds the token."""
    name = str(what.get("name", ""))
    if not names_token(Path(name), scope.token):
        raise RunFailed(
            f"device-mapper device {name!r} is left alone",
            why="not named by us",
            fix=f"dmsetup remove {name}, if it is of no use to anybody",
        )
    present = {p.read_text().strip() for p in SYS.glob("block/dm-*/dm/name")}
    if name not in present:
        return ""
    _checked(["dmsetup", "remove", "--retry", name])
    return f"removed device-mapper device {name}"


def undo_md(what: dict[str, Any], scope: Scope) -> str:
    """Stop the md array that carries the UUID we gave it."""
    wanted = bare_uuid(str(what.get("uuid", "")))
    for folder in sorted(SYS.glob("block/md*/md")):
        device = f"/dev/{folder.parent.name}"
        completed = said_by(["mdadm", "--detail", "--export", device], TOOL_LIMIT_S)
        facts = dict(line.split("=", 1) for line in completed.stdout.splitlines() if "=" in line)
        if wanted and bare_uuid(facts.get("MD_UUID", "")) == wanted:
            _checked(["mdadm", "--stop", device])
            return f"stopped {device}"
    return ""


def undo_signature(what: dict[str, Any], scope: Scope) -> str:
    """Wipe our own file system or array signature from a device that was given to us.

    Device names may have moved after a reboot: only the UUID that we wrote proves it.
    """
    device = str(what.get("device", ""))
    wanted = {bare_uuid(str(uuid)) for uuid in what.get("uuids", [])} - {""}
    if not wanted or not Path(device).is_block_device():
        return ""
    completed = said_by(["blkid", "-p", "-o", "export", device], TOOL_LIMIT_S)
    facts = dict(line.split("=", 1) for line in completed.stdout.splitlines() if "=" in line)
    if bare_uuid(facts.get("UUID", "")) not in wanted:
        return ""
    _checked(["wipefs", "--all", device])
    return f"wiped our {facts.get('TYPE', '')} signature from {device}"


def bare_uuid(text: str) -> str:
    """A UUID's hexadecimal digits: mdadm and blkid group them differently."""
    return text.replace("-", "").replace(":", "").lower()


def _own_path(what: dict[str, Any], key: str, scope: Scope) -> Path:
    """The recorded path, if its name says that it is ours; RunFailed otherwise."""
    path = Path(str(what.get(key, "")))
    if not path.is_absolute() or not names_token(path, scope.token):
        raise RunFailed(
            f"{path} is left alone",
            why="its name does not carry our token",
            fix="remove it by hand, if it is of no use to anybody",
        )
    return path


def _checked(argv: list[str]) -> None:
    completed = said_by(argv, TOOL_LIMIT_S)
    if completed.returncode != 0:
        raise RunFailed(
            f"{' '.join(argv)} failed ({completed.returncode})",
            why=completed.stderr.strip(),
            fix="run it by hand; the next start of nfslab goes on behind it",
        )


def undo_network(what: dict[str, Any], scope: Scope) -> str:
    """Remove a network namespace and the device of its veth pair on this side."""
    name, device = str(what.get("name", "")), str(what.get("device", ""))
    if not names_token(Path(name), scope.token) or scope.token[:LINK_TOKEN_DIGITS] not in device:
        return ""
    done = []
    # The other end goes with it at once; with the namespace alone it would go some time later.
    if device in (name for _, name in socket.if_nameindex()):
        _checked(["ip", "link", "delete", device])
        done.append(f"removed the network device {device}")
    if (NETWORK_NAMESPACES / name).exists():
        _checked(["ip", "netns", "delete", name])
        done.append(f"removed the network namespace {name}")
    return "; ".join(done)


def undo_setting(what: dict[str, Any], scope: Scope) -> str:
    """Set it as it was, unless somebody has set it otherwise since, or the boot is another."""
    file, before, after = Path(str(what["file"])), str(what["before"]), what.get("after")
    if what.get("boot") != boot_id() or not file.exists():
        return ""
    now = kernel_settings.read(file)
    if now == before or (after is not None and now != after):
        return ""
    kernel_settings.write(file, before)
    return f"set {file} to {before!r} again"


def undo_nfsd_threads(what: dict[str, Any], scope: Scope) -> str:
    """Set the least number of nfsd's threads as it was, unless somebody has set it since."""
    before, after = int(what["before"]), int(what["after"])
    if what.get("boot") != boot_id() or nfsd_threads.least_threads() != after:
        return ""
    nfsd_threads.set_least_threads(before)
    return f"let {before} threads of the kernel's NFS server stay again, not {after}"


def undo_nfsd(what: dict[str, Any], scope: Scope) -> str:
    """Stop the kernel's NFS server if it listens where ours did; its exports go, too."""
    control = _own_path(what, "control", scope)
    ports = control / "portlist"
    if not ports.exists() or not any(
        line.split()[-1:] == [str(what.get("port"))] for line in ports.read_text().splitlines()
    ):
        return ""
    (control / "threads").write_text("0\n")
    return "stopped the kernel's NFS server"


UNDO: dict[str, Callable[[dict[str, Any], Scope], str]] = {
    "process": undo_process,
    "mount": undo_mount,
    "fuse": undo_fuse,
    "loop": undo_loop,
    "cgroup": undo_cgroup,
    "directory": undo_directory,
    "device_mapper": undo_device_mapper,
    "md": undo_md,
    "signature": undo_signature,
    "network": undo_network,
    "setting": undo_setting,
    "nfsd": undo_nfsd,
    "nfsd_threads": undo_nfsd_threads,
}
