"""The slowest 1 % of single operations: exact on hand-made tables, silent where it is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.evidence.anatomy.slow_transactions import slow_transactions
from nfslab.evidence.base import SealedRun
from nfslab.evidence.nfs_server.breakdown import take_apart
from nfslab.evidence.nfs_server.served import served
from nfslab.evidence.slowest import LEAST, SlowestFacts, at_point, slowest
from nfslab.results.records import LoadShape

from tests.evidence.runs import sealed_run
from tests.results import planted_syscalls as planted
from tests.results.planted_calls import SECOND, both, client_table, server_table

MS = 1_000_000
NAMES = ("queue", "server processing")


def of(queue: list[int], service: list[int], more: list[int] | None = None) -> SlowestFacts | None:
    parts = np.array([queue, service])
    wholes = np.concatenate((parts.sum(axis=0), np.array(more or [], dtype=int)))
    return slowest("call", NAMES, parts, wholes)


def test_they_are_at_or_above_the_99th_percentile_of_all() -> None:
    """4,000 calls: 3,920 of 1 + 2, then 80 with a service of 10, 11, ..., 89."""
    found = of([1] * 4000, [2] * 3920 + list(range(10, 90)))
    assert found is not None
    # Rank 3,960 of 4,000 is the 40th of the long ones: 10 + 39, and 1 of queue.
    assert (found.threshold_ns, found.slow, found.apart, found.operations) == (50, 41, 41, 4000)
    queue, service = found.parts
    assert (queue.ns, queue.slow_ns) == (1, 1)
    assert service.slow_ns == pytest.approx(sum(range(49, 90)) / 41)
    assert service.ns == pytest.approx((2 * 3920 + sum(range(10, 90))) / 4000)
    assert found.slow_ns == pytest.approx(1 + sum(range(49, 90)) / 41)


def test_nothing_is_said_of_few_or_of_equal_ones() -> None:
    few = 100 * (LEAST - 1) - 1
    assert of([1] * few, list(range(few))) is None
    assert of([1] * 100 * LEAST, list(range(100 * LEAST))) is not None
    assert of([1] * 4000, [2] * 4000) is None, "all are as slow as the slowest"
    assert of([], []) is None


def test_the_percentile_is_of_all_and_too_few_taken_apart_have_no_parts() -> None:
    """Calls that were retransmitted are the slow ones: what is left would be taken for them."""
    seen = ([1] * 4000, list(range(4000)))
    some = of(*seen, more=[5000] * 3)
    many = of(*seen, more=[5000] * 30)
    assert some is not None
    assert (some.slow, some.apart) == (41, 38)
    assert some.parts[1].slow_ns == pytest.approx(np.mean(range(3962, 4000)))
    assert many is not None
    assert (many.slow, many.apart, many.parts) == (41, 11, ())
    assert at_point("x", [[many], [many]]) == []


@given(st.integers(0, 2**32))
def test_parts_sum_to_the_whole(seed: int) -> None:
    random = np.random.default_rng(seed)
    parts = random.integers(0, 10**9, (3, 3000))
    found = slowest("call", ("a", "b", "c"), parts, parts.sum(axis=0))
    assert found is not None
    assert found.mean_ns == pytest.approx(parts.sum(axis=0).mean())
    slow = np.sort(parts.sum(axis=0))[-found.slow :]
    assert found.slow_ns == pytest.approx(slow.mean())


def test_a_point_is_the_mean_of_its_runs() -> None:
    one = of([1] * 4000, [2] * 3950 + [100] * 50)
    other = of([3] * 4000, [2] * 3950 + [300] * 50)
    assert one is not None
    assert other is not None
    (point,) = at_point("here", [[one], [other], []])
    assert (point.runs, point.operations, point.slow) == (2, 8000, 100)
    assert [(part.ns, part.slow_ns) for part in point.parts] == [
        (2, 2), (pytest.approx((2 * 7900 + 100 * 50 + 300 * 50) / 8000), 200),
    ]  # fmt: skip
    told = point.sentence(str)
    assert "200 ns instead of" in told
    assert "of it in server processing" in told


def test_a_stall_of_one_call_in_fifty_is_in_the_slowest_and_hardly_in_the_mean() -> None:
    """Service is 1 ms, and 50 ms in 2 % of the calls: 2 ms on average, 50 ms of the slowest."""
    calls = [both(n, n, 0, MS, 0, 50 * MS if n % 50 == 0 else MS, 0, MS) for n in range(2500)]
    again = [both(n, n, 0, MS, 0, 90 * MS, 0, MS, sends=2) for n in range(2500, 2502)]
    for _, server in again:
        server.pop("sends")
    every = calls + again
    clients = client_table([client for client, _ in every])
    servers = server_table([server for _, server in every])
    found = take_apart(clients, servers).slowest
    assert found is not None
    assert (found.operations, found.slow, found.apart) == (2502, 52, 50)
    parts = {part.name: part for part in found.parts}
    assert parts["server processing"].slow_ns == 50 * MS
    assert parts["server processing"].ns == pytest.approx(1.98 * MS)
    others = [part for name, part in parts.items() if name != "server processing"]
    assert [part.ns for part in others] == [part.slow_ns for part in others]


def test_an_offered_load_has_the_slowest_at_the_server(tmp_path: Path) -> None:
    """Of 2,500 calls every fiftieth waits 20 ms for a worker; before the window all do."""
    calls = [both(n, n, 0, 0, 20 * MS if n % 50 == 0 else MS, MS, 0, 0) for n in range(2500)]
    early = [both(-2 * SECOND, n, 0, 0, 90 * MS, MS, 0, 0) for n in range(2500, 2600)]
    run = sealed_run(tmp_path)
    table = server_table([server for _, server in calls + early])
    since = [at - 11 * SECOND for at in table["received_ns"].to_pylist()]
    table = table.add_column(0, "t_ns", pa.array(since, pa.int64()))
    pq.write_table(table, tmp_path / "evidence" / "nfs_server_calls.parquet")
    seen = served(run, 0, SECOND)
    assert seen is not None
    found = seen.slowest
    assert found is not None
    assert (found.operations, found.slow, found.threshold_ns) == (2500, 50, 21 * MS)
    parts = {part.name: (part.ns, part.slow_ns) for part in found.parts}
    assert parts == {
        "server queue": (pytest.approx(1.38 * MS), 20 * MS), "server processing": (MS, MS),
        "reply transit": (0, 0),
    }  # fmt: skip


def transactions_of(
    folder: Path, *, clients: int = 1, lag_ns: int | None = None, shift_ns: int = 0, **workload: Any
) -> SealedRun:
    """2,500 transactions one after the other, of 1 ms, of which 0.4 ms are a sync; every fiftieth
    takes 9 ms, 7 of them in the sync. Another process syncs the log all the time."""
    slow = np.arange(2500) % 50 == 0
    latency = np.where(slow, 9 * MS, MS) + (lag_ns or 0)
    over = np.cumsum(latency)
    sync = np.where(slow, 7 * MS, 4 * MS // 10)
    run = sealed_run(folder, metrics={"transactions": 2500})
    (folder / "samples").mkdir()
    lag = pa.array([lag_ns] * 2500, pa.int64())
    table = {"t_ns": over, "latency_ns": latency, "lag_ns": lag, "status": np.zeros(2500, np.int8)}
    pq.write_table(pa.table(table), folder / "samples" / "transactions.parquet")
    own = zip((over - sync - 10_000 + shift_ns).tolist(), sync.tolist(), strict=True)
    syncs = [planted.sync(at + 1, ns, pid=100, process="postgres: u pgbench") for at, ns in own]
    syncs += [planted.sync(1 + n * 10**9, 10**9, process="postgres: walwriter") for n in range(3)]
    columns = planted.SYNCS | {"process": planted.TEXT}
    table_of = planted.table(columns, syncs)
    planted.write_run(
        folder, planted.SyscallTables(planted.table(planted.FILES, [planted.WAL]), table_of), 1
    )
    run.record.load = LoadShape(kind="closed", clients=clients)
    run.record.parameters["workload"] = {"kind": "pgbench", **workload}
    return run


def test_of_one_client_the_logs_syncs_are_its_own(tmp_path: Path) -> None:
    (found,) = slow_transactions(transactions_of(tmp_path))
    assert (found.of, found.operations, found.slow, found.threshold_ns) == (
        "transaction", 2500, 50, 9 * MS,
    )  # fmt: skip
    assert [(part.name, part.slow_ns) for part in found.parts] == [
        ("wal_fsync", 7 * MS), ("other", 2 * MS)
    ]  # fmt: skip
    assert found.parts[0].ns == pytest.approx(0.02 * 7 * MS + 0.98 * 0.4 * MS)
    assert found.mean_ns == pytest.approx(1.16 * MS)


def test_a_late_start_is_a_part_of_its_own(tmp_path: Path) -> None:
    (found,) = slow_transactions(transactions_of(tmp_path, lag_ns=3 * MS))
    assert [(part.name, part.slow_ns) for part in found.parts] == [
        ("late", 3 * MS), ("wal_fsync", 7 * MS), ("other", 2 * MS)
    ]  # fmt: skip


def test_nothing_is_said_where_syncs_are_nobodys(tmp_path: Path) -> None:
    assert slow_transactions(transactions_of(tmp_path / "4", clients=4)) == ()
    sampled = transactions_of(tmp_path / "share", sampling_rate=0.1)
    assert slow_transactions(sampled) == ()
    # Clocks that do not agree: all syncs lie behind the last transaction.
    assert slow_transactions(transactions_of(tmp_path / "off", shift_ns=3600 * 10**9)) == ()
    bare = transactions_of(tmp_path / "bare")
    for path in (tmp_path / "bare" / "evidence").iterdir():
        path.unlink()
    assert slow_transactions(bare) == ()
