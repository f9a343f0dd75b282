"""Where each call's time went, in a run with a cause planted in the embedded server.

Which part is how long is asked of planted records (tests/results/test_call_parts.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.evidence.nfs_server.breakdown import PARTS
from nfslab.targets.nfs import NfsTarget

from tests.cli.invocation import nfslab
from tests.workloads.run_context import scratch_folder

PLANTED_MS = 20
PLANTED_NS = PLANTED_MS * 1_000_000
EXPERIMENT = """
[experiment]
name = "parts"
repetitions = 1
collectors = ["rpc", "nfs_server"]

[collectors.rpc]
calls = true

[targets.share]
kind = "nfs"
directory = "DIRECTORY"
store = "memory"
service_time = ["READ=MILLISECONDS"]

[workload]
kind = "files"
data = "share"
file_size = "512k"
phases = ["block_write", "block_read"]
"""


@pytest.mark.system
def test_an_experiment_says_where_its_calls_time_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usable = NfsTarget.available()
    if not usable.ok:
        pytest.skip(usable.reason)
    monkeypatch.setenv("NFSLAB_STATE", str(tmp_path / "state"))

    with scratch_folder() as scratch:
        text = EXPERIMENT.replace("DIRECTORY", str(scratch))
        file, results = tmp_path / "parts.toml", tmp_path / "results"
        file.write_text(text.replace("MILLISECONDS", f"{PLANTED_MS}ms"))
        ran = nfslab(capsys, "run", file, "--results", results)
        assert ran.code == 0, ran
        assert list(scratch.iterdir()) == []
    (folder,) = results.iterdir()
    (run,) = (folder / "runs").iterdir()
    said = nfslab(capsys, "show", folder, run.name).out
    assert all(part in said for part in PARTS), said
    assert sorted(path.name for path in run.iterdir() if path.is_dir()) == [
        "evidence", "logs", "samples",
    ]  # fmt: skip
    marked = nfslab(capsys, "report", folder, "--markdown")
    assert "Where a call's time goes" in marked.out
    slow = "SELECT min(finished_ns - started_ns) FROM evidence_nfs_server_calls"
    asked = nfslab(capsys, "query", folder, f"{slow} WHERE operation = 'READ'", "--csv")
    assert asked.code == 0, asked
    assert int(asked.out.splitlines()[1]) >= PLANTED_NS
