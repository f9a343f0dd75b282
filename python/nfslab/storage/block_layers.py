"""Commands that join block devices into one and put a file system on them.

Pure functions: they build argument lists from the manual pages (mdadm(8), dmsetup(8),
mkfs.ext4(8), mkfs.xfs(8), mkfs.btrfs(8), losetup(8)) and read what tools print, so that
each can be tested without the kernel having it. Running them is the caller's business.

Every signature that is written carries a UUID chosen by us: it is what proves later that
a device holds something of ours. Discarding is switched off when a file system is made:
it would punch the holes back into loop files whose blocks were reserved on purpose.
Lazy initialisation is switched off as well: it would go on behind the measurement.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

Backend = Literal["md", "dm", "btrfs"]
SECTOR_BYTES = 512
"""What device-mapper tables and /sys sizes count in, whatever the disk's sectors are."""
BTRFS_STRIPE_BYTES = 64 << 10
"""BTRFS_STRIPE_LEN: fixed in the file system's format."""
XFS_BLOCK_BYTES = 4096
"""Block size that mkfs.xfs takes when none is given."""
MD_CHUNK_MINIMUM_BYTES = 4 << 10
"""Chunks are powers of two, at least a page (md(4))."""


@dataclass(frozen=True, slots=True)
class FilesystemOptions:
    """What the 2001 study varied when it made a file system; None: mkfs's own choice."""

    block_size_bytes: int | None = None
    stride_blocks: int | None = None
    stripe_width_blocks: int | None = None


def losetup_argv(file: Path, *, direct_io: bool) -> list[str]:
    """Attach a file to a free loop device; its name is printed."""
    mode = "on" if direct_io else "off"
    return ["losetup", "--find", "--show", f"--direct-io={mode}", str(file)]


def md_uuid(uuid: str) -> str:
    """A UUID as mdadm writes it: four groups of eight digits."""
    digits = uuid.replace("-", "")
    return ":".join(digits[i : i + 8] for i in range(0, 32, 8))


def md_create_argv(name: str, uuid: str, devices: Sequence[str], chunk_bytes: int) -> list[str]:
    """Make a RAID-0 array `/dev/md/<name>` without asking anything."""
    return [
        "mdadm",
        "--create",
        f"/dev/md/{name}",
        "--run",
        "--metadata=1.2",
        f"--name={name}",
        "--homehost=any",
        f"--uuid={md_uuid(uuid)}",
        "--level=0",
        f"--chunk={chunk_bytes // 1024}K",
        f"--raid-devices={len(devices)}",
        *(["--force"] if len(devices) == 1 else []),
        *devices,
    ]


def dm_table(devices: Sequence[str], sizes_bytes: Sequence[int], chunk_bytes: int) -> str:
    """A striped table over the devices, as long as the smallest of them allows.

    The length is a multiple of chunk times devices, which dm-stripe insists on.
    """
    chunks = min(sizes_bytes) // chunk_bytes
    length = chunks * chunk_bytes * len(devices) // SECTOR_BYTES
    parts = [f"{device} 0" for device in devices]
    stripes, chunk = len(devices), chunk_bytes // SECTOR_BYTES
    return f"0 {length} striped {stripes} {chunk} {' '.join(parts)}"


def dm_create_argv(name: str, uuid: str, table: str) -> list[str]:
    """Make a device-mapper device `/dev/mapper/<name>`, also where no udev runs."""
    return ["dmsetup", "create", name, "--uuid", uuid, "--verifyudev", "--table", table]


def dm_chunk_bytes(table: str) -> int | None:
    """Chunk size in a table as `dmsetup table` prints it; None when it is not striped."""
    words = table.split()
    if len(words) >= 5 and words[2] == "striped" and words[4].isdigit():
        return int(words[4]) * SECTOR_BYTES
    return None


def mkfs_argv(filesystem: str, device: str, uuid: str, options: FilesystemOptions) -> list[str]:
    """Make ext4 or xfs on one device; ValueError for any other."""
    size, stride, width = (
        options.block_size_bytes,
        options.stride_blocks,
        options.stripe_width_blocks,
    )
    if filesystem == "ext4":
        extended = ["nodiscard", "lazy_itable_init=0", "lazy_journal_init=0"]
        extended += [f"stride={stride}"] if stride is not None else []
        extended += [f"stripe_width={width}"] if width is not None else []
        block = ["-b", str(size)] if size is not None else []
        return ["mkfs.ext4", "-q", "-F", "-U", uuid, *block, "-E", ",".join(extended), device]
    if filesystem == "xfs":
        block = ["-b", f"size={size}"] if size is not None else []
        data = []
        if stride:
            # su is the chunk in bytes, sw how many of them make a whole stripe.
            unit = stride * (size or XFS_BLOCK_BYTES)
            data = ["-d", f"su={unit},sw={(width or stride) // stride}"]
        elif stride == 0:
            data = ["-d", "noalign"]
        return ["mkfs.xfs", "-q", "-f", "-K", "-m", f"uuid={uuid}", *block, *data, device]
    raise ValueError(f"no way to make {filesystem!r} on one device is known here")


def mkfs_btrfs_argv(devices: Sequence[str], uuid: str) -> list[str]:
    """Make btrfs that stripes data and metadata over the devices."""
    profile = "raid0" if len(devices) > 1 else "single"
    return [
        "mkfs.btrfs",
        "--quiet",
        "--force",
        "--nodiscard",
        "--uuid",
        uuid,
        "--data",
        profile,
        "--metadata",
        profile,
        *devices,
    ]


def mount_argv(filesystem: str, device: str, point: Path, options: Sequence[str]) -> list[str]:
    """Mount a device with exactly these options."""
    given = ["-o", ",".join(options)] if options else []
    return ["mount", "-t", filesystem, *given, device, str(point)]


def ext4_geometry(dumpe2fs: str) -> dict[str, int]:
    """Block size, stride and stripe width (in blocks) as `dumpe2fs -h` prints them."""
    names = {
        "Block size": "block_size_bytes",
        "RAID stride": "stride_blocks",
        "RAID stripe width": "stripe_width_blocks",
    }
    found = {}
    for line in dumpe2fs.splitlines():
        name, _, value = line.partition(":")
        if name in names and value.strip().isdigit():
            found[names[name]] = int(value)
    return found


def xfs_geometry(xfs_info: str) -> dict[str, int]:
    """Block size, sunit and swidth (in blocks) of the data section of `xfs_info`."""
    data = re.search(r"^data\s.*?(?=^naming|\Z)", xfs_info, re.MULTILINE | re.DOTALL)
    if data is None:
        return {}
    names = {
        "bsize": "block_size_bytes",
        "sunit": "stride_blocks",
        "swidth": "stripe_width_blocks",
    }
    return {
        names[name]: int(value)
        for name, value in re.findall(r"(\w+)=(\d+)", data[0])
        if name in names
    }


def device_size_bytes(device: str) -> int | None:
    """Size of a block device by its path; None when it is none."""
    name = Path(os.path.realpath(device)).name
    try:
        text = Path(f"/sys/class/block/{name}/size").read_text(encoding="ascii")
    except OSError:
        return None
    return int(text) * SECTOR_BYTES


def kernel_has(module: str) -> bool:
    """Is a driver built in, loaded, or there to be loaded? (modules.builtin, modules.dep)"""
    names = {module, module.replace("_", "-"), module.replace("-", "_")}
    if any(Path(f"/sys/module/{name}").exists() for name in names):
        return True
    folder = Path("/lib/modules") / os.uname().release
    for listing in ("modules.builtin", "modules.dep"):
        try:
            text = (folder / listing).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if any(re.search(rf"/{re.escape(name)}\.ko", text) for name in names):
            return True
    return False


def kernel_has_filesystem(name: str) -> bool:
    """Can this kernel mount such a file system?"""
    try:
        listed = Path("/proc/filesystems").read_text(encoding="ascii").split()
    except OSError:
        listed = []
    return name in listed or kernel_has(name)


def _mdstat() -> str:
    try:
        return Path("/proc/mdstat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def backend_obstacle(backend: Backend) -> tuple[str, str]:
    """Why a backend cannot be used here, and what would add it; ("", "") when it can."""
    tools = {"md": "mdadm", "dm": "dmsetup", "btrfs": "mkfs.btrfs"}
    packages = {"md": "mdadm", "dm": "dmsetup", "btrfs": "btrfs-progs"}
    match backend:
        case "md":
            present = kernel_has("raid0") or "[raid0]" in _mdstat()
        case "dm":
            present = Path("/sys/class/misc/device-mapper").exists() or kernel_has("dm_mod")
        case "btrfs":
            present = kernel_has_filesystem("btrfs")
    if not present:
        driver = {"md": "raid0 (md)", "dm": "device-mapper", "btrfs": "btrfs"}[backend]
        return f"this kernel has no {driver}", "use a kernel with it, or another backend"
    if shutil.which(tools[backend]) is None:
        return f"the program {tools[backend]} is missing", f"apt install {packages[backend]}"
    return "", ""
