"""RAID-0 over several devices or loop files, with a chunk size: made anew for each run.

    loop files or given devices  ->  md | dm | btrfs  ->  file system  ->  our own folder

`md` and `dm` take any chunk and carry ext4 or xfs, whose own stripe geometry (stride,
stripe width) can be given as the 2001 study varied it. Where the kernel has neither,
btrfs stripes by itself, in pieces of 64 KiB that are fixed in its format: asking for any
other chunk there is an error, not a silent change.

Everything is journalled before it is made, and undone newest first when the target goes
down (or by the next start after a kill): folder, loop devices, array, mount. A device
that was given is used only if nothing uses it and it carries no signature, or with
`wipe = true`; our own signature is wiped off it afterwards, recognised by its UUID.

What was asked for is read back: chunk and number of devices from the array, direct I/O
from the loop devices, stride and width from the file system. A difference fails the run.

Limits: loop files on one disk share its head and its queue: they show how striping
behaves, not what more disks bring. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.machine.users import primary_group, reachable_by
from nfslab.quantities import Size, format_size
from nfslab.storage import block_layers as layers
from nfslab.storage.block_layers import Backend, FilesystemOptions
from nfslab.storage.striping import StripePlan, Striping, undo_entries
from nfslab.targets.base import (
    Place,
    Target,
    TargetParameters,
    describe,
    own_folder,
    require_our_files,
    usable_folder,
)

if TYPE_CHECKING:
    from nfslab.hosts.base import Hosts
    from nfslab.machine.resources import Entry, Resources

BACKENDS: tuple[Backend, ...] = ("md", "dm", "btrfs")
DEVICES_MAX = 64
MARGIN_BYTES = 64 << 20
"""Space left beside the loop files: the disk below is not to be filled to the brim."""


class StripeParameters(TargetParameters):
    """Devices, how they are joined, and the file system on top."""

    backend: Literal["auto", "md", "dm", "btrfs"] = "auto"
    """What stripes; `auto` takes the first of md, dm, btrfs that this machine has."""
    chunk: Size = 64 << 10
    """Bytes on one device before the next one follows."""
    devices: list[str] = Field(default_factory=list, max_length=DEVICES_MAX)
    """Block devices to use; empty: loop files are made."""
    wipe: bool = False
    """Permission to overwrite given devices that carry a signature (their data is lost)."""
    directory: str = "/var/tmp"
    """Where the loop files and the mount point are made."""
    count: int = Field(default=2, ge=1, le=DEVICES_MAX)
    """Number of loop files."""
    size: Size = 1 << 30
    """Size of each loop file."""
    direct_io: bool = True
    """Loop devices pass the cache of the file system that their files lie on."""
    allocate: Literal["reserved", "written", "sparse"] = "reserved"
    """Blocks of the loop files: reserved (fallocate), written with zeros, or on demand."""
    filesystem: Literal["ext4", "xfs", "btrfs"] | None = None
    """On md and dm: ext4 (default) or xfs; btrfs is its own."""
    block_size: Size | None = None
    """Block size of ext4 or xfs; by default what mkfs chooses."""
    stride: int | None = Field(default=None, ge=0)
    """File system blocks in a chunk, as told to mkfs; by default mkfs's own finding."""
    stripe_width: int | None = Field(default=None, ge=0)
    """File system blocks in a whole stripe, as told to mkfs."""
    mount_options: list[str] = Field(default_factory=list, max_length=32)
    """Mount options, each as for `mount -o`."""

    @model_validator(mode="after")
    def _possible(self) -> StripeParameters:
        """Combinations that cannot be, whatever the machine."""
        sectors, rest = divmod(self.chunk, layers.SECTOR_BYTES)
        if rest or sectors == 0:
            raise ValueError("chunk must be a multiple of 512 bytes")
        if self.backend in ("md", "dm"):
            if self.chunk & (self.chunk - 1) or self.chunk < layers.MD_CHUNK_MINIMUM_BYTES:
                raise ValueError("chunk must be a power of two of at least 4k for md and dm")
            if self.filesystem == "btrfs":
                raise ValueError(f"btrfs stripes by itself: leave backend = {self.backend!r} out")
        if self.backend == "btrfs":
            if self.filesystem in ("ext4", "xfs"):
                raise ValueError(f"backend btrfs cannot carry {self.filesystem}: use md or dm")
            if self.chunk != layers.BTRFS_STRIPE_BYTES:
                raise ValueError(f"chunk {format_size(self.chunk)}: {FIXED}")
        btrfs = self.backend == "btrfs" or self.filesystem == "btrfs"
        if btrfs and (self.block_size, self.stride, self.stripe_width) != (None, None, None):
            raise ValueError("block_size, stride and stripe_width are for ext4 and xfs")
        if self.stripe_width is not None and not self.stride:
            raise ValueError("stripe_width needs stride beside it")
        if self.stripe_width is not None and self.stride and self.stripe_width % self.stride:
            raise ValueError("stripe_width must be a multiple of stride")
        if any("," in o or any(c.isspace() for c in o) or not o for o in self.mount_options):
            raise ValueError("mount_options: one option an entry, without commas and blanks")
        return self


FIXED = (
    "btrfs stripes in pieces of 64 KiB, fixed in its format; "
    'use chunk = "64k" with it, or a kernel with md or dm'
)


class StripeTarget(Target):
    """RAID-0 made for one run and taken apart after it."""

    kind = "stripe"
    summary = "RAID-0 over devices or loop files: md, dm or btrfs, with a chunk size"
    Parameters = StripeParameters
    parameters: StripeParameters

    def __init__(self, name: str, parameters: TargetParameters) -> None:
        super().__init__(name, parameters)
        self._entries: dict[Path, list[Entry]] = {}

    def needs(self) -> tuple[str, ...]:
        """What `available` asks for."""
        return ("root", "md, dm or btrfs")

    @classmethod
    def available(cls) -> Availability:
        """Root, and one of the three that can stripe."""
        if os.geteuid() != 0:
            return Availability(False, "only root can make devices and mounts", "run as root")
        obstacles = [layers.backend_obstacle(backend) for backend in BACKENDS]
        if all(reason for reason, _ in obstacles):
            reasons = "; ".join(reason for reason, _ in obstacles)
            return Availability(False, reasons, obstacles[-1][1])
        return cls._programs()

    def sound(self) -> Availability:
        """Programs for loop devices and mounts."""
        return self._programs()

    @classmethod
    def _programs(cls) -> Availability:
        missing = [name for name in ("losetup", "mount", "umount") if shutil.which(name) is None]
        if missing:
            reason = f"not installed: {', '.join(missing)}"
            return Availability(False, reason, "apt install mount")
        return Availability(True)

    def check(self) -> Availability:
        """Backend, file system, programs, space, and the given devices."""
        usable = self.available()
        if not usable.ok:
            return usable
        backend = self._backend()
        if isinstance(backend, Availability):
            return backend
        filesystem = self._filesystem(backend)
        if not layers.kernel_has_filesystem(filesystem):
            return Availability(
                False, f"this kernel cannot mount {filesystem}", "choose another filesystem"
            )
        package = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs"}[filesystem]
        if shutil.which(f"mkfs.{filesystem}") is None:
            return Availability(
                False, f"the program mkfs.{filesystem} is missing", f"apt install {package}"
            )
        if self.parameters.devices:
            return self._devices_usable()
        if not Path("/dev/loop-control").exists() and not layers.kernel_has("loop"):
            return Availability(False, "this kernel has no loop devices", "name `devices`")
        return usable_folder(self._directory, self._loop_bytes() + MARGIN_BYTES)

    def free_bytes(self) -> int | None:
        """Raw size of the stripe (its file system takes a few per cent); None if unknown."""
        if not self.parameters.devices:
            return self._loop_bytes()
        sizes = [layers.device_size_bytes(device) for device in self.parameters.devices]
        known = [size for size in sizes if size is not None]
        return min(known) * len(sizes) if len(known) == len(sizes) else None

    def up(self, resources: Resources, hosts: Hosts, *, owner: int | None = None) -> Place:
        """Make the stripe, mount it, make an empty folder on it; RunFailed, Unavailable."""
        self.require()
        require_our_files(self, hosts.files)
        striping = Striping(self._plan(), resources, hosts.files)
        try:
            place = self._made(striping, owner)
        except BaseException:
            # What cannot be undone now stays in the journal; the first error matters.
            with contextlib.suppress(Exception):
                undo_entries(striping.entries)
            raise
        self._entries[place.path] = striping.entries
        return place

    def down(self, place: Place) -> None:
        """Unmount, take the array apart, detach and remove the loop files."""
        undo_entries(self._entries.pop(place.path, []))

    def _plan(self) -> StripePlan:
        """The plan for this machine; `check` has found it possible."""
        wanted, backend = self.parameters, self._backend()
        if isinstance(backend, Availability):
            raise RunFailed(f"target {self.name!r}: {backend.reason}", fix=backend.fix)
        options = FilesystemOptions(wanted.block_size, wanted.stride, wanted.stripe_width)
        return StripePlan(
            backend,
            self._filesystem(backend),
            wanted.chunk,
            options,
            tuple(wanted.mount_options),
        )

    def _made(self, striping: Striping, owner: int | None) -> Place:
        """All steps up to the empty folder, its parameters read back."""
        wanted = self.parameters
        if owner is not None and not (reach := reachable_by(self._directory, owner)).ok:
            raise RunFailed(f"target {self.name!r}: {reach.reason}", fix=reach.fix)
        base = own_folder(self, self._directory, striping.resources, None)
        striping.entries.append(base)
        if wanted.devices:
            devices = striping.claim_devices(wanted.devices, wipe=wanted.wipe)
        else:
            devices = striping.make_loops(
                base.path,
                wanted.count,
                wanted.size,
                direct_io=wanted.direct_io,
                allocate=wanted.allocate,
            )
        node = striping.join(devices)
        striping.make_filesystem(node, devices)
        point = base.path / "mounted"
        point.mkdir()
        striping.mount(node, devices, point)
        striping.read_back(point)
        # The way in: others may pass, not look (the loop files are root's alone).
        base.path.chmod(0o711)
        point.chmod(0o711)
        folder = point / "data"
        folder.mkdir(0o700)
        if owner is not None:
            os.chown(folder, owner, primary_group(owner))
        return describe(self, folder, facts=striping.facts)

    @property
    def _directory(self) -> Path:
        return Path(self.parameters.directory).expanduser().absolute()

    def _loop_bytes(self) -> int:
        return self.parameters.count * self.parameters.size

    def _backend(self) -> Backend | Availability:
        """The backend to use, or why there is none."""
        wanted = self.parameters
        if wanted.backend != "auto":
            reason, fix = layers.backend_obstacle(wanted.backend)
            return (
                Availability(False, f"backend {wanted.backend}: {reason}", fix)
                if reason
                else (wanted.backend)
            )
        if wanted.filesystem != "btrfs":
            for backend in ("md", "dm"):
                if not layers.backend_obstacle(backend)[0]:
                    return backend
        reason, fix = layers.backend_obstacle("btrfs")
        if reason:
            return Availability(False, reason, fix)
        if wanted.filesystem in ("ext4", "xfs"):
            return Availability(
                False,
                f"{wanted.filesystem} needs md or dm below it, and this machine has neither",
                "leave `filesystem` out (btrfs is then used), or use a kernel with md or dm",
            )
        if wanted.chunk != layers.BTRFS_STRIPE_BYTES:
            reason = f"chunk {format_size(wanted.chunk)} is not possible here: no md, no dm"
            return Availability(False, reason, FIXED)
        if (wanted.block_size, wanted.stride, wanted.stripe_width) != (None, None, None):
            return Availability(
                False, "only btrfs is here, which has no stride", "leave these parameters out"
            )
        return "btrfs"

    def _filesystem(self, backend: Backend) -> str:
        return "btrfs" if backend == "btrfs" else self.parameters.filesystem or "ext4"

    def _devices_usable(self) -> Availability:
        """Are the given devices there, unused, and empty (or may be wiped)?"""
        seen: set[str] = set()
        for device in self.parameters.devices:
            real = os.path.realpath(device)
            if not Path(real).is_block_device():
                return Availability(False, f"{device} is no block device", "lsblk lists them")
            if real in seen:
                return Availability(False, f"{device} is named twice", "name it once")
            seen.add(real)
            try:
                # The kernel grants this only when nothing uses the device.
                os.close(os.open(real, os.O_RDWR | os.O_EXCL | os.O_CLOEXEC))
            except OSError as error:
                return Availability(
                    False,
                    f"{device} cannot be used: {error.strerror}",
                    "unmount it, or take it out of the array that uses it",
                )
        return Availability(True)
