"""`nfslab quickstart`: from nothing to a report, on the PostgreSQL of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from nfslab.shipped import experiment_files
from nfslab.workloads.registry import workload_class

from tests.cli.invocation import nfslab


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_one_repetition_ends_with_a_report(tmp_path: Path) -> None:
    answer = workload_class("pgbench").available()
    if not answer.ok:
        pytest.skip(f"no PostgreSQL here: {answer.reason}")
    done = subprocess.run(
        [sys.executable, "-m", "nfslab", "quickstart", "--repetitions", "1", "--no-open"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"NFSLAB_STATE": str(tmp_path / "state")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    report = folder / "report.html"
    assert f"report: {report.resolve()}" in done.stdout
    assert "<html" in report.read_text()[:2000]
    record = json.loads((folder / "experiment.json").read_text())
    runs = [json.loads(p.read_text()) for p in folder.glob("runs/*/run.json")]
    assert len(runs) == len(record["points"])
    # Without FUSE or a large memory file system points are left out, and the record says so.
    assert len(runs) + len(record["skipped"]) == 10
    for run in runs:
        assert run["metrics"]["tps"]["value"] > 0
        assert {check["name"] for check in run["checks"]} >= {
            "tpcb_invariant",
            "littles_law",
            "latency_floor",
            "steady_state",
            "clock_steps",
            "competing_load",
        }
        levels = {role: place["durability"]["level"] for role, place in run["places"].items()}
        if "memory" in run["factors"]["placement"]:
            assert "volatile" in levels.values()
        evidence = {one["collector"]: one for one in run["evidence"]}
        mounted = "NFS" in run["factors"]["placement"]
        assert evidence["rpc"]["status"] == ("ok" if mounted else "moot")
        if mounted:
            counters = evidence["rpc"]["summary"]["clients"]["nfs"]["counters"]
            assert counters["answered"] > 0
            assert counters["failed"] == 0
        assert run["durability"]["level"] == min(
            levels.values(), key=["volatile", "unknown", "stable"].index
        )
    assert list((tmp_path / "state" / "journals").glob("*.jsonl")) == []


def test_it_runs_the_experiment_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    text = experiment_files()["quickstart"].read_text()
    assert 'kind = "pgbench"' in text
    said = nfslab(capsys, "quickstart", "--help")
    assert (said.code, "nfslab quickstart" in said.out) == (0, True)
