"""Collectors by name: one line each, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.collectors.base import Collector

COLLECTORS: dict[str, str] = {
    "capture": "nfslab.collectors.capture:CaptureCollector",
    "fsync": "nfslab.collectors.syscalls:FsyncCollector",
    "nfs_server": "nfslab.collectors.nfs_server:NfsServerCollector",
    "postgres": "nfslab.collectors.postgres:PostgresCollector",
    "profile": "nfslab.collectors.profile:ProfileCollector",
    "rpc": "nfslab.collectors.rpc:RpcCollector",
    "syscalls": "nfslab.collectors.syscalls:SyscallsCollector",
    "system": "nfslab.collectors.system:SystemCollector",
}


def collector_class(kind: str) -> type[Collector]:
    """The class of a collector; `UsageError` names the nearest known one."""
    found: type[Collector] = load_plugin(COLLECTORS, kind, what="collector")
    return found
