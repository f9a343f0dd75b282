"""System calls summed up: planted tables, by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from nfslab.evidence.syscalls.sync_series import NO_FILE, OTHER_FILES, SYNCHRONOUS
from nfslab.evidence.syscalls.tables import (
    FILES_MOST,
    is_no_plain_file,
    read_syscall_tables,
    sum_up,
)

from tests.results.planted_syscalls import (
    COUNTS,
    HEAP,
    MS,
    SECOND,
    WAL,
    count,
    file,
    sync,
    table,
    tables,
    write_run,
)


def test_without_totals_the_table_is_of_syncs_only() -> None:
    found = sum_up(tables([sync(10, 400), sync(20, 600), sync(30, 50, 2, call="fsync")]))
    assert not found.has_counts
    wal, heap = found.classes
    assert (wal.name, wal.files, wal.group("fdatasync").calls) == ("PostgreSQL WAL", 1, 2)
    assert wal.group("fdatasync").mean_ns == 500
    assert wal.group("fdatasync").latency_max_ns == 600
    assert (heap.name, heap.group("fsync").latency_sum_ns) == ("PostgreSQL tables and indexes", 50)
    assert found.total.sync_ns == 1050
    assert heap.group("reads").mean_ns is None


def test_totals_are_grouped_as_in_2001() -> None:
    counts = table(COUNTS, [
        count(1, "write", 6, bytes=49152, places=[1, 2, 3, 0, 0]),
        count(1, "pwrite64", 4, bytes=32768, places=[0, 1, 0, 2, 1]),
        count(1, "fdatasync", 3, latency_sum_ns=9000),
        count(1, "open", 1), count(1, "close", 2), count(1, "lseek", 9),
        count(2, "read", 5, errors=1), count(2, "preadv", 5), count(2, "ftruncate", 2),
        count(None, "open", 1, errors=1),
    ])  # fmt: skip
    found = sum_up(tables([], counts=counts), by_file=True)
    wal = found.classes[0]
    writes = wal.group("writes")
    assert (writes.calls, writes.bytes, writes.places) == (10, 81920, [1, 3, 3, 2, 1])
    assert writes.share("sequential") == pytest.approx(3 / 9)
    assert writes.share("rewrite") == pytest.approx(3 / 9)
    assert [wal.group(g).calls for g in ("opens", "seeks", "closes", "fdatasync")] == [1, 9, 2, 3]
    by_name = {row.name: row for row in found.classes}
    heap = by_name["PostgreSQL tables and indexes"]
    assert (heap.group("reads").calls, heap.group("reads").errors) == (10, 1)
    assert heap.others["ftruncate"].calls == 2
    assert by_name[NO_FILE].group("opens").errors == 1
    assert by_name[NO_FILE].files == 0
    assert found.total.calls == sum(row.calls for row in found.classes) == 38
    assert {row.name for row in found.files} == {WAL["path"], HEAP["path"], NO_FILE}


def test_a_synchronous_write_is_a_write_and_a_sync_but_counted_once() -> None:
    counts = table(COUNTS, [count(1, "pwrite64", 2, bytes=16384, latency_sum_ns=700)])
    rows = [
        sync(1, 300, call="pwrite64", synchronous=True, size=8192),
        sync(2, 400, call="pwrite64", synchronous=True, size=8192),
    ]
    found = sum_up(tables(rows, counts=counts))
    (row,) = found.classes
    assert row.calls == 2
    assert (row.synchronous.calls, row.synchronous.bytes, row.sync_ns) == (2, 16384, 700)
    assert [one.what for one in found.series] == [SYNCHRONOUS]


def test_a_file_has_the_class_of_its_first_name_that_has_one() -> None:
    files = [
        file(3, "/pg/tmp.1", None), file(3, "/pg/pg_wal/x", "PostgreSQL WAL"),
        file(3, "/old.log", "logs"), file(4, "/home/notes", None),
    ]  # fmt: skip
    found = sum_up(tables([sync(1, 9, 3), sync(2, 8, 4), sync(3, 7, None)], files=files))
    assert [row.name for row in found.classes] == ["PostgreSQL WAL", OTHER_FILES, NO_FILE]


def test_the_series_is_in_the_order_of_starts_with_its_levels() -> None:
    latencies = [400_000] * 57 + [5_100_000] * 185
    rows = [sync(i * 6 * MS, latency) for i, latency in enumerate(latencies)]
    rng = np.random.default_rng(1)
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    (series,) = sum_up(tables(shuffled)).series
    assert series.latency_ns.tolist() == latencies
    assert series.steps.changes == [57]
    assert series.quantiles_ns == [5_100_000] * 4
    assert series.t_ns[0] == 0
    assert series.sum_ns == 57 * 400_000 + 185 * 5_100_000


def test_what_came_before_the_timed_part_is_counted_only(tmp_path: Path) -> None:
    rows = [sync(SECOND - 5, 100), sync(SECOND, 200), sync(SECOND + 9, 300, error=5)]
    write_run(tmp_path, tables(rows), SECOND)
    read = read_syscall_tables(tmp_path)
    assert read is not None
    found = sum_up(read)
    assert found.untimed == 1
    assert found.series[0].latency_ns.tolist() == [200, 300]
    assert found.series[0].errors == 1
    assert found.total.group("fdatasync").errors == 1


def test_a_run_without_a_watch_has_none(tmp_path: Path) -> None:
    assert read_syscall_tables(tmp_path) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pipe:[123]", True), ("socket:[9]", True), ("anon_inode:[eventpoll]", True),
        ("/dev/null", True), ("/dev/shm/pg/base/5/1", False), ("/proc/self/stat", True),
        ("/srv/a:[b]", False), ("data/x", False),
    ],
)  # fmt: skip
def test_what_is_no_plain_file(path: str, expected: bool) -> None:
    assert is_no_plain_file(path) is expected


def test_classes_and_files_beyond_the_bound_are_one_row() -> None:
    """Relations are classes, and a database may have very many."""
    n = FILES_MOST + 3
    files = [file(k, f"/pg/base/5/{k}", f"a.public.t{k} (table)") for k in range(n)]
    counts = table(COUNTS, [count(k, "write", n - k, bytes=1) for k in range(n)])
    found = sum_up(tables([], files=files, counts=counts), by_file=True)
    for rows, what in ((found.classes, "classes"), (found.files, "files")):
        assert len(rows) == FILES_MOST + 1
        assert (rows[0].group("writes").calls, rows[-1].name) == (n, f"3 more {what}")
        rest = rows[-1].group("writes")
        assert (rows[-1].files, rest.calls, rest.bytes) == (3, 3 + 2 + 1, 3)
    assert (found.total.files, found.total.group("writes").bytes) == (n, n)
