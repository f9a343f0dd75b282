"""Sizes and offsets of single accesses: from planted tables, and against counts made by hand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from nfslab.evidence.syscalls.accesses import (
    KINDS,
    PLACE_NAMES,
    accesses_of,
    as_table,
)
from nfslab.evidence.syscalls.tables import tables_from

from tests.results.planted_syscalls import (
    EVENTS,
    FILES,
    HEAP,
    WAL,
    access,
    file,
    sync,
    table,
    tables,
)

PAGE = 8192


def told(one: object) -> list[tuple[str, str, int, int]]:
    """kind, place, offset, size."""
    return [
        (KINDS[kind], PLACE_NAMES[place], offset, size)
        for kind, place, offset, size in zip(
            one.kind, one.place, one.offset.tolist(), one.size.tolist(), strict=True  # type: ignore[attr-defined]
        )
    ]  # fmt: skip


def test_each_access_has_its_kind_and_place() -> None:
    rows = [
        access(10, "pwrite64", 0, PAGE),
        access(20, "pwrite64", PAGE, PAGE),
        access(30, "pread64", PAGE, PAGE),  # reads are judged by themselves
        access(40, "pwrite64", PAGE, 2 * PAGE),  # the page again, and one more
        access(50, "pwrite64", 5 * PAGE, PAGE, tid=9),  # made durable: it is among the syncs, too
        access(60, "pwrite64", 0, PAGE),
        access(70, "pread64", 9 * PAGE, PAGE, bytes=100),
        access(80, "pread64", 9 * PAGE + 100, PAGE, bytes=0),  # the end of the file
        access(90, "pread64", 0, PAGE, bytes=0, error=5),
        access(95, "read", None, 64, file_id=None),  # a pipe
    ]
    syncs = [
        sync(50, 5, 1, call="pwrite64", synchronous=True, tid=9, offset=5 * PAGE, size=PAGE),
        sync(65, 5, 1, call="sync_file_range", offset=0, size=4 * PAGE),
        sync(75, 5, 1),
    ]
    found = accesses_of(tables(syncs, events=table(EVENTS, rows)))
    (log,) = found.groups
    assert (log.name, log.calls) == ("PostgreSQL WAL", 9)
    assert told(log) == [
        ("write", "first", 0, PAGE),
        ("write", "sequential", PAGE, PAGE),
        ("read", "first", PAGE, PAGE),
        ("write", "rewrite", PAGE, 2 * PAGE),
        ("synchronous write", "forward", 5 * PAGE, PAGE),
        ("write", "backward", 0, PAGE),
        ("sync_file_range", "none", 0, 4 * PAGE),
        ("read", "forward", 9 * PAGE, 100),
        ("read", "sequential", 9 * PAGE + 100, 0),
    ]
    assert log.bytes == 7 * PAGE + 100


def test_one_thread_is_not_another_that_began_at_the_same_instant() -> None:
    rows = [access(50, "pwrite64", 0, PAGE, tid=1), access(50, "pwrite64", 0, PAGE, tid=2)]
    syncs = [sync(50, 5, 1, call="pwrite64", synchronous=True, tid=2, offset=0, size=PAGE)]
    (log,) = accesses_of(tables(syncs, events=table(EVENTS, rows))).groups
    assert sorted(KINDS[kind] for kind in log.kind) == ["synchronous write", "write"]


def test_the_order_is_that_of_the_ends_and_what_was_untimed_is_judged() -> None:
    rows = [
        access(10, "pwrite64", 0, PAGE, latency_ns=5),
        access(20, "pwrite64", 2 * PAGE, PAGE, latency_ns=100),  # began before, ended after
        access(30, "pwrite64", PAGE, PAGE, latency_ns=5),
    ]
    events = table(EVENTS, rows)
    times = pa.array([-5, 5, 15], pa.int64())
    whole = {"files": table(FILES, [WAL]), "events": events.add_column(0, "t_ns", times)}
    found = accesses_of(tables_from(whole))
    (log,) = found.groups
    assert [place for _, place, _, _ in told(log)] == ["sequential", "sequential"]
    assert log.t_ns.tolist() == [5, 15]


def test_by_class_and_by_file_the_busiest_first() -> None:
    files = [WAL, HEAP, file(3, "/pg/base/5/16385", HEAP["class"]), file(4, "/x", None)]
    rows = [access(n, "pread64", n * PAGE, PAGE, file_id=1 + n % 3) for n in range(30)]
    rows += [access(100, "pread64", 0, 1, file_id=4), access(101, "pread64", 0, 1, file_id=None)]
    whole = tables([], files=files, events=table(EVENTS, rows))
    by_class = accesses_of(whole)
    assert [(one.name, one.calls) for one in by_class.groups] == [
        ("PostgreSQL tables and indexes", 20), ("PostgreSQL WAL", 10),
        ("file not known", 1), ("other files", 1),
    ]  # fmt: skip
    by_file = accesses_of(whole, by_file=True)
    assert [(one.name, one.calls) for one in by_file.groups] == [
        ("/pg/base/5/16384", 10), ("/pg/base/5/16385", 10),
        ("/pg/pg_wal/000000010000000000000001", 10), ("/x", 1), ("file not known", 1),
    ]  # fmt: skip


def test_without_events_ranges_and_durable_writes_are_there() -> None:
    syncs = [
        sync(10, 5, 1, call="pwrite64", synchronous=True, offset=0, size=PAGE),
        sync(20, 5, 1, call="sync_file_range", offset=PAGE, size=0),
        sync(30, 5, 1),
    ]
    (log,) = accesses_of(tables(syncs)).groups
    assert told(log) == [
        ("synchronous write", "first", 0, PAGE), ("sync_file_range", "none", PAGE, 0),
    ]  # fmt: skip
    assert accesses_of(tables([sync(30, 5, 1)])).groups == []


def test_places_are_those_of_a_plain_loop() -> None:
    """Ten thousand accesses on three files, judged one after the other."""
    rng = np.random.default_rng(3)
    rows, last, wanted = [], {}, []
    for n in range(10_000):
        call = "pread64" if rng.random() < 0.5 else "pwrite64"
        number, size = int(rng.integers(1, 4)), int(rng.integers(1, 4)) * PAGE
        begun, ended = last.get((number, call), (None, None))
        offset = int(rng.choice([0, PAGE, begun or 0, ended or 0, (ended or 0) + PAGE]))
        rows.append(access(n * 10, call, offset, size, file_id=number))
        if begun is None:
            wanted.append("first")
        elif offset == ended:
            wanted.append("sequential")
        elif offset > ended:
            wanted.append("forward")
        else:
            wanted.append("rewrite" if offset >= begun else "backward")
        last[number, call] = (offset, offset + size)
    files = [file(n, f"/{n}", "one") for n in (1, 2, 3)]
    (one,) = accesses_of(tables([], files=files, events=table(EVENTS, rows))).groups
    assert [PLACE_NAMES[place] for place in one.place] == wanted
    assert len(set(wanted)) == 5


def test_the_table_for_programs() -> None:
    rows = [access(30, "pread64", PAGE, PAGE, file_id=2), access(10, "pwrite64", 0, PAGE)]
    made = as_table(accesses_of(tables([], events=table(EVENTS, rows)))).to_pylist()
    assert made == [
        {"t_ns": 0, "class": "PostgreSQL WAL", "file_id": 1, "kind": "write", "place": "first",
         "offset": 0, "size": PAGE},
        {"t_ns": 20, "class": "PostgreSQL tables and indexes", "file_id": 2, "kind": "read",
         "place": "first", "offset": PAGE, "size": PAGE},
    ]  # fmt: skip
    assert as_table(accesses_of(tables([]))).num_rows == 0
