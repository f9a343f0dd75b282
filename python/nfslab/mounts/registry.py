"""Kinds of mounts by name: one line each, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.mounts.base import Mounting

MOUNTS: dict[str, str] = {
    "kernel": "nfslab.mounts.kernel:KernelMount",
    "none": "nfslab.mounts.none:NoMount",
    "user": "nfslab.mounts.fuse:FuseMount",
}


def mount_class(kind: str) -> type[Mounting]:
    """The class of a kind of mount; `UsageError` names the nearest known kind."""
    found: type[Mounting] = load_plugin(MOUNTS, kind, what="client of a target on NFS")
    return found
