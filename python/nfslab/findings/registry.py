"""Causes by name: one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.findings.base import ranked
from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.base import Cause, Finding
    from nfslab.findings.confirm import Lever, Slope
    from nfslab.report.model import Analysis

FINDINGS: dict[str, str] = {
    "attribute_cache": "nfslab.findings.attribute_cache:AttributeCache",
    "bandwidth": "nfslab.findings.bandwidth:Bandwidth",
    "cold_data": "nfslab.findings.cold_data:ColdData",
    "commit_slow": "nfslab.findings.commit_slow:CommitSlow",
    "data_reads": "nfslab.findings.data_reads:DataReads",
    "database_locks": "nfslab.findings.database_locks:DatabaseLocks",
    "log_sync": "nfslab.findings.log_sync:LogSync",
    "loss": "nfslab.findings.loss:Loss",
    "row_locks": "nfslab.findings.row_locks:RowLocks",
    "run_queue": "nfslab.findings.run_queue:RunQueue",
    "server_cpu": "nfslab.findings.server_cpu:ServerCpu",
    "server_disk": "nfslab.findings.server_disk:ServerDisk",
    "server_stall": "nfslab.findings.server_stall:ServerStall",
    "server_threads": "nfslab.findings.server_threads:ServerThreads",
    "slots": "nfslab.findings.slots:Slots",
    "small_transfers": "nfslab.findings.small_transfers:SmallTransfers",
    "wire_latency": "nfslab.findings.wire_latency:WireLatency",
}


def findings_of(pair: Compared) -> list[Finding]:
    """What is found of two points, by the size of the effect."""
    causes = [_cause(name) for name in FINDINGS]
    return ranked([one for one in (cause.judge(pair) for cause in causes) if one is not None])


def lever_of(name: str, pair: Compared, analysis: Analysis) -> Lever | Slope | None:
    """What would take that cause's effect away; None: nothing that a file can say."""
    return _cause(name).lever(pair, analysis)


def _cause(name: str) -> Cause:
    made: Cause = load_plugin(FINDINGS, name, what="finding")()
    return made
