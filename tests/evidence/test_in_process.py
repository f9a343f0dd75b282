"""A transaction of a library in its client's process: times of calls that are known, by class."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from nfslab.evidence.anatomy.in_process import anatomy
from nfslab.evidence.syscalls.tables import CallGroup, ClassRow


def row(name: str, **groups: tuple[int, int]) -> ClassRow:
    """Calls and their ns by group; a group without a column, and durable writes, by their names."""
    made = ClassRow(name, name)
    for what, (calls, ns) in groups.items():
        group = CallGroup(calls=calls, latency_sum_ns=ns)
        if what == "synchronous":
            made.synchronous = group
        elif what in ("ftruncate", "unlink", "sync_file_range"):
            made.others[what] = group
        else:
            made.groups[what] = group
    return made


def of(rows: list[ClassRow], *, mean_ms: float = 1.0, transactions: int = 10) -> Any:
    metrics = {"transactions": transactions, "latency_mean_ms": mean_ms}
    record = SimpleNamespace(
        metrics={name: SimpleNamespace(value=value) for name, value in metrics.items()}
    )
    syscalls: Any = SimpleNamespace(classes=tuple(rows), has_counts=True)
    run: Any = SimpleNamespace(record=record)
    return anatomy(run, syscalls)


def test_every_call_is_in_one_part_and_the_parts_are_the_whole() -> None:
    made = of(
        [
            row("SQLite rollback journal", writes=(20, 300_000), fdatasync=(20, 2_000_000),
                unlink=(10, 500_000), opens=(10, 100_000)),
            row("SQLite database", reads=(40, 200_000), writes=(40, 400_000),
                fdatasync=(10, 1_000_000), lseek=(1, 7_000)),
            row("other files", fsync=(10, 900_000), opens=(10, 50_000)),
        ]
    )  # fmt: skip
    parts = {part.name: part.ns for part in made.parts}
    assert parts == {
        "wal_fsync": 200_000, "wal_write": 30_000, "buffer_read": 20_000, "buffer_write": 140_000,
        "other_files": 60_000 + 700 + 95_000, "unattributed": pytest.approx(454_300),
    }  # fmt: skip
    assert sum(parts.values()) == pytest.approx(made.mean_ns)
    assert made.wants == ()


def test_a_write_that_is_durable_when_it_returns_is_a_sync() -> None:
    made = of([row("SQLite WAL", writes=(10, 700_000), synchronous=(6, 600_000))])
    parts = {part.name: part.ns for part in made.parts}
    assert (parts["wal_fsync"], parts["wal_write"]) == (60_000, 10_000)
    assert sum(parts.values()) == pytest.approx(made.mean_ns)


def test_calls_beyond_the_transactions_make_no_part_below_zero() -> None:
    made = of([row("SQLite WAL", fdatasync=(10, 20_000_000))])
    assert [(part.name, part.ns) for part in made.parts] == [("wal_fsync", pytest.approx(1e6))]


def test_without_a_watch_nothing_is_said() -> None:
    run: Any = SimpleNamespace(
        record=SimpleNamespace(metrics={"transactions": SimpleNamespace(value=1)})
    )
    assert anatomy(run, None) is None
