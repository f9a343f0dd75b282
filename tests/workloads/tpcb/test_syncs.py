"""System calls of tpcb's engines: MariaDB's own counters, and the syncs that SQLite's commits have.

SQLite, one client, a commit each (os_unix.c, pager.c; seen under strace with 3.40.1). The journal:
once for its records, with `full` once more for its header; its directory, since it was opened anew;
the database; then what ends the journal: an unlink (synced, the directory, with `extra`), a
truncation (synced with `full`), or zeros over its header (synced). The log (WAL): once.
"""

from __future__ import annotations

import math
import uuid
from collections import Counter
from typing import Any

import pytest
from nfslab import clock
from nfslab.evidence.syscalls.collector import SyscallsCollector, SyscallsParameters
from nfslab.results.records import Metric
from nfslab.workloads.tpcb.parameters import TpcbParameters
from nfslab.workloads.tpcb.workload import TpcbWorkload

from tests.machine import needs
from tests.workloads.run_context import run_of, scratch_folder

SYNCS = ("fsync", "fdatasync")
JOURNAL, DATABASE, LOG = "SQLite rollback journal", "SQLite database", "SQLite WAL"
DIRECTORY = ""
"""It has no class."""
INNODB = {
    "InnoDB redo log", "InnoDB system tablespace", "InnoDB undo", "InnoDB data",
    "MariaDB temporary",
}  # fmt: skip


def watched(
    **given: Any,
) -> tuple[Counter[str], dict[str, Metric], Any, float]:
    """Syncs in the timed part by class of files; the run's metrics; its samples; how long it was
    watched, s."""
    common = {"data": "disk", "duration": 1, "clients": 1}
    work = TpcbWorkload(TpcbParameters(**common | given))
    if not (answer := work.check()).ok:
        pytest.skip(answer.reason)
    # Not in memory: there MariaDB maps its redo log, and makes no calls on it.
    with scratch_folder(in_memory=False) as root:
        name = f"syncs-{uuid.uuid4().hex[:8]}"
        places = {"data": root / f"{name}-data"}
        with run_of(work, root, name=name, places=places) as run:
            collector = SyscallsCollector(SyscallsParameters(level="counts"))
            assert collector.expected(work).ok
            collector.ready(run.context)
            work.prepare(run.context)
            assert collector.applies(run.context).ok
            began = clock.monotonic()
            collector.start(run.context)
            outcome = work.measure(run.context)
            evidence = collector.stop()
            watched_s = clock.monotonic() - began
            assert work.verify(run.context, outcome)[0].verdict == "ok"
    assert "incomplete" not in evidence.summary, evidence.summary
    classes = {
        row["file_id"]: row["class"] or "" for row in evidence.tables["syscall_files"].to_pylist()
    }
    found: Counter[str] = Counter()
    for row in evidence.tables["syscall_counts"].to_pylist():
        if row["call"] in SYNCS:
            found[classes.get(row["file_id"], "")] += row["calls"]
    return found, outcome.metrics, outcome.samples, watched_s


@needs.ebpf
@pytest.mark.parametrize(
    ("mode", "level", "each"),
    [
        pytest.param(
            *("delete", "full", {JOURNAL: 2, DIRECTORY: 1, DATABASE: 1}), marks=pytest.mark.long
        ),
        pytest.param("wal", "full", {LOG: 1}, marks=pytest.mark.long),
        pytest.param(
            *("truncate", "full", {JOURNAL: 3, DIRECTORY: 1, DATABASE: 1}), marks=pytest.mark.long
        ),
    ],
)
def test_a_commit_of_sqlite_has_its_syncs(mode: str, level: str, each: dict[str, int]) -> None:
    pragmas = {"journal_mode": mode, "synchronous": level, "wal_autocheckpoint": 0}
    found, metrics, _, _ = watched(engine="sqlite", sqlite=pragmas)
    commits = metrics["transactions"].value
    # Opening and closing the database may add a few of their own (a log's beginning and end).
    for name in {*each, JOURNAL, DATABASE, LOG, DIRECTORY}:
        wanted = each.get(name, 0) * commits
        assert wanted <= found[name] <= wanted + 3, (name, found, commits)


@needs.ebpf
@pytest.mark.system
@pytest.mark.long
def test_innodb_counts_the_same_syncs() -> None:
    # Nothing is written but for the transactions.
    quiet = {"innodb_stats_persistent": False, "innodb_max_dirty_pages_pct_lwm": 0}
    found, metrics, samples, watched_s = watched(engine="mariadb", mariadb=quiet)
    grown = dict(zip(*samples["server_status"].to_pydict().values(), strict=True))
    commits = metrics["transactions"].value
    seen = sum(found[name] for name in INNODB)
    assert seen >= found["InnoDB redo log"] >= commits > 0
    # Both read a moment apart: the log is flushed once a second for itself, too.
    assert abs(seen - grown["Innodb_data_fsyncs"]) <= 2 + math.ceil(watched_s)
