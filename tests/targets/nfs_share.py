"""A target on NFS in a scratch folder, as tests make one."""

from __future__ import annotations

from collections.abc import Callable

from nfslab.context import Services
from nfslab.mounts.none import NfsExport
from nfslab.targets.base import Place
from nfslab.targets.nfs import NfsTarget

MakeNfs = Callable[..., NfsTarget]


def export_of(target: NfsTarget, place: Place) -> NfsExport:
    """Of a target that is not mounted."""
    services = Services()
    target.offer(place, services)
    return services.nfs_exports[target.name]
