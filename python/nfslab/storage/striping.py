"""Making a striped file system, each step journalled before it is taken.

    make_loops | claim_devices  ->  join  ->  make_filesystem  ->  mount  ->  read_back

A `Striping` carries the steps' common ground: the run's resources, the plan, and the list
of journal entries to which each step adds what it is about to make, so that the caller
can undo whatever is there, newest first. The argument lists come from `block_layers`.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from nfslab.errors import RunFailed, system_errors
from nfslab.machine.mounts import SYS, mount_of
from nfslab.storage import block_layers as layers
from nfslab.storage.block_layers import Backend, FilesystemOptions
from nfslab.storage.mount_options import differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.hosts.base import Completed, Host
    from nfslab.machine.resources import Entry, Resources

TOOL_LIMIT_S = 600.0
ZEROS = bytes(1 << 20)
Allocation = Literal["reserved", "written", "sparse"]

LOOP_CONTROL: Final = Path("/dev/loop-control")


@dataclass(frozen=True, slots=True)
class StripePlan:
    """What to make of the devices."""

    backend: Backend
    filesystem: str
    chunk_bytes: int
    options: FilesystemOptions
    mount_options: tuple[str, ...] = ()


@dataclass(slots=True)
class Striping:
    """One stripe in the making."""

    plan: StripePlan
    resources: Resources
    host: Host
    entries: list[Entry] = field(default_factory=list)
    """What was journalled, in order."""
    filesystem_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    array_uuid: str = field(default_factory=lambda: str(uuid.uuid4()))
    facts: dict[str, Any] = field(default_factory=dict)
    """What was read back, for the place's record."""

    def make_loops(
        self, folder: Path, count: int, size_bytes: int, *, direct_io: bool, allocate: Allocation
    ) -> list[str]:
        """Files of this size in `folder` (ours), each behind a loop device; their paths."""
        devices = []
        if not LOOP_CONTROL.exists():  # where no udev has loaded the driver
            self.run(["modprobe", "loop"])
        for number in range(count):
            file = folder / f"disk{number}"
            _make_file(file, size_bytes, allocate)
            entry = self.resources.loop(file)
            self.entries.append(entry)
            printed = self.run(layers.losetup_argv(file, direct_io=direct_io)).stdout.split()
            if not printed:
                raise RunFailed(
                    "losetup did not say which device it took",
                    fix="see what `losetup --find --show FILE` prints by hand",
                )
            entry.bind(device=printed[-1])
            effective = _number(SYS / "block" / Path(printed[-1]).name / "loop" / "dio")
            if effective != int(direct_io):
                raise RunFailed(
                    f"{printed[-1]}: direct_io = {str(direct_io).lower()} was asked for, "
                    f"in effect is {str(bool(effective)).lower()}",
                    why=f"the file system of {folder} does not allow direct I/O to the file",
                    fix="set direct_io = false, or choose another directory",
                )
            devices.append(printed[-1])
        self.facts |= {
            "loop_files": {
                "count": count,
                "size_bytes": size_bytes,
                "direct_io": direct_io,
                "allocate": allocate,
            }
        }
        return devices

    def claim_devices(self, devices: Sequence[str], *, wipe: bool) -> list[str]:
        """Take given devices: refused when they carry anything, unless `wipe`."""
        claimed = []
        for device in devices:
            real = os.path.realpath(device)
            found = self.run(["wipefs", "--no-act", "--parsable", real]).stdout
            signatures = [line for line in found.splitlines() if line and line[0] != "#"]
            if signatures and not wipe:
                kinds = ", ".join(line.rsplit(",", 1)[-1] for line in signatures)
                raise RunFailed(
                    f"{device} is not empty: it carries {kinds}",
                    fix=f"name another device; or set wipe = true, which destroys all on {device}",
                )
            if signatures:
                self.run(["wipefs", "--all", real])
            self.entries.append(
                self.resources.signature(real, [self.filesystem_uuid, self.array_uuid])
            )
            claimed.append(real)
        self.facts |= {"given_devices": list(devices)}
        return claimed

    def join(self, devices: Sequence[str]) -> str:
        """Join the devices; the path of the device that carries the file system."""
        plan, name = self.plan, f"{self.resources.name}-{len(self.entries)}"
        self.facts |= {
            "backend": plan.backend,
            "number_of_devices": len(devices),
            "chunk_bytes": plan.chunk_bytes,
        }
        if plan.backend == "btrfs":
            return devices[0]
        if plan.backend == "md":
            self.entries.append(self.resources.md(self.array_uuid))
            self.run(layers.md_create_argv(name, self.array_uuid, devices, plan.chunk_bytes))
            node = os.path.realpath(f"/dev/md/{name}")
            effective = _number(SYS / "block" / Path(node).name / "md" / "chunk_size")
        else:
            sizes = [layers.device_size_bytes(device) or 0 for device in devices]
            table = layers.dm_table(devices, sizes, plan.chunk_bytes)
            self.entries.append(self.resources.device_mapper(name))
            self.run(layers.dm_create_argv(name, self.array_uuid, table))
            node = f"/dev/mapper/{name}"
            printed = self.run(["dmsetup", "table", name]).stdout
            effective = layers.dm_chunk_bytes(printed)
        if effective != plan.chunk_bytes:
            raise RunFailed(
                f"chunk {plan.chunk_bytes} bytes was asked for, in effect is {effective}",
                why=f"read back from {plan.backend}",
                fix="ask for the chunk that is in effect, or use another backend",
            )
        return node

    def make_filesystem(self, node: str, devices: Sequence[str]) -> None:
        """mkfs, and for ext4 its geometry read back."""
        plan = self.plan
        if plan.filesystem == "btrfs":
            self.run(layers.mkfs_btrfs_argv(devices, self.filesystem_uuid))
            return
        self.run(layers.mkfs_argv(plan.filesystem, node, self.filesystem_uuid, plan.options))
        if plan.filesystem == "ext4":
            self.facts["geometry"] = layers.ext4_geometry(self.run(["dumpe2fs", "-h", node]).stdout)

    def mount(self, node: str, devices: Sequence[str], point: Path) -> None:
        """Mount it at `point` (a folder of ours); options that are contradicted: RunFailed."""
        plan = self.plan
        options = list(plan.mount_options)
        if plan.filesystem == "btrfs":
            # Without udev nobody has told the kernel of the other members. Discarding
            # would punch holes into the files behind, in the midst of a measurement.
            options = [f"device={device}" for device in devices[1:]] + options
            if not any("discard" in option for option in options):
                options.append("nodiscard")
        self.entries.append(self.resources.mount(point))
        self.run(layers.mount_argv(plan.filesystem, node, point, options))
        mount = mount_of(point)
        if mount.mount_point != point or mount.filesystem != plan.filesystem:
            raise RunFailed(
                f"{point} holds {mount.filesystem}, not {plan.filesystem}",
                fix=f"see `dmesg`, and that the kernel knows {plan.filesystem} (/proc/filesystems)",
            )
        if found := differences(plan.mount_options, mount, absent=False):
            raise RunFailed(
                f"mount options are not in effect: {'; '.join(found)}",
                why=f"in effect: {mount.options}",
                fix="correct mount_options",
            )

    def read_back(self, point: Path) -> None:
        """What the mounted file system says of itself; RunFailed when it is not as planned."""
        plan = self.plan
        if plan.filesystem == "btrfs":
            folder = SYS / "fs" / "btrfs" / self.filesystem_uuid
            profiles = [p.name for p in (folder / "allocation" / "data").iterdir() if p.is_dir()]
            wanted = "raid0" if self.facts["number_of_devices"] > 1 else "single"
            members = len(list((folder / "devices").iterdir()))
            self.facts |= {"profiles": sorted(profiles)}
            if wanted not in profiles or members != self.facts["number_of_devices"]:
                raise RunFailed(
                    f"btrfs has data profiles {profiles} over {members} devices, "
                    f"not {wanted} over {self.facts['number_of_devices']}",
                    fix="see `btrfs filesystem usage` by hand, or use another backend",
                )
            return
        if plan.filesystem == "xfs":
            printed = self.run(["xfs_info", str(point)]).stdout
            self.facts["geometry"] = layers.xfs_geometry(printed)
        self._compare_geometry()

    def _compare_geometry(self) -> None:
        """Stride and stripe width in effect against those asked for."""
        found = self.facts.get("geometry", {})
        asked = {
            "block_size_bytes": self.plan.options.block_size_bytes,
            "stride_blocks": self.plan.options.stride_blocks,
            "stripe_width_blocks": self.plan.options.stripe_width_blocks,
        }
        for name, value in asked.items():
            if value is not None and found.get(name, 0) != value:
                raise RunFailed(
                    f"{name} = {value} was asked for, in effect is {found.get(name)}",
                    why=f"read back from {self.plan.filesystem}",
                    fix="ask for what is in effect, or leave the option out",
                )

    def run(self, argv: Sequence[str]) -> Completed:
        """One tool, in the language that its output is read in; RunFailed."""
        return self.host.run(
            argv, resources=self.resources, timeout_s=TOOL_LIMIT_S, env={"LC_ALL": "C"}
        )


def undo_entries(entries: list[Entry]) -> None:
    """Undo all, newest first; the first error is raised after all have been tried."""
    first: BaseException | None = None
    for entry in reversed(entries):
        try:
            entry.undo()
        except Exception as error:
            first = first or error
    if first is not None:
        raise first


def _make_file(path: Path, size_bytes: int, allocate: Allocation) -> None:
    """A loop file of this size, its blocks as asked for; RunFailed when space runs out."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    what = f"cannot make a loop file of {size_bytes} bytes in {path.parent}"
    with system_errors(what, "make room there, or ask for a smaller size", RunFailed):
        descriptor = os.open(path, flags, 0o600)
        try:
            os.ftruncate(descriptor, size_bytes)
            if allocate != "sparse":
                os.posix_fallocate(descriptor, 0, size_bytes)
            if allocate == "written":
                for offset in range(0, size_bytes, len(ZEROS)):
                    _write_all(descriptor, offset, min(len(ZEROS), size_bytes - offset))
                os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_all(descriptor: int, offset: int, length: int) -> None:
    while length > 0:
        written = os.pwrite(descriptor, ZEROS[:length], offset)
        offset, length = offset + written, length - written


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
