"""Anything that somebody has mounted already: NFS, a cluster file system, a disk.

The target mounts nothing and unmounts nothing; it makes a folder of its own below `path`
for each run. What it adds to a local folder is insistence: `expect_filesystem` and
`expect_options` are compared, before the first run and in every run, with what the kernel
says is in effect. A difference makes the run invalid and names both sides, because a
figure that belongs to other options than those in the report is worse than none.

Whether an NFS server's export is `async` cannot be seen from a client. Who knows it says
so with `server_durability`; the report then tells that a person stated it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability
from nfslab.machine.mounts import Mount, mount_by_name, mount_of
from nfslab.results.records import Level
from nfslab.storage.mount_options import differences, nfs_facts
from nfslab.targets.base import FolderParameters, FolderTarget, Place


class PathParameters(FolderParameters):
    """Where it is (a mount point, or a folder below it), and what has to be true of it."""

    expect_filesystem: str | None = None
    """Type that has to be mounted there as the kernel names it: "nfs4", "nfs" (3), "ext4"."""
    expect_options: list[str] = Field(default_factory=list)
    """Mount options that have to be in effect: ["vers=4.2", "rsize=1048576", "hard"]."""
    server_durability: Literal["stable", "volatile"] | None = None
    """Does the server keep what it confirmed (`sync` export) or not (`async`)?"""


class PathTarget(FolderTarget):
    """A folder of our own on what is already mounted."""

    kind = "path"
    summary = "anything already mounted, NFS included, with its options verified"
    Parameters = PathParameters
    parameters: PathParameters

    @property
    def stated_durability(self) -> Level | None:
        """As given."""
        return self.parameters.server_durability

    def check(self) -> Availability:
        """The folder is usable, and what is mounted there is what was expected."""
        usable = super().check()
        if not usable.ok:
            return usable
        mount = mount_of(self.parent)
        if mount.mount_point == Path("/"):
            # A mount that went away leaves its folder behind, on the root file system.
            return Availability(
                False,
                f"nothing is mounted at {self.parent} or above it (only / is)",
                'mount it; a folder of the root file system is a target of kind "local"',
            )
        if found := self._differences(mount):
            return Availability(
                False,
                f"{mount.mount_point} ({mount.source}) is not mounted as expected: "
                + "; ".join(found),
                "mount it with these options, or correct expect_filesystem and expect_options "
                f"(in effect: {mount.filesystem} {mount.options})",
            )
        return usable

    def down(self, place: Place) -> None:
        """Remove the folder; RunFailed when its mount has changed under the run."""
        now = mount_by_name(self.parent)
        if (now.mount_point, now.source) != (place.mount_point, place.source):
            raise RunFailed(
                f"target {self.name!r}: {place.mount_point} was remounted during the run",
                why=f"it was {place.source}, now {now.source} is at {now.mount_point}",
                fix=f"mount {place.source} again, and remove {place.path} there",
            )
        super().down(place)

    def _differences(self, mount: Mount) -> list[str]:
        wanted = self.parameters.expect_filesystem
        found = []
        if wanted is not None and wanted != mount.filesystem:
            found.append(f"expected {wanted}, mounted is {mount.filesystem}")
        transports = nfs_facts(mount).get("transports")
        return found + differences(self.parameters.expect_options, mount, transports=transports)
