"""What a report says of the collectors' own work."""

from __future__ import annotations

from nfslab.report.validity import collector_warnings
from nfslab.results.records import EvidenceRecord, RunRecord


def ran(number: int, status: str) -> RunRecord:
    reason = "no NFS here" if status != "ok" else ""
    entry = EvidenceRecord.model_validate({"collector": "rpc", "status": status, "reason": reason})
    return RunRecord(
        run_id=f"b{number:03}", experiment="x", identity="x", point_id="p", point_index=0,
        block=number, position=number, factors={}, settings={}, parameters={}, status="ok",
        started_unix_ns=0, duration_ns=0, evidence=[entry],
    )  # fmt: skip


def told(*statuses: str) -> list[tuple[str, str]]:
    found = collector_warnings([ran(number, status) for number, status in enumerate(statuses)])
    return [(warning.severity, warning.text) for warning in found]


def test_a_collector_with_nothing_to_watch_is_no_fault() -> None:
    assert told("ok", "moot") == []
    nothing = "collector rpc had nothing to watch in any run: no NFS here"
    assert told("moot", "moot") == [("note", nothing)]
    ((severity, text),) = told("ok", "moot", "failed")
    assert severity == "warning"
    assert "did not work in 1 of 3 runs" in text
