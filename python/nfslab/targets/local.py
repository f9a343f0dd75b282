"""A folder on a file system that this machine has: the simplest place for data.

A folder `nfslab-<token>-<name>` is made in `path` for each run and removed after it.
Nothing else in `path` is touched. An NFS mount may be used as well, but `path` is the
kind for that: it can insist on the file system and on its mount options.
"""

from __future__ import annotations

from pathlib import Path

from nfslab.machine.availability import Availability
from nfslab.quantities import Size
from nfslab.targets.base import FolderTarget, TargetParameters


class LocalParameters(TargetParameters):
    """Where the folder is made."""

    path: str = "/var/tmp"
    """An existing folder; "~" is the home of the user who runs nfslab."""
    minimum_free: Size = 0
    """Refuse to run when less space than this is free."""


class LocalTarget(FolderTarget):
    """A folder of our own in an existing one."""

    kind = "local"
    summary = "a folder on a file system of this machine"
    Parameters = LocalParameters
    parameters: LocalParameters

    @classmethod
    def available(cls) -> Availability:
        """Always: every machine has folders."""
        return Availability(True)

    @property
    def parent(self) -> Path:
        """The folder in which ours is made."""
        return Path(self.parameters.path).expanduser().absolute()

    @property
    def minimum_free_bytes(self) -> int:
        """As given."""
        return self.parameters.minimum_free
