"""The anatomy against transactions whose times are known: within 3 % of the whole.

pgbench runs a script of ours that computes, sleeps, holds a row's lock and syncs its log; how long
it sleeps and what is planted before each sync is asked for, what it computes pgbench times by
itself (--report-per-command), and how long two clients wait for one row follows from how long each
holds it: they take turns.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from nfslab._core import syscalls_grants
from nfslab.machine.cpu_times import read_cpu_times

from tests.cli.invocation import nfslab

ASKED_MS: Final = 7.5
SLEEP_MS: Final = 8.0
"""pg_sleep (misc.c) waits for whole milliseconds, rounded up; again, if it was woken too early."""
SYNC_MS: Final = 6.0
LOAD_S: Final = 6
WITHIN: Final = 0.03
"""Of the whole."""
SCRIPT = """\
SELECT count(*) FROM generate_series(1, 30000);
BEGIN;
UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;
SELECT pg_sleep({sleep});
END;
"""
FILE = """
[experiment]
name = "known-times"
repetitions = 1
collectors = ["postgres"]

[collectors.postgres]
exact = true

[targets.memory]
kind = "local"
path = "/dev/shm"

[workload]
kind = "pgbench"
data = "memory"
scale = 1
duration = "{load}s"
scripts = ["known.sql"]
planted_delay = {{ log_sync = "{sync}ms" }}
settings = {{ autovacuum = "off" }}

[[axes]]
name = "clients"
parameter = "workload.clients"
values = [1, 2]
"""


@pytest.mark.long
@pytest.mark.skipif(not syscalls_grants()["ok"], reason=f"eBPF: {syscalls_grants()['why']}")
def test_parts_are_what_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Waits for a processor, which are a part of their own, may be of any of the others, and so may
    the time of processors that a hypervisor took away: a sleep ends late then."""
    (tmp_path / "known.sql").write_text(SCRIPT.format(sleep=ASKED_MS / 1e3))
    before = read_cpu_times()
    told = explained(FILE.format(sync=SYNC_MS, load=LOAD_S), tmp_path, capsys, "--anyway")
    after = read_cpu_times()
    assert before is not None
    assert after is not None
    taken_ms = 1e3 * after.since(before)["steal"]
    alone, both = (_Point(one, taken_ms) for one in told["points"])
    assert alone.has("other", SLEEP_MS)
    assert alone.has("wal_fsync", SYNC_MS)
    assert alone.has("row_lock_waits", 0.0)
    # All that is neither: computing, and the client.
    computed = alone.statement("SELECT generate_series")
    assert alone.part("running") >= computed - alone.doubt_ms
    assert both.has("other", SLEEP_MS)
    assert both.has("wal_fsync", SYNC_MS)
    # An UPDATE that waits for nobody takes what the other point's does.
    assert both.has("row_lock_waits", both.statement("UPDATE") - alone.statement("UPDATE"))
    # The other one's sleep and sync lie in it, but for what this one computes meanwhile: on a busy
    # machine that is more.
    assert both.part("row_lock_waits") > SLEEP_MS / 4


class _Point:
    """What is said of a point, in ms of a transaction."""

    def __init__(self, told: dict[str, Any], taken_ms: float) -> None:
        self._parts = {one["part"]: one["ns"] / 1e6 for one in told["parts"]}
        self._statements = {one["statement"]: one["ns"] / 1e6 for one in told["statements"]}
        self._mean_ms = told["mean_ns"] / 1e6
        within = WITHIN + taken_ms / (1e3 * LOAD_S)
        self.doubt_ms = within * self._mean_ms + self.part("running/run_queue")

    def part(self, name: str) -> float:
        """0: there is none."""
        return self._parts.get(name, 0.0)

    def statement(self, begin: str) -> float:
        """Mean time of the one that begins so."""
        (found,) = [ms for name, ms in self._statements.items() if name.startswith(begin)]
        return found

    def has(self, name: str, ms: float) -> bool:
        """Is the part so long?"""
        return abs(self.part(name) - ms) <= self.doubt_ms


if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def explained(
    content: str, folder: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, Any]:
    """What `nfslab explain --json` says of it; `options` of `nfslab run`."""
    file, results = folder / "experiment.toml", folder / "results"
    file.write_text(content)
    ran = nfslab(capsys, "run", file, "--results", results, *options)
    assert ran.code == 0, ran.out + ran.err
    (made,) = results.iterdir()
    told: dict[str, Any] = json.loads(nfslab(capsys, "explain", made, "--json").out)
    return told
