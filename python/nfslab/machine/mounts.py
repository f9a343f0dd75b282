"""Which file system a path is on, with the options in effect, and the devices below it.

The kernel is asked for the mount's id through an open descriptor (`/proc/self/fdinfo`),
which is right also where mounts lie over one another; comparing path prefixes is not.
What the kernel prints in `/proc/self/mountinfo` is what is in effect: some options that
were asked for are silently changed (NFS rounds rsize) or shared with an older mount.

Devices are followed through `/sys` down to those that hold data themselves: disks, and
loop devices (whose backing file is another path, see `backing_file`). File systems that
span devices without a device of their own (btrfs) are looked up where they list them.

Whoever touches a path on a mount whose server is dead waits in the kernel. What has to work
then (`answers`, `without_links`, `mount_by_name`, `mounts_below`) goes by the kernel's list alone.
Limits: ZFS and bcachefs pools are not resolved (no devices are returned).
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from pathlib import Path

from nfslab.machine.asking import ask

SYS = Path("/sys")
NETWORK_FILESYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "glusterfs", "9p", "afs")
ANSWER_LIMIT_S = 20.0
"""A server that says nothing for this long is taken to be gone."""
LINKS_MAX = 40
"""Symbolic links on one path: then Linux says ELOOP, too."""
DEVICES_MAX = 1024
"""Bound on the devices below one mount."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo (proc_pid_mountinfo(5))."""

    mount_id: int
    parent_id: int
    major: int
    minor: int
    root: str
    """Which part of the file system is mounted ("/": all of it)."""
    mount_point: Path
    filesystem: str
    source: str
    options: str
    """In effect: those of the mount, then those of the file system, without repeats."""

    def option(self, name: str) -> str | None:
        """Value of an option ("" for a plain one); None when it is not set."""
        for option in self.options.split(","):
            key, _, value = option.partition("=")
            if key == name:
                return value
        return None

    @property
    def read_only(self) -> bool:
        """Mounted read-only (as a whole, or at this place)."""
        return self.option("ro") is not None

    @property
    def may_hang(self) -> bool:
        """Does a server, or a program, answer for it, which may be dead? (fuseblk is a disk.)"""
        kind = self.filesystem
        return kind in NETWORK_FILESYSTEMS or kind == "fuse" or kind.startswith("fuse.")


def unescape(text: str) -> str:
    """Undo the octal escapes that the kernel uses for blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def parse_mountinfo(text: str) -> list[Mount]:
    """Mounts in the order of the text; lines that are none are skipped."""
    mounts = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, tail = before.split(" "), after.split(" ")
        if not separator or len(fields) < 6 or len(tail) < 3:
            continue
        major, _, minor = fields[2].partition(":")
        # `ro` may be set on the mount while the file system itself says `rw`.
        own = fields[5].split(",")
        shared = [o for o in tail[2].split(",") if o not in own and o not in ("ro", "rw")]
        if "ro" in tail[2].split(",") and "ro" not in own:
            own = ["ro" if option == "rw" else option for option in own]
        mounts.append(
            Mount(
                mount_id=int(fields[0]),
                parent_id=int(fields[1]),
                major=int(major),
                minor=int(minor),
                root=unescape(fields[3]),
                mount_point=Path(unescape(fields[4])),
                filesystem=tail[0],
                source=unescape(tail[1]),
                options=unescape(",".join(own + shared)),
            )
        )
    return mounts


def mounts() -> list[Mount]:
    """All mounts that this process sees."""
    # Paths may hold any bytes: they come back as they were through surrogateescape.
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        return parse_mountinfo(file.read())


def mounts_below(path: Path) -> list[Mount]:
    """Mounts at a path or below it, the innermost last."""
    return [m for m in mounts() if m.mount_point == path or path in m.mount_point.parents]


def without_links(path: Path) -> Path:
    """The absolute path with its symbolic links followed, as far as no dead server is asked.

    From where the way enters a mount that may hang, the rest is taken as it is written. OSError:
    ELOOP.
    """
    remote = {mount.mount_point for mount in mounts() if mount.may_hang}
    place, links = Path("/"), 0
    absolute = path if path.is_absolute() else Path.cwd() / path
    waiting = list(reversed(absolute.parts[1:]))
    while waiting:
        if (part := waiting.pop()) == "..":
            place = place.parent
            continue
        place /= part
        if place in remote:
            return Path(os.path.normpath(place.joinpath(*reversed(waiting))))
        try:
            text = os.readlink(place)
        except OSError:
            continue  # no link, or nothing at all
        if (links := links + 1) > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        place = place.parent
        target = Path(text)
        if target.is_absolute():
            place = Path("/")
        waiting += reversed(target.parts[target.is_absolute() :])
    return place


def mount_by_name(path: Path) -> Mount:
    """The mount of an absolute path by its name alone: asks no file system anything.

    Symbolic links are not seen (see `without_links`).
    """
    holding = [m for m in mounts() if m.mount_point == path or m.mount_point in path.parents]
    # Of two at the same point the later one covers the earlier one.
    return max(enumerate(holding), key=lambda item: (len(item[1].mount_point.parts), item[0]))[1]


def answers(path: Path, limit_s: float | None = None) -> bool:
    """Does the file system of this path answer, or does its server hang?

    Asked only of what may hang, by a process that can be given up.
    """
    place = without_links(path)
    if not mount_by_name(place).may_hang:
        return True
    return ask([place], ANSWER_LIMIT_S if limit_s is None else limit_s)[place] is not None


def mount_of(path: str | Path) -> Mount:
    """The mount that a path is on; of its nearest existing folder when it does not exist."""
    place = Path(os.path.realpath(path))
    while True:
        try:
            descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
            break
        except (FileNotFoundError, NotADirectoryError):
            place = place.parent
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file if ":" in line)
    finally:
        os.close(descriptor)
    wanted = int(facts["mnt_id"])
    for mount in mounts():
        if mount.mount_id == wanted:
            return mount
    raise OSError(f"the kernel lists no mount with id {wanted} for {place}")


def block_devices_of(where: Mount | str | Path) -> list[str]:
    """Names (of /sys/block) of the disks and loop devices below a mount or a path."""
    mount = where if isinstance(where, Mount) else mount_of(where)
    found: list[str] = []
    for top in _top_devices(mount):
        for name in leaves_of(top):
            if name not in found:
                found.append(name)
    return found


def _top_devices(mount: Mount) -> list[str]:
    """Devices that the file system itself uses."""
    source = os.path.realpath(mount.source) if mount.source.startswith("/dev/") else ""
    if mount.filesystem == "btrfs" and source:
        name = Path(source).name
        for devices in SYS.glob("fs/btrfs/*/devices"):
            members = sorted(os.listdir(devices))
            if name in members:
                return members
    if mount.major != 0:
        link = SYS / "dev" / "block" / f"{mount.major}:{mount.minor}"
        if link.exists():
            return [Path(os.path.realpath(link)).name]
    folder = _device_folder(Path(source).name) if source else None
    return [folder.name] if folder else []


def _device_folder(name: str) -> Path | None:
    """Folder of a disk or partition in /sys; names hold `!` where paths have `/`."""
    link = SYS / "class" / "block" / name.replace("/", "!")
    return Path(os.path.realpath(link)) if link.exists() else None


def disk_of(name: str) -> str:
    """The whole disk that a partition is a part of; a disk's own name otherwise."""
    folder = _device_folder(name)
    if folder is not None and (folder / "partition").exists():
        return folder.parent.name
    return name


def leaves_of(name: str) -> list[str]:
    """Devices that hold the data of a device: through md, dm and partitions."""
    waiting, found = [name], []
    for _ in range(DEVICES_MAX):
        if not waiting:
            break
        device = waiting.pop(0)
        folder = _device_folder(device)
        slaves = folder / "slaves" if folder else None
        below = sorted(os.listdir(slaves)) if slaves and slaves.is_dir() else []
        if below:
            waiting.extend(below)
        elif (disk := disk_of(device)) != device:
            waiting.append(disk)
        elif device not in found:
            found.append(device)
    return found


def backing_file(loop: str) -> Path | None:
    """The file behind a loop device, as the kernel names it; None when it has none."""
    try:
        text = (SYS / "block" / loop / "loop" / "backing_file").read_bytes()
    except OSError:
        return None
    return Path(os.fsdecode(text.rstrip(b"\n")))


def loops_backed_by(path: Path) -> list[str]:
    """Names of the loop devices whose backing file is (or was, if deleted) this path."""
    wanted = {str(path), f"{path} (deleted)"}
    return sorted(
        folder.parent.name
        for folder in SYS.glob("block/loop*/loop")
        if str(backing_file(folder.parent.name) or "") in wanted
    )
