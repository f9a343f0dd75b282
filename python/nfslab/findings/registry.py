"""Causes by name: one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.findings.base import ranked
from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.alone import Alone
    from nfslab.findings.base import Cause, Finding
    from nfslab.findings.confirm import Intervention, Slope
    from nfslab.report.model import Analysis

FINDINGS: dict[str, str] = {
    "attribute_cache": "nfslab.findings.attribute_cache:AttributeCache",
    "autovacuum": "nfslab.findings.autovacuum:Autovacuum",
    "bandwidth": "nfslab.findings.bandwidth:Bandwidth",
    "checkpoint": "nfslab.findings.checkpoint:Checkpoint",
    "client_cpu": "nfslab.findings.client_cpu:ClientCpu",
    "client_memory": "nfslab.findings.client_memory:ClientMemory",
    "cold_data": "nfslab.findings.cold_data:ColdData",
    "cold_start": "nfslab.findings.cold_start:ColdStart",
    "commit_slow": "nfslab.findings.commit_slow:CommitSlow",
    "connection_ceiling": "nfslab.findings.connection_ceiling:ConnectionCeiling",
    "data_reads": "nfslab.findings.data_reads:DataReads",
    "database_locks": "nfslab.findings.database_locks:DatabaseLocks",
    "documents": "nfslab.findings.documents:Documents",
    "durability": "nfslab.findings.durability:Durability",
    "filling_cache": "nfslab.findings.filling_cache:FillingCache",
    "full_page_writes": "nfslab.findings.full_page_writes:FullPageWrites",
    "generator": "nfslab.findings.generator:Generator",
    "log_sync": "nfslab.findings.log_sync:LogSync",
    "loss": "nfslab.findings.loss:Loss",
    "noisy_neighbour": "nfslab.findings.noisy_neighbour:NoisyNeighbour",
    "nvram_full": "nfslab.findings.nvram_full:NvramFull",
    "periodic_job": "nfslab.findings.periodic_job:PeriodicJob",
    "row_locks": "nfslab.findings.row_locks:RowLocks",
    "run_queue": "nfslab.findings.run_queue:RunQueue",
    "serial_writes": "nfslab.findings.serial_writes:SerialWrites",
    "server_cpu": "nfslab.findings.server_cpu:ServerCpu",
    "server_disk": "nfslab.findings.server_disk:ServerDisk",
    "server_stall": "nfslab.findings.server_stall:ServerStall",
    "server_threads": "nfslab.findings.server_threads:ServerThreads",
    "shared_device": "nfslab.findings.shared_device:SharedDevice",
    "slots": "nfslab.findings.slots:Slots",
    "small_transfers": "nfslab.findings.small_transfers:SmallTransfers",
    "swapping": "nfslab.findings.swapping:Swapping",
    "web_server_cpu": "nfslab.findings.web_server_cpu:WebServerCpu",
    "wire_latency": "nfslab.findings.wire_latency:WireLatency",
}


def findings_of(pair: Compared) -> list[Finding]:
    """What is found of two points, by the size of the effect."""
    causes = [_cause(name) for name in FINDINGS]
    return ranked([one for one in (cause.judge(pair) for cause in causes) if one is not None])


def findings_alone(point: Alone) -> list[Finding]:
    """What is found of a point without a base, by the size of the effect."""
    causes = [_cause(name) for name in FINDINGS]
    return ranked([one for one in (cause.alone(point) for cause in causes) if one is not None])


def intervention_of(name: str, pair: Compared, analysis: Analysis) -> Intervention | Slope | None:
    """What would take that cause's effect away; None: nothing that a file can say."""
    return _cause(name).intervention(pair, analysis)


def _cause(name: str) -> Cause:
    made: Cause = load_plugin(FINDINGS, name, what="finding")()
    return made
