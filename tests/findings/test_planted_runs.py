"""A cause that was planted in real runs is the one that is named, with its size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.findings.explaining import explained
from tests.machine import needs

SLOW_NS = 100e6
FILE = """
[experiment]
name = "planted"
repetitions = 3
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
values = [[], ["WRITE=100ms"]]
labels = ["as it is", "slow"]
"""


@pytest.mark.long
@needs.fuse
def test_a_slow_server_is_found_in_the_logs_sync(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One client: every commit is one WRITE that is stable, which takes 100 ms."""
    (compared,) = explained(FILE, tmp_path, capsys)["comparisons"]
    first = compared["findings"][0]
    assert (first["cause"], first["confidence"]) == ("log_sync", "high")
    parts = {one["part"]: one for one in compared["parts"]}
    # A model's service time is the whole of it, the server's own work included. On a busy machine
    # every time is longer, and another process may have flushed the log for some transactions.
    service = parts["log_sync/sending/service"]
    assert service["new_ns"] >= 0.5 * SLOW_NS
    flushed = [parts[name]["new_ns"] for name in ("log_sync", "log_turn") if name in parts]
    assert sum(flushed) >= 0.8 * SLOW_NS, "whoever flushes it: every commit waits for a WRITE"
    assert service["difference_ns"] >= 0.5 * first["effect_ns"]
    low, high = first["interval_ns"]
    assert low <= first["effect_ns"] <= high
    top = [one["difference_ns"] for path, one in parts.items() if "/" not in path]
    assert sum(top) == pytest.approx(compared["whole"]["difference_ns"])
