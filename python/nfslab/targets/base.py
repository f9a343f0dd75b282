"""What every target (a place that data can live on) has to be able to do.

A target is made from its section of the experiment file, brought *up* before a run and
taken *down* after it. Coming up yields a `Place`: an empty directory of its own for this
run, with the options in effect and the durability read back from the kernel (what was
asked for is no evidence). Everything it makes outside its directory (a mount, a loop
device) is entered into the run's `Resources` *before* it is made, so that a kill at any
instant leaves nothing that the next start does not find.

A new target is one file in this folder, one line in `registry.py`, one test file.
"""

from __future__ import annotations

import errno
import os
import shlex
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.machine.mounts import answers, backing_file, block_devices_of, mount_of
from nfslab.machine.users import reachable_by
from nfslab.quantities import Size, format_size
from nfslab.results.records import DurabilityRecord, Level, PlaceRecord
from nfslab.storage.durability import durability_of
from nfslab.storage.mount_options import nfs_facts
from nfslab.storage.space import free_bytes_of

if TYPE_CHECKING:
    from nfslab.context import Services
    from nfslab.hosts.base import Host, Hosts
    from nfslab.machine.resources import Entry, Resources


SPACE_ELSEWHERE = "space_elsewhere"
"""Fact of a place: the data goes elsewhere than into its folder, whose space says nothing."""


class TargetParameters(BaseModel):
    """Base of a target's parameters: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(slots=True)
class Place:
    """A target that is up: an empty directory for one run, and what is known of it."""

    target: str
    kind: str
    path: Path
    """The run's own empty directory, writable by `owner` when one was given."""
    filesystem: str
    source: str
    mount_point: Path
    mount_options: str
    devices: list[str]
    durability: DurabilityRecord
    facts: dict[str, Any] = field(default_factory=dict)

    def record(self) -> PlaceRecord:
        """The same for the run's record."""
        paths = {"path": str(self.path), "mount_point": str(self.mount_point)}
        return PlaceRecord(**asdict(self) | paths)


class Target(ABC):
    """A place that data can live on."""

    kind: ClassVar[str]
    summary: ClassVar[str]
    """One line for `nfslab doctor` and the documentation."""
    Parameters: ClassVar[type[TargetParameters]]
    fill_bytes_per_s: ClassVar[float] = 1e9
    """Roughly, how fast a run's data get there, for the plan's time."""

    def __init__(self, name: str, parameters: TargetParameters) -> None:
        self.name = name
        self.parameters = parameters

    @classmethod
    @abstractmethod
    def available(cls) -> Availability:
        """Can targets of this kind be made on this machine by this user at all?"""

    def check(self) -> Availability:
        """Can *this* target be made, with its parameters? Called before the first run."""
        return self.available()

    def sound(self) -> Availability:
        """Could it be under any kernel: are its programs there, do its parameters make sense?"""
        return Availability(True)

    def needs(self) -> tuple[str, ...]:
        """What not every machine has, for `nfslab list --shipped`."""
        return ()

    def require(self) -> None:
        """`check`, where going on makes no sense without; RunFailed."""
        usable = self.check()
        if not usable.ok:
            raise RunFailed(f"target {self.name!r}: {usable.reason}", fix=usable.fix)

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Space that a run can use, for the plan's estimate; None when not known yet."""

    @abstractmethod
    def up(self, resources: Resources, hosts: Hosts, *, owner: int | None = None) -> Place:
        """Make it ready: an empty directory of its own for one run, on `hosts.files`.

        What it starts to serve that directory runs on `hosts.servers`. `owner` is the user id
        that has to be able to write there (a database server that does not run as root).
        Raises `RunFailed` or `Unavailable`.
        """

    def offer(self, place: Place, services: Services) -> None:
        """Add what workload and collectors may use while the place is up."""
        return

    def is_export(self) -> bool:
        """Is it an NFS export that is not mounted, for a workload that speaks NFS itself?"""
        return False

    def for_others(self) -> bool:
        """It is to serve other hosts, which use its files; called before `up`.

        False: nothing is up here; each of them makes its own of the same parameters.
        """
        return False

    def endpoint(self, place: Place) -> dict[str, Any]:
        """What those others need to use what is up here, as JSON: for their `connect_to`."""
        return {}

    def connect_to(self, endpoint: dict[str, Any]) -> None:
        """What `endpoint` said where it is up; called before `up`, which makes the rest of it."""
        return

    @abstractmethod
    def down(self, place: Place) -> None:
        """Remove what `up` made. Must work on a place that has failed half way."""


def describe(
    target: Target, path: Path, *, stated: Level | None = None, facts: dict[str, Any] | None = None
) -> Place:
    """The place at `path`, with everything that the kernel says of it read back now."""
    mount = mount_of(path)
    devices = block_devices_of(mount)
    space = os.statvfs(path)
    known: dict[str, Any] = {
        "size_bytes": space.f_blocks * space.f_frsize,
        "free_bytes": space.f_bavail * space.f_frsize,
        "block_size_bytes": space.f_bsize,
    }
    if nfs := nfs_facts(mount):
        known["nfs"] = nfs
    files = {name: str(file) for name in devices if (file := backing_file(name)) is not None}
    if files:
        known["backing_files"] = files
    return Place(
        target=target.name,
        kind=target.kind,
        path=path,
        filesystem=mount.filesystem,
        source=mount.source,
        mount_point=mount.mount_point,
        mount_options=mount.options,
        devices=devices,
        durability=durability_of(mount, devices, stated=stated),
        facts=known | (facts or {}),
    )


class FolderParameters(TargetParameters):
    """Where a folder of our own is made."""

    path: str
    """An existing folder; "~" is the home of the user who runs nfslab."""
    minimum_free: Size = 0
    """Refuse to run when less space than this is free."""


class FolderTarget(Target):
    """A target that is a folder of our own inside a folder that exists already."""

    parameters: FolderParameters

    @classmethod
    def available(cls) -> Availability:
        """Always: every machine has folders, and what is mounted is the user's business."""
        return Availability(True)

    def __init__(self, name: str, parameters: TargetParameters) -> None:
        super().__init__(name, parameters)
        self._entries: dict[Path, Entry] = {}

    @property
    def parent(self) -> Path:
        """The folder that exists."""
        return Path(self.parameters.path).expanduser().absolute()

    @property
    def stated_durability(self) -> Level | None:
        """What the user says of a server that cannot be seen from here."""
        return None

    def check(self) -> Availability:
        """Is the folder there, writable, large enough?"""
        return usable_folder(self.parent, self.parameters.minimum_free)

    def free_bytes(self) -> int | None:
        """Space for an unprivileged user in the folder; None when it cannot be asked."""
        return free_bytes_of(self.parent)

    def up(self, resources: Resources, hosts: Hosts, *, owner: int | None = None) -> Place:
        """A folder `nfslab-<token>-<target>` of our own; RunFailed."""
        self.require()
        require_our_files(self, hosts.files)
        entry = own_folder(self, self.parent, resources, owner)
        try:
            place = describe(self, entry.path, stated=self.stated_durability)
        except BaseException:
            entry.undo()
            raise
        self._entries[place.path] = entry
        return place

    def down(self, place: Place) -> None:
        """Remove the folder with all in it."""
        if (entry := self._entries.pop(place.path, None)) is not None:
            entry.undo()


def require_our_files(target: Target, host: Host) -> None:
    """RunFailed where the host would not see a folder or mount of this machine."""
    if not host.has_our_files:
        raise RunFailed(
            f"target {target.name!r} is on this machine, its files are used on {host.name}",
            fix="use a target that the host mounts itself, or another client.host",
        )


def usable_folder(folder: Path, minimum_free_bytes: int = 0) -> Availability:
    """Can this user make a folder in there? If not: why, and what to do."""
    if not answers(folder):
        return Availability(
            False,
            f"the server of {folder} does not answer",
            "bring the server back, or unmount it (umount -f)",
        )
    named = shlex.quote(str(folder))
    if not folder.exists():
        blocked = reachable_by(folder.parent, os.geteuid())
        reason = "" if blocked.ok else f" ({blocked.reason})"
        return Availability(False, f"{folder} does not exist{reason}", f"mkdir -p {named}")
    if not folder.is_dir():
        return Availability(False, f"{folder} is not a folder", "name a folder as `path`")
    mount = mount_of(folder)
    if mount.read_only:
        return Availability(
            False,
            f"{folder} is read-only: {mount.filesystem} is mounted so at {mount.mount_point}",
            f"mount -o remount,rw {shlex.quote(str(mount.mount_point))}, or choose another path",
        )
    # Root is asked nothing here: an NFS server may squash it, and `up` then tells.
    if os.geteuid() != 0 and not os.access(folder, os.W_OK | os.X_OK):
        return Availability(
            False, f"{folder} is not writable for this user", f"chown it, or chmod u+w {named}"
        )
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    if free < minimum_free_bytes:
        return Availability(
            False,
            f"{folder} has {format_size(free)} free, {format_size(minimum_free_bytes)} are needed",
            "make room there, choose another path, or ask for less",
        )
    return Availability(True)


def own_folder(target: Target, parent: Path, resources: Resources, owner: int | None) -> Entry:
    """Make the target's folder in `parent` for `owner`, journalled; RunFailed."""
    if owner is not None and not (reachable := reachable_by(parent, owner)).ok:
        raise RunFailed(f"target {target.name!r}: {reachable.reason}", fix=reachable.fix)
    name = f"{resources.name}-{target.name}"
    number = 1
    while os.path.lexists(path := parent / (name if number == 1 else f"{name}-{number}")):
        number += 1
    try:
        return resources.make_directory(path, owner=owner)
    except OSError as error:
        raise RunFailed(
            f"target {target.name!r}: cannot make a folder in {parent}",
            why=error.strerror or str(error),
            fix=_FIXES.get(error.errno or 0, "choose another path"),
        ) from error


_FIXES = {
    errno.ENOSPC: "make room there (inodes as well: df -i), or choose another path",
    errno.EDQUOT: "the user's quota is used up: make room, or choose another path",
    errno.EROFS: "mount it read-write, or choose another path",
    errno.EACCES: "let the user that runs the workload write there (chown, chmod), or export "
    "with no_root_squash when it is NFS and you are root",
    errno.EPERM: "let the user that runs the workload write there (chown, chmod), or export "
    "with no_root_squash when it is NFS and you are root",
    errno.ESTALE: "the server no longer knows this mount: unmount it and mount it again",
}
