"""A folder on a file system that this machine has: the simplest place for data.

A folder `nfslab-<token>-<name>` is made in `path` for each run and removed after it.
Nothing else in `path` is touched. An NFS mount may be used as well, but `path` is the
kind for that: it can insist on the file system and on its mount options.
"""

from __future__ import annotations

from nfslab.targets.base import FolderParameters, FolderTarget


class LocalParameters(FolderParameters):
    """Where the folder is made."""

    path: str = "/var/tmp"
    """An existing folder; "~" is the home of the user who runs nfslab."""


class LocalTarget(FolderTarget):
    """A folder of our own in an existing one."""

    kind = "local"
    summary = "a folder on a file system of this machine"
    Parameters = LocalParameters
    parameters: LocalParameters
