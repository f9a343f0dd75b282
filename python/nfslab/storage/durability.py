"""Does an fsync that returned mean that the data survives a loss of power? Read back.

Comparing a place that keeps this promise with one that does not compares nothing, so the
answer is recorded with every place. It is built from what the kernel says, from the file
system down to the devices: mount options in effect, the write cache of each disk, for a
loop device the file system that its file lies on, and so on down.

Three levels: `stable` (every layer that can be seen passes a flush on), `volatile` (one
layer is known to lose or ignore it), `unknown` (a layer that cannot be seen from here: an
NFS server's export may be `async`, a FUSE program may do as it likes). Every layer leaves
its reason. A disk with a write-back cache is stable, since flushes reach it; what a
virtual machine's host does with a flush cannot be seen and is said so.

Limits: a disk that lies about its cache, and libraries such as eatmydata, are invisible.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from nfslab.machine.mounts import SYS, Mount, backing_file, block_devices_of, mount_of
from nfslab.results.records import DurabilityRecord, Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LAYERS_MAX = 8
"""Loop files on loop files: how deep we look."""
IN_MEMORY = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs", "rootfs")
NETWORK = {
    "nfs": "the server's export may be `async`, which answers a commit before it is done",
    "nfs4": "the server's export may be `async`, which answers a commit before it is done",
    "cifs": "what the server does with a flush cannot be seen from the client",
    "smb3": "what the server does with a flush cannot be seen from the client",
    "ceph": "what the cluster does with a flush cannot be seen from the client",
    "glusterfs": "what the servers do with a flush cannot be seen from the client",
    "lustre": "what the servers do with a flush cannot be seen from the client",
    "9p": "what the host does with a flush cannot be seen from inside",
    "virtiofs": "what the host does with a flush cannot be seen from inside",
    "zfs": "the dataset's property `sync` may be `disabled` (look with: zfs get sync)",
}
MEMORY_DISKS = ("zram", "ram", "nullb")
REMOTE_DISKS = ("nbd", "rbd", "drbd")
VIRTUAL_DISKS = ("vd", "xvd")
HOST_UNSEEN = "the host's cache behind this virtual disk cannot be seen from inside"
_ORDER: dict[Level, int] = {"volatile": 0, "unknown": 1, "stable": 2}


def durability_of(
    mount: Mount, devices: Sequence[str], *, stated: Level | None = None
) -> DurabilityRecord:
    """Durability of a mount on these devices (names of /sys/block).

    `stated` is what the user says of a server that cannot be seen from here; it is used,
    and recorded as said by the user, only where nothing that is seen contradicts it.
    """
    return _durability(mount, list(devices), stated, LAYERS_MAX)


def weakest(records: Iterable[DurabilityRecord]) -> DurabilityRecord:
    """The durability of a whole that needs all of its parts; unknown for no parts."""
    parts = list(records)
    if not parts:
        return DurabilityRecord(level="unknown", reasons=["no place was up"])
    level = min((part.level for part in parts), key=_ORDER.__getitem__)
    reasons: list[str] = []
    for part in parts:
        reasons += [reason for reason in part.reasons if reason not in reasons]
    return DurabilityRecord(level=level, reasons=reasons)


def _record(level: Level, *reasons: str) -> DurabilityRecord:
    return DurabilityRecord(level=level, reasons=list(reasons))


def _durability(
    mount: Mount, devices: list[str], stated: Level | None, layers: int
) -> DurabilityRecord:
    """One file system, then what is below it."""
    kind = mount.filesystem
    if layers <= 0:
        return _record("unknown", f"more than {LAYERS_MAX} layers: not looked at further")
    if kind in IN_MEMORY:
        return _record("volatile", f"{kind} lives in memory")
    if kind == "overlay":
        return _overlay(mount, layers)
    if kind in ("cifs", "smb3") and mount.option("nostrictsync") is not None:
        return _record("volatile", f"{kind} is mounted with nostrictsync: fsync is not sent")
    if kind in NETWORK or kind.startswith("fuse") or not devices:
        return _unseen(mount, stated)
    below = weakest(_device(name, layers) for name in devices)
    return weakest([below, *_barriers(mount, devices)])


def _unseen(mount: Mount, stated: Level | None) -> DurabilityRecord:
    """A file system whose store cannot be seen from here."""
    kind = mount.filesystem
    if stated is not None:
        return _record(stated, f"{kind}: stated by the user ({stated}), not seen from here")
    if kind.startswith("fuse"):
        return _record("unknown", f"{kind}: the program behind it may do as it likes")
    why = NETWORK.get(kind, "no device below it is known")
    return _record("unknown", f"{kind}: {why}")


def _overlay(mount: Mount, layers: int) -> DurabilityRecord:
    """An overlay writes to its upper folder; containers have their root on one."""
    if mount.option("volatile") is not None:
        return _record("volatile", "overlay is mounted with volatile: it ignores syncs")
    upper = mount.option("upperdir")
    if not upper:
        return _record("unknown", "overlay without an upper folder that is known")
    if not os.path.isdir(upper):
        return _record("unknown", f"overlay: its upper folder {upper} is outside of our view")
    below = mount_of(upper)
    found = _durability(below, block_devices_of(below), None, layers - 1)
    return _record(found.level, f"overlay over {below.filesystem} ({upper})", *found.reasons)


def _barriers(mount: Mount, devices: list[str]) -> list[DurabilityRecord]:
    """Was the file system told not to flush the disks' caches?"""
    off = mount.option("nobarrier") is not None or mount.option("barrier") in ("0", "none")
    if not off:
        return []
    option = "nobarrier" if mount.option("nobarrier") is not None else "barrier=0"
    what = f"{mount.filesystem} is mounted with {option}: it does not flush the disk's cache"
    cached = [name for name in devices if _text(f"{name}/queue/write_cache") != "write through"]
    if cached:
        return [_record("volatile", f"{what} ({', '.join(cached)})")]
    return [_record("stable", f"{what}, which the kernel takes to have none")]


def _device(name: str, layers: int) -> DurabilityRecord:
    """One disk or loop device."""
    if name.startswith("loop"):
        return _loop(name, layers)
    if name.startswith(MEMORY_DISKS):
        return _record("volatile", f"{name} lives in memory")
    cache = _text(f"{name}/queue/write_cache")
    if name.startswith(REMOTE_DISKS):
        return _record("unknown", f"{name} is on another machine, whose disks cannot be seen")
    if not cache:
        return _record("unknown", f"{name}: the kernel does not say whether it has a write cache")
    if cache == "write through":
        if own := _own_cache(name):
            return _record(
                "volatile",
                f"{name} says that it has a write-back cache ({own}) but the kernel was told "
                "otherwise (queue/write_cache): it does not flush it",
            )
        reason = f"{name}: no volatile write cache, as far as the kernel knows"
    else:
        forced = _text(f"{name}/queue/fua") == "1"
        how = "flushes, or writes past it (FUA)" if forced else "flushes (no FUA)"
        reason = f"{name}: write-back cache, emptied by {how}"
    reasons = [reason]
    if name.startswith(VIRTUAL_DISKS) or _is_virtual(name):
        reasons.append(f"{name}: {HOST_UNSEEN}")
    return _record("stable", *reasons)


def _own_cache(name: str) -> str:
    """What the disk's driver says of a write-back cache, when it says there is one."""
    candidates = [_text(f"{name}/cache_type")]
    candidates += [
        _read(path) for path in (SYS / "block" / name).glob("device/scsi_disk/*/cache_type")
    ]
    return next((text for text in candidates if text.startswith("write back")), "")


def _is_virtual(name: str) -> bool:
    """A SCSI or NVMe disk that a hypervisor or a cloud made up (by its vendor or model)."""
    vendor, model = _text(f"{name}/device/vendor"), _text(f"{name}/device/model")
    marks = ("QEMU", "VMware", "VBOX", "Msft", "Google", "Amazon Elastic", "Microsoft NVMe")
    return any(mark in f"{vendor} {model}" for mark in marks)


def _loop(name: str, layers: int) -> DurabilityRecord:
    """A loop device is as durable as the file system that its file lies on."""
    file = backing_file(name)
    if file is None:
        return _record("unknown", f"{name} has no backing file")
    if not file.exists():
        return _record("unknown", f"{name}: its file {file} cannot be seen any more")
    if _text(f"{name}/queue/write_cache") == "write through":
        # The loop driver then answers flushes itself: nothing is written below.
        return _record("volatile", f"{name} does not pass flushes on to its file")
    below = mount_of(file)
    found = _durability(below, block_devices_of(below), None, layers - 1)
    what = f"{name}: a file on {below.filesystem} ({below.mount_point}), flushes become fsync"
    return _record(found.level, what, *found.reasons)


def _text(relative: str) -> str:
    return _read(SYS / "block" / relative)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
