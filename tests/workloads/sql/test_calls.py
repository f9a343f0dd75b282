"""What an engine says that it read and wrote is what system calls did (collector `syscalls`)."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from nfslab.evidence.queries.kind import DATA_CLASSES
from nfslab.evidence.syscalls.collector import SyscallsCollector, SyscallsParameters
from nfslab.evidence.syscalls.tables import GROUPS
from nfslab.evidence.syscalls.ways import Way, shim_missing

from tests.machine import needs
from tests.workloads.run_context import run_of, scratch_folder
from tests.workloads.sql.engines import values, workload

CHANGE_COUNTER = 16
"""Bytes of SQLite's header: each transaction looks whether another process changed the file."""
Bytes = Counter[str]


def watched(
    engine: str, query: str, way: Way | None = None, **more: Any
) -> tuple[dict[str, float], Bytes, Bytes]:
    """Metrics; bytes read, and written, by class of files in the timed part."""
    if way == "shim" and (missing := shim_missing()):
        pytest.skip(missing)
    work = workload(engine, query, **more)
    # Not in memory: there MariaDB's reads are no direct ones.
    with scratch_folder(in_memory=False) as root:
        name = f"calls-{uuid.uuid4().hex[:8]}"
        with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as run:
            collector = SyscallsCollector(SyscallsParameters(level="counts", way=way))
            assert collector.expected(work).ok
            collector.ready(run.context)
            work.prepare(run.context)
            assert collector.applies(run.context).ok
            collector.start(run.context)
            outcome = work.measure(run.context)
            evidence = collector.stop()
            checks = work.verify(run.context, outcome)
    assert {check.verdict for check in checks} == {"ok"}
    assert "incomplete" not in evidence.summary, evidence.summary
    files = evidence.tables["syscall_files"].to_pylist()
    classes = {row["file_id"]: row["class"] or Path(row["path"]).name for row in files}
    read, written = Bytes(), Bytes()
    for row in evidence.tables["syscall_counts"].to_pylist():
        for group, sums in (("reads", read), ("writes", written)):
            if row["call"] in GROUPS[group]:
                sums[classes.get(row["file_id"], "")] += row["bytes"]
    return values(outcome), read, written


def of_data(read: Bytes) -> int:
    return sum(read[name] for name in DATA_CLASSES)


@pytest.mark.long
@needs.ebpf
def test_innodb_counts_what_system_calls_returned() -> None:
    found, read, _ = watched("mariadb", "full_scan")
    assert read["InnoDB data"] == of_data(read) == found["read_bytes"] > 0


@pytest.mark.long
@needs.ebpf
@pytest.mark.parametrize(("query", "mode"), [("sort_spill", "delete"), ("full_scan", "wal")])
def test_sqlite_counts_what_system_calls_returned(query: str, mode: str) -> None:
    """What a query that only reads wrote is temporary."""
    pragmas = {"cache_size": -1000, "journal_mode": mode}
    found, read, written = watched("sqlite", query, sqlite=pragmas)
    beside = of_data(read) - found["read_bytes"]
    # One transaction; with a log its index in memory tells instead.
    assert 0 <= beside <= 2 * CHANGE_COUNTER, (read, found)
    names = [name for name in written if not name.startswith("etilqs_") and written[name]]
    assert names == [], "its temporary files, and no other"
    assert sum(written.values()) == found["temporary_bytes"]
    assert (found["temporary_bytes"] > 0) == (query == "sort_spill")
