"""A cause that was planted in real runs is the one that is named, with its size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.invocation import nfslab
from tests.machine import needs

SLOW_NS = 10e6
FILE = """
[experiment]
name = "planted"
repetitions = 5
collectors = ["postgres", "fsync", "rpc", "nfs_server"]

[collectors.rpc]
calls = true

[targets.disk]
kind = "local"
path = "/var/tmp"

[targets.nfs]
kind = "nfs"
server = "embedded"
directory = "/var/tmp"

[workload]
kind = "pgbench"
data = "disk"
wal = "nfs"
scale = 2
duration = "2s"

[[axes]]
name = "service"
parameter = "targets.nfs.service_time"
values = [[], ["WRITE=10ms"]]
labels = ["as it is", "slow"]
"""


@pytest.mark.long
@needs.fuse
def test_a_slow_server_is_found_in_the_logs_sync(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One client: every commit is one WRITE that is stable, which takes 10 ms."""
    file = tmp_path / "planted.toml"
    file.write_text(FILE)
    assert nfslab(capsys, "run", file, "--results", tmp_path / "results").code == 0
    (folder,) = (tmp_path / "results").iterdir()
    told = json.loads(nfslab(capsys, "explain", folder, "--json").out)
    (compared,) = told["comparisons"]
    first = compared["findings"][0]
    assert (first["cause"], first["confidence"]) == ("log_sync", "high")
    low, high = first["interval_ns"]
    assert low <= SLOW_NS <= high or first["effect_ns"] == pytest.approx(SLOW_NS, rel=0.1)
    parts = {one["part"]: one for one in compared["parts"]}
    # A model's service time is the whole of it, the server's own work included.
    assert parts["log_sync/sending/service"]["new_ns"] == pytest.approx(SLOW_NS, rel=0.1)
    top = [one["difference_ns"] for path, one in parts.items() if "/" not in path]
    assert sum(top) == pytest.approx(compared["whole"]["difference_ns"])
