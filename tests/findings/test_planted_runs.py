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
duration = "3s"

[[axes]]
name = "service"
parameter = "targets.nfs.service_time"
values = [[], ["WRITE=100ms"]]
labels = ["as it is", "slow"]
"""


MARIADB = FILE.replace(
    'collectors = ["postgres", "fsync"', 'collectors = ["mariadb", "fsync"'
).replace('kind = "pgbench"', 'kind = "tpcb"\nengine = "mariadb"')


@pytest.mark.long
@needs.fuse
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(FILE, id="postgres"),
        pytest.param(
            MARIADB, id="mariadb", marks=[needs.ebpf, needs.program("sysbench", "mariadbd")]
        ),
    ],
)
def test_a_slow_server_is_found_in_the_logs_sync(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One client: every commit is one WRITE that is stable, which takes 100 ms."""
    (compared,) = explained(content, tmp_path, capsys)["comparisons"]
    first = compared["findings"][0]
    assert (first["cause"], first["confidence"]) == ("log_sync", "high")
    parts = {one["part"]: one for one in compared["parts"]}
    # A model's service time is the whole of it, the server's own work included. On a busy machine
    # every time is longer, and another process may have flushed the log for some transactions.
    service = parts["log_sync/sending/service"]
    assert 0.5 * SLOW_NS <= service["new_ns"] <= 2 * SLOW_NS
    flushed = [parts[name]["new_ns"] for name in ("log_sync", "log_turn") if name in parts]
    assert sum(flushed) >= 0.8 * SLOW_NS, "whoever flushes it: every commit waits for a WRITE"
    assert service["difference_ns"] >= 0.5 * first["effect_ns"]
    low, high = first["interval_ns"]
    assert low <= first["effect_ns"] <= high
    top = [one["difference_ns"] for path, one in parts.items() if "/" not in path]
    assert sum(top) == pytest.approx(compared["whole"]["difference_ns"])


# Long beside what else the machine does: a process may wait some 50 ms for a processor.
MEAN_NS = 25e6
TRANSACTIONS = 2000
ALONE = (
    FILE.partition("[[axes]]")[0]
    .replace("repetitions = 5", "repetitions = 1")
    .replace('duration = "3s"', f"transactions = {TRANSACTIONS}")
    .replace('server = "embedded"', 'server = "embedded"\nspread = "exponential"\n'
             'service_time = ["WRITE=25ms"]')
)  # fmt: skip


@pytest.mark.long
@needs.fuse
def test_of_one_client_the_slowest_transactions_wait_in_the_logs_sync(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """WRITEs of exponential length T: the slowest 1 % takes T (ln 100 + 1) = 5.6 T on average.

    Of 20 of 2,000, that mean has a standard deviation of T sqrt(2 / 20) = 0.32 T.
    """
    (point,) = explained(ALONE, tmp_path, capsys)["points"]
    slow = {one["of"]: one for one in point["slowest"]}
    transaction, call = slow["transaction"], slow["NFS call"]
    assert transaction["operations"] == TRANSACTIONS
    assert transaction["slow"] == pytest.approx(TRANSACTIONS / 100, abs=1)
    parts = {one["name"]: one for one in transaction["parts"]}
    assert sum(one["slow_ns"] for one in parts.values()) == pytest.approx(
        transaction["slow_mean_ns"]
    )
    # All else gets longer by what else the machine does, if at all.
    longer = {name: one["slow_ns"] - one["ns"] for name, one in parts.items()}
    assert longer["log_sync"] >= 0.5 * sum(longer.values())
    assert parts["log_sync"]["slow_ns"] >= 4.2 * MEAN_NS
    of_calls = {one["name"]: one["slow_ns"] - one["ns"] for one in call["parts"]}
    assert max(of_calls, key=lambda name: of_calls[name]) == "service"
    statements = {one["statement"]: one for one in point["statements"]}
    top = max(statements, key=lambda name: statements[name]["ns"])
    assert top == "END", "the commit writes the log"
    assert sum(one["ns"] for one in statements.values()) == pytest.approx(point["mean_ns"])
