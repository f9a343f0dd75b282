"""Kinds of evidence and collectors by name: one line each, imported when first used.

`EVIDENCE` is in the order in which reports show them. A kind that no collector of its own feeds
(the parts of a call, an offered load) has a line here only; a collector's tables may feed several
kinds, and two collectors one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.evidence.base import EvidenceKind
    from nfslab.evidence.collector import Collector

EVIDENCE: dict[str, str] = {}

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


def evidence_kind(name: str) -> EvidenceKind[Any]:
    """A kind of evidence; `UsageError` names the nearest known one."""
    made: EvidenceKind[Any] = load_plugin(EVIDENCE, name, what="kind of evidence")()
    return made


def evidence_kinds() -> list[EvidenceKind[Any]]:
    """All of them, in the order of reports."""
    return [evidence_kind(name) for name in EVIDENCE]


def collector_class(kind: str) -> type[Collector]:
    """The class of a collector; `UsageError` names the nearest known one."""
    found: type[Collector] = load_plugin(COLLECTORS, kind, what="collector")
    return found
