"""What lies below the devices of files: the disks whose requests their syncs wait for.

A file's device is what the kernel's super block says ("major:minor", as in mountinfo); below it
are partitions, md, dm and loop devices, and disks. All of them are named: the requests of a loop
device and those of the disk below its backing file are both waited for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from nfslab.machine.mounts import SYS, backing_file, block_devices_of, leaves_of, mount_of, mounts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nfslab.machine.mounts import Mount


def disks_of_devices(devices: Iterable[str]) -> dict[str, list[str]]:
    """Device of a file -> numbers of the disks and loop devices below; [] where there are none."""
    known: dict[str, Mount] = {f"{m.major}:{m.minor}": m for m in mounts()}
    found: dict[str, list[str]] = {}
    for device in devices:
        link = SYS / "dev" / "block" / device
        if device in known:
            names = block_devices_of(known[device])
        elif link.exists():
            names = leaves_of(Path(os.path.realpath(link)).name)
        else:
            names = []
        found[device] = [number for name in _with_backing(names) if (number := _number(name))]
    return found


def _with_backing(names: list[str]) -> list[str]:
    """Loop devices with what lies below their files, one level deep."""
    found = list(names)
    for name in names:
        file = backing_file(name)
        if file is not None and file.exists():
            found += [below for below in block_devices_of(file) if below not in found]
    return found


def _number(name: str) -> str:
    try:
        return (SYS / "class" / "block" / name.replace("/", "!") / "dev").read_text("ascii").strip()
    except OSError:
        return ""


def device_of(path: str | Path) -> str:
    """Device of what lies at a path, as mountinfo has it."""
    mount = mount_of(path)
    return f"{mount.major}:{mount.minor}"
