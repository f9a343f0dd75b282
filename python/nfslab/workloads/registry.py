"""Workloads by name: one line each, imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.workloads.base import Workload

WORKLOADS: dict[str, str] = {
    "command": "nfslab.workloads.command:CommandWorkload",
    "files": "nfslab.workloads.files:FilesWorkload",
    "sfs": "nfslab.workloads.sfs:SfsWorkload",
    "storage": "nfslab.workloads.storage:StorageWorkload",
    "pgbench": "nfslab.workloads.pgbench.workload:PgbenchWorkload",
    "tpcb": "nfslab.workloads.tpcb.workload:TpcbWorkload",
    "tpcc": "nfslab.workloads.tpcc.workload:TpccWorkload",
    "sql": "nfslab.workloads.sql.workload:SqlWorkload",
    "web": "nfslab.workloads.web.workload:WebWorkload",
}


def workload_class(kind: str) -> type[Workload]:
    """The class of a workload; `UsageError` names the nearest known one."""
    found: type[Workload] = load_plugin(WORKLOADS, kind, what="workload")
    return found
