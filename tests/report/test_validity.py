"""What a report warns of: the collectors' own work, points with two modes."""

from __future__ import annotations

import json
from pathlib import Path

from nfslab.report.analysis import analyse
from nfslab.report.html.tables import cost_text
from nfslab.report.validity import collector_warnings
from nfslab.results.checksums import write_checksums
from nfslab.results.records import EvidenceRecord, RunRecord

from tests.report.synthetic import Recipe, write_pgbench


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
    assert "1 of 3" in text


def test_a_collector_that_gave_nothing_never_reads_worked(tmp_path: Path) -> None:
    """Folders made before had such runs as "ok", without a table and with what was in the way."""
    folder = write_pgbench(tmp_path, Recipe(clients=(1,), repetitions=2))
    for run in folder.runs_path.iterdir():
        record = json.loads((run / "run.json").read_bytes())
        summary = {"way": "shim", "incomplete": "no process loaded the library"}
        record["evidence"].append({"collector": "fsync", "status": "ok", "summary": summary})
        (run / "run.json").write_text(json.dumps(record))
        write_checksums(run)
    analysis = analyse(folder.path)
    assert (analysis.collectors["fsync"]["ok"], analysis.collectors["fsync"]["failed"]) == (0, 4)
    said = {name: cost_text(facts) for name, facts in analysis.collectors.items()}
    assert said["fsync"] == "failed in 4 runs; no process loaded the library"
    assert "worked in 4 runs" in said["system"]


def test_the_runs_of_each_mode_are_named(tmp_path: Path) -> None:
    recipe = Recipe(
        clients=(4,), repetitions=6, spread=0.01, block_spread=0.0,
        samples=False, evidence=False
    )  # fmt: skip
    folder = write_pgbench(tmp_path, recipe)
    assert not [w for w in analyse(folder.path).warnings if w.kind == "two_modes"]
    fast = []
    for run in sorted(folder.runs_path.iterdir()):
        record = json.loads((run / "run.json").read_bytes())
        if record["factors"]["placement"] == "together" and record["block"] % 2:
            record["metrics"]["tps"]["value"] *= 1.3
            (run / "run.json").write_text(json.dumps(record))
            write_checksums(run)
            fast.append(run.name)
    (found,) = [w for w in analyse(folder.path).warnings if w.kind == "two_modes"]
    assert len(found.runs) == 6
    assert f"({', '.join(fast)})" in found.text
