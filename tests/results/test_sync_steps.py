"""Syncs taken apart: by the WRITEs and COMMITs, by block requests, and the log's share; by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.evidence.syscalls.sync_blocks import split_by_blocks
from nfslab.evidence.syscalls.sync_share import is_background, log_shares
from nfslab.evidence.syscalls.sync_steps import STEPS, take_apart

from tests.results.planted_syscalls import BLOCKS, CALLS, MS, SECOND, file, sync, table, tables

FILES = [
    file(1, "/mnt/pg_wal/1", "PostgreSQL WAL", device="0:50", inode=77),
    file(2, "/mnt/base/1", "PostgreSQL tables and indexes", device="0:50", inode=78),
    file(3, "/srv/base/1", None, device="8:1", inode=77),
]
TARGETS = {"0:50": "filer"}


def call(operation: str, taken: int, ended: int, inode: int | None = 77, **more: Any) -> Any:
    usual = {"count": 8192, "target": "filer"}
    return {
        "operation": operation, "enqueued_ns": taken, "completed_ns": ended, "file_id": inode
    } | usual | more  # fmt: skip


def test_the_three_steps_of_a_sync() -> None:
    calls = [
        call("WRITE", 50, 130), call("WRITE", 110, 200), call("WRITE", 150, 240),
        call("COMMIT", 245, 300), call("WRITE", 100, 900, inode=78), call("READ", 100, 900),
        call("COMMIT", 100, 900, target="other"),
    ]  # fmt: skip
    found = take_apart(tables([sync(100, 210)], files=FILES), table(CALLS, calls), TARGETS)
    (row,) = found.rows
    assert dict(zip(STEPS, row.summary.mean_ns, strict=True)) == {
        "waiting": 30, "sending": 110, "committing": 55, "rest": 15,
    }  # fmt: skip
    assert row.summary.whole_mean_ns == 210
    assert (row.writes, row.write_bytes, row.commits, row.without_calls) == (2, 16384, 1, 0)
    assert (row.target, row.file_class, row.what) == ("filer", "PostgreSQL WAL", "fdatasync")


def test_a_sync_on_another_device_with_the_same_inode_is_elsewhere() -> None:
    rows = [sync(100, 50, 3), sync(100, 50, 2), sync(100, 50, None)]
    found = take_apart(tables(rows, files=FILES), table(CALLS, [call("COMMIT", 110, 120)]), TARGETS)
    assert (found.syncs, found.elsewhere) == (1, 2)
    (row,) = found.rows
    assert row.summary.mean_ns == [0, 0, 0, 50]
    assert row.without_calls == 1


def test_calls_whose_file_is_not_known_are_counted() -> None:
    calls = [call("WRITE", 110, 120, inode=None), call("COMMIT", 121, 0)]
    found = take_apart(tables([sync(100, 50)], files=FILES), table(CALLS, calls), TARGETS)
    assert found.unknown_file == 1
    # A COMMIT that never ended goes on.
    assert found.rows[0].summary.mean_ns == [0, 0, 29, 21]
    assert any("not known" in note for note in found.notes())


SPAN = st.tuples(st.integers(0, 60), st.integers(1, 25))


@given(
    st.lists(st.tuples(st.sampled_from(["WRITE", "COMMIT"]), SPAN), max_size=14),
    st.lists(SPAN, min_size=1, max_size=6),
)
def test_the_steps_are_those_of_every_nanosecond_and_sum_to_the_sync(
    planted: list[tuple[str, tuple[int, int]]], syncs: list[tuple[int, int]]
) -> None:
    calls = [call(kind, at, at + n) for kind, (at, n) in planted]
    whole = tables([sync(at, n) for at, n in syncs], files=FILES)
    found = take_apart(whole, table(CALLS, calls), TARGETS)
    sums = np.zeros(len(STEPS), dtype=np.int64)
    for start, length in syncs:
        for t in range(start, start + length):
            on = [(kind, at) for kind, (at, n) in planted if at <= t < at + n]
            if any(kind == "WRITE" and at < start for kind, at in on):
                sums[0] += 1
            elif any(kind == "WRITE" for kind, _ in on):
                sums[1] += 1
            else:
                sums[2 if on else 3] += 1
    (row,) = found.rows
    assert [round(mean * len(syncs)) for mean in row.summary.mean_ns] == sums.tolist()


def request(kind: str, issued: int, lasted: int, **more: Any) -> dict[str, Any]:
    usual = {"device": "8:0", "fua": False, "sector": 0, "size": 4096, "pid": 1}
    return {"kind": kind, "issue_ns": issued, "latency_ns": lasted} | usual | more


def test_block_requests_and_flushes_during_a_sync() -> None:
    blocks = table(BLOCKS, [
        request("write", 110, 40), request("flush", 160, 100), request("write", 250, 30, fua=True),
        request("read", 105, 10), request("write", 100, 500, device="8:16"),
        request("write", 400, 50),
    ])  # fmt: skip
    found = split_by_blocks(
        tables([sync(100, 200, 3)], files=FILES, blocks=blocks), {"8:1": ["8:0"]}
    )
    assert found is not None
    (row,) = found.rows
    # flush 160-260 and the FUA write to 280; write 110-150; read 105-110; the rest.
    assert row.summary.mean_ns == [120, 40, 5, 35]
    assert (row.flushes, row.writes, row.write_bytes, row.reads) == (2, 1, 4096, 1)


def test_syncs_on_no_known_disk_are_elsewhere() -> None:
    blocks = table(BLOCKS, [request("write", 110, 40)])
    found = split_by_blocks(tables([sync(100, 200)], files=FILES, blocks=blocks), {"8:1": ["8:0"]})
    assert found is not None
    assert (found.rows, found.elsewhere) == ([], 1)
    assert split_by_blocks(tables([sync(1, 2)], files=FILES), {}) is None


def test_the_share_of_the_log_in_a_transaction() -> None:
    rows = [sync(i * 10 * MS, 4 * MS, pid=100 + i % 2) for i in range(100)]
    rows.append(sync(1, 50 * MS, pid=9))  # the WAL writer's
    (share,) = log_shares(
        tables(rows, files=FILES), {100: "postgres: u b [local] COMMIT", 9: "postgres: walwriter"},
        clients=4, wall_ns=SECOND, transactions=200, latency_mean_ns=20.0 * MS,
        waits=[
            {"backend_type": "client backend", "wait_event_type": "LWLock",
             "wait_event": "WALWrite", "mean_backends": 2.5},
            {"backend_type": "walwriter", "wait_event_type": "IO", "wait_event": "WALSync",
             "mean_backends": 0.4},
        ],
    )  # fmt: skip
    assert (share.syncs, share.by_backends) == (101, 100)
    assert share.share_of_clients == pytest.approx(0.4 / 4)
    assert share.share_of_latency == pytest.approx(2 / 20)
    text = " ".join(share.sentences())
    for piece in ("10.0%", "LWLock:WALWrite", "2.50"):
        assert piece in text
    assert "IO:WALSync" not in text


def test_which_processes_serve_no_client() -> None:
    assert is_background("postgres: 15/main: checkpointer")
    assert not is_background("postgres: alice bench 10.0.0.1(5000) COMMIT")
    assert not is_background("mariadbd --innodb_buffer_pool_load_at_startup=OFF")
