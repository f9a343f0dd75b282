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

EVIDENCE: dict[str, str] = {
    "hosts": "nfslab.evidence.hosts.kind:HostsEvidence",
    "anatomy": "nfslab.evidence.anatomy.kind:AnatomyEvidence",
    "queries": "nfslab.evidence.queries.kind:QueriesEvidence",
    "statements": "nfslab.evidence.statements.kind:StatementsEvidence",
    "offered_load": "nfslab.evidence.offered_load.kind:OfferedLoadEvidence",
    "web": "nfslab.evidence.web.kind:WebEvidence",
    "scalability": "nfslab.evidence.scalability.kind:ScalabilityEvidence",
    "call_counts": "nfslab.evidence.call_counts.kind:CallCountsEvidence",
    "nfs_server": "nfslab.evidence.nfs_server.kind:NfsServerEvidence",
    "profile": "nfslab.evidence.profile.kind:ProfileEvidence",
    "syscalls": "nfslab.evidence.syscalls.kind:SyscallsEvidence",
    "postgres": "nfslab.evidence.postgres.kind:PostgresEvidence",
    "mariadb": "nfslab.evidence.mariadb.kind:MariadbEvidence",
    "rpc": "nfslab.evidence.rpc.kind:RpcEvidence",
    "mountstats": "nfslab.evidence.mountstats.kind:MountstatsEvidence",
    "nfsd": "nfslab.evidence.nfsd.kind:NfsdEvidence",
    "wire": "nfslab.evidence.wire.kind:WireEvidence",
    "capture": "nfslab.evidence.capture.kind:CaptureEvidence",
    "system": "nfslab.evidence.system.kind:SystemEvidence",
}

COLLECTORS: dict[str, str] = {
    "capture": "nfslab.evidence.capture.collector:CaptureCollector",
    "capture_server": "nfslab.evidence.capture.at_server:ServerCaptureCollector",
    "fsync": "nfslab.evidence.syscalls.collector:FsyncCollector",
    "mariadb": "nfslab.evidence.mariadb.collector:MariadbCollector",
    "mountstats": "nfslab.evidence.mountstats.collector:MountstatsCollector",
    "nfs_server": "nfslab.evidence.nfs_server.collector:NfsServerCollector",
    "nfsd": "nfslab.evidence.nfsd.collector:NfsdCollector",
    "profile": "nfslab.evidence.profile.collector:ProfileCollector",
    "postgres": "nfslab.evidence.postgres.collector:PostgresCollector",
    "rpc": "nfslab.evidence.rpc.collector:RpcCollector",
    "syscalls": "nfslab.evidence.syscalls.collector:SyscallsCollector",
    "system": "nfslab.evidence.system.collector:SystemCollector",
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
