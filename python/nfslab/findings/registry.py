"""Causes by name: one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.findings.base import ranked
from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from nfslab.evidence.anatomy.differences import Compared
    from nfslab.findings.base import Cause, Finding
    from nfslab.findings.confirm import Lever
    from nfslab.report.model import Analysis

FINDINGS: dict[str, str] = {
    "data_reads": "nfslab.findings.data_reads:DataReads",
    "database_locks": "nfslab.findings.database_locks:DatabaseLocks",
    "log_sync": "nfslab.findings.log_sync:LogSync",
    "row_locks": "nfslab.findings.row_locks:RowLocks",
    "run_queue": "nfslab.findings.run_queue:RunQueue",
}


def findings_of(pair: Compared) -> list[Finding]:
    """What is found of two points, by the size of the effect."""
    causes = [_cause(name) for name in FINDINGS]
    return ranked([one for one in (cause.judge(pair) for cause in causes) if one is not None])


def lever_of(name: str, pair: Compared, analysis: Analysis) -> Lever | None:
    """What would take that cause's effect away; None: nothing that a file can say."""
    return _cause(name).lever(pair, analysis)


def _cause(name: str) -> Cause:
    made: Cause = load_plugin(FINDINGS, name, what="finding")()
    return made
