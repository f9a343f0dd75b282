"""A memory limit for a whole workload: a control group of its own, version 2 or 1.

The limit covers the page cache, as the memory of a machine does: that is what makes it an
axis like the client memory of the 2004 study. Swap is no way out of it (version 2: no
swap for the group; version 1: memory and swap together get the same limit, or swapping
is made as unlikely as it can be).

The group is made below our own (version 1) or beside it, below the nearest ancestor that
hands the memory controller on (version 2, where a group with processes of its own cannot
do that). Limits that already hold above us thus go on holding; one that is tighter than
what was asked for is an error, since the figures would belong to that other limit.

What was asked for is read back. Page cache that was charged to another group before (a
file read by someone else) does not count against this one: drop the cache first.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from nfslab.errors import RunFailed, Unavailable
from nfslab.machine.availability import Availability
from nfslab.machine.mounts import Mount, mounts

if TYPE_CHECKING:
    from nfslab.machine.resources import Entry, Resources

Version = Literal[1, 2]
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
UNLIMITED_BYTES = 1 << 62
"""Version 1 says "no limit" with a number near 2^63."""


@dataclass(slots=True)
class Cgroup:
    """A control group with a memory limit; programs join it through `Host.spawn`."""

    path: Path
    version: Version
    limit_bytes: int
    """The limit in effect: what was asked for, rounded down to pages by the kernel."""
    entry: Entry
    swap: str = ""
    """How swap is kept from being a way out, in words."""

    def peak_bytes(self) -> int | None:
        """Most memory (page cache included) used at once; None where not kept (< 5.19)."""
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        return _number(self.path / name)

    def events(self) -> dict[str, int]:
        """How often the limit was hit (`max`) and a process killed for it (`oom_kill`)."""
        if self.version == 2:
            return _pairs(self.path / "memory.events")
        hits = _number(self.path / "memory.failcnt")
        kills = _pairs(self.path / "memory.oom_control").get("oom_kill")
        events = {"max": hits, "oom_kill": kills}
        return {name: count for name, count in events.items() if count is not None}

    def remove(self) -> None:
        """End what still runs in it and remove it. Harmless when it is gone."""
        self.entry.undo()


@dataclass(frozen=True, slots=True)
class _Parent:
    """Where our groups can be made."""

    path: Path
    version: Version


def memory_cgroup(limit_bytes: int, resources: Resources) -> Cgroup:
    """A new group with this limit; Unavailable with the reason, RunFailed."""
    found = _find_parent()
    if isinstance(found, Availability):
        raise Unavailable("a memory limit cannot be set here", why=found.reason, fix=found.fix)
    if limit_bytes < PAGE_BYTES:
        raise RunFailed(
            f"a memory limit of {limit_bytes} bytes is less than one page",
            fix=f"give at least {PAGE_BYTES} bytes (limits.memory)",
        )
    entry = resources.cgroup(found.path / resources.name)
    path = entry.path
    try:
        path.mkdir()
        swap = _set_limit(path, found.version, limit_bytes)
        effective = _read_back(path, found.version, limit_bytes)
    except OSError as error:
        entry.undo()
        raise Unavailable(
            "a memory limit cannot be set here",
            why=f"{error.filename or path}: {error.strerror}",
            fix=_FIX,
        ) from error
    except BaseException:
        entry.undo()
        raise
    return Cgroup(path, found.version, effective, entry, swap)


def memory_cgroup_available() -> Availability:
    """Can a memory limit be set here by this user?"""
    found = _find_parent()
    return found if isinstance(found, Availability) else Availability(True)


def _set_limit(path: Path, version: Version, limit_bytes: int) -> str:
    """Write the limit; how swap is dealt with, in words."""
    if version == 2:
        (path / "memory.max").write_text(f"{limit_bytes}\n")
        if (path / "memory.swap.max").exists():
            (path / "memory.swap.max").write_text("0\n")
            return "no swap for the group"
        return "the kernel does not account swap"
    (path / "memory.limit_in_bytes").write_text(f"{limit_bytes}\n")
    both = path / "memory.memsw.limit_in_bytes"
    if both.exists():
        both.write_text(f"{limit_bytes}\n")
        return "memory and swap together have the same limit"
    with contextlib.suppress(OSError):
        (path / "memory.swappiness").write_text("0\n")
        return "the kernel does not account swap; swappiness is 0"
    return "the kernel does not account swap"


def _read_back(path: Path, version: Version, asked: int) -> int:
    """The limit in effect; RunFailed when it is not the one that was asked for."""
    own = _number(path / ("memory.max" if version == 2 else "memory.limit_in_bytes"))
    if own is None or not asked - PAGE_BYTES < own <= asked:
        raise RunFailed(
            f"the memory limit is {own} bytes, not the {asked} asked for",
            fix="leave limits.memory out: this kernel does not hold it as it was asked for",
        )
    outer = _outer_limit(path, version)
    if outer is not None and outer < own:
        raise Unavailable(
            f"a memory limit of {own} bytes would not be the one in effect",
            why=f"a control group above has a tighter limit: {outer} bytes",
            fix="ask for less, or start nfslab outside of that group (or container)",
        )
    return own


def _outer_limit(path: Path, version: Version) -> int | None:
    """The tightest limit of the groups above; None when there is none."""
    if version == 1:
        limit = _pairs(path / "memory.stat").get("hierarchical_memory_limit")
        return limit if limit is not None and limit < UNLIMITED_BYTES else None
    limits = [_number(folder / "memory.max") for folder in path.parents]
    return min((limit for limit in limits if limit is not None), default=None)


_FIX = "run as root, or inside `systemd-run --user --scope` where the user's groups are delegated"


def _find_parent() -> _Parent | Availability:
    """The group to make ours in, or why there is none."""
    memberships = _memberships()
    reasons = []
    for mount in mounts():
        if mount.filesystem == "cgroup" and mount.option("memory") is not None:
            own = _inside(mount, memberships.get("memory", "/"))
            if reason := _unwritable(own):
                return Availability(False, reason, "run as root")
            return _Parent(own, 1)
        if mount.filesystem == "cgroup2":
            own = _inside(mount, memberships.get("", "/"))
            if "memory" not in _words(mount.mount_point / "cgroup.controllers"):
                reasons.append(f"{mount.mount_point} has no memory controller")
                continue
            found = _delegating(mount.mount_point, own)
            if isinstance(found, Path):
                return _Parent(found, 2)
            reasons.append(found)
    if not reasons:
        return Availability(False, "no memory control group is mounted", "boot with cgroup v2")
    return Availability(False, "; ".join(reasons), _FIX)


def _delegating(top: Path, own: Path) -> Path | str:
    """Nearest ancestor that hands the memory controller on and lets us in; or a reason."""
    reason = ""
    for folder in [own, *own.parents]:
        hands_on = "memory" in _words(folder / "cgroup.subtree_control")
        # A process may be moved only by who may write where it comes from and goes to
        # meet: the common ancestor, which is this folder.
        unwritable = _unwritable(folder)
        if hands_on and not unwritable:
            return folder
        if hands_on:
            reason = reason or unwritable
        if folder == top:
            break
    return reason or (
        f"no group above us hands the memory controller on "
        f"(as root: echo +memory > {top}/cgroup.subtree_control)"
    )


def _unwritable(folder: Path) -> str:
    for path in (folder, folder / "cgroup.procs"):
        if not os.access(path, os.W_OK):
            return f"{path} is not writable for this user"
    return ""


def _memberships() -> dict[str, str]:
    """Controller -> path of our group; "" is version 2 (proc file cgroup, cgroups(7))."""
    found = {}
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _inside(mount: Mount, group: str) -> Path:
    """Folder of a group in a mount that may show only a part of the hierarchy."""
    relative = os.path.relpath(group, mount.root)
    if relative.startswith(".."):
        # Our group lies outside of what this container sees: its top is all there is.
        return mount.mount_point
    return Path(os.path.normpath(mount.mount_point / relative))


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


def _number(path: Path) -> int | None:
    """A file that holds one number; None when there is none, or it says "max"."""
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else None


def _pairs(path: Path) -> dict[str, int]:
    """A file of lines "name number"."""
    words = _words(path)
    return {
        name: int(value)
        for name, value in zip(words[::2], words[1::2], strict=False)
        if value.isdigit()
    }
