"""An operation's parts: they sum to it, follow planted samples exactly, and differ as planted."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nfslab.evidence.anatomy import transactions
from nfslab.evidence.anatomy.inner import within_log_sync
from nfslab.evidence.anatomy.kind import AnatomyEvidence
from nfslab.evidence.anatomy.parts import (
    UNATTRIBUTED,
    AnatomyFacts,
    PartFacts,
    divided,
    with_rest,
)
from nfslab.evidence.anatomy.section import COLOURS, _coloured
from nfslab.evidence.anatomy.whole import ORDER
from nfslab.evidence.base import SealedRun
from nfslab.evidence.nfs_server.breakdown import BreakdownFacts, OperationBreakdown
from nfslab.evidence.postgres.exact_waits import TIMES_TABLE
from nfslab.evidence.syscalls.facts import SyscallFacts, WaitFacts
from nfslab.evidence.syscalls.sync_share import LogShare
from nfslab.evidence.syscalls.sync_steps import StepsRow
from nfslab.evidence.syscalls.tables import ClassRow
from nfslab.results.records import LoadShape
from nfslab.statistics.latency_parts import PartsSummary

from tests.evidence.runs import sealed_run

TICKS = 100
CLIENTS = 4
SECONDS = 10.0
TRANSACTIONS = 20_000
"""2 ms of a client's time each."""
US = 1e3


def part(name: str, ns: float) -> PartFacts:
    return PartFacts(name=name, ns=ns, source="exact")


def total(parts: Any) -> float:
    return float(sum(one.ns for one in parts))


@given(st.lists(st.floats(0, 1e9), max_size=8), st.floats(1, 1e9))
def test_parts_sum_to_the_whole_and_none_is_below_zero(values: list[float], whole: float) -> None:
    found = with_rest([part(f"p{k}", ns) for k, ns in enumerate(values)], whole)
    assert total(found) == pytest.approx(whole)
    assert all(one.ns >= 0 for one in found)


@given(st.lists(st.one_of(st.none(), st.floats(-0.5, 1.5)), max_size=6))
def test_shares_divide_a_part_whatever_they_sum_to(shares: list[float | None]) -> None:
    made = divided(part("whole", 7.0), [(f"p{k}", one) for k, one in enumerate(shares)])
    assert total(made.parts) == pytest.approx(7.0)
    assert all(one.ns >= 0 for one in made.parts)


def planted(
    folder: Path,
    counts: dict[tuple[str, str, str], int],
    mean_ms: float,
    settings: dict[str, str] | None = None,
) -> SealedRun:
    """A run in which, of TICKS looks at CLIENTS backends, so many saw one in each wait."""
    looks = itertools.cycle(range(TICKS))
    rows: list[tuple[int, str, str, str, str, int]] = [
        (tick, "checkpointer", "Activity", "CheckpointerMain", "", 1) for tick in range(TICKS)
    ]
    for (event_type, event, state), number in counts.items():
        rows += [
            (next(looks), "client backend", event_type, event, state, 1) for _ in range(number)
        ]
    columns = list(zip(*rows, strict=True))
    table = {
        "t_ns": np.asarray(columns[0]) * 10**8,
        "backend_type": list(columns[1]), "wait_event_type": list(columns[2]),
        "wait_event": list(columns[3]), "state": list(columns[4]),
        "backends": np.asarray(columns[5], np.int32),
    }  # fmt: skip
    run = sealed_run(
        folder, "postgres",
        {"settings": settings or {}, "processors": PROCESSORS},
        {transactions.WAITS_TABLE: table},
        {"transactions": TRANSACTIONS, "measured_s": SECONDS, "latency_mean_ms": mean_ms},
    )  # fmt: skip
    run.record.load = LoadShape(kind="closed", clients=CLIENTS)
    return run


AT_WORK = ("running", "unreported")
"""Sampled as one; the scheduler divides it."""
PROCESSORS = {"watched_ns": 40 * 10**9, "on_cpu_ns": 4 * 10**9, "queued_ns": 10**9}
COUNTS = {
    ("IO", "WALSync", "active"): 100,
    ("LWLock", "WALWrite", "active"): 80,
    ("Lock", "transactionid", "active"): 40,
    ("IO", "DataFileRead", "active"): 20,
    ("", "", "active"): 60,
    ("Client", "ClientRead", "idle in transaction"): 60,
    ("Client", "ClientRead", "idle"): 40,
}
"""Of 400: a backend's state in a look is 5 us of a transaction."""


def test_more_than_there_is_room_for_is_divided_in_proportion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At work for 300 us a transaction by samples; 200 us on a processor and 400 us waiting for one
    by the scheduler, part of which lies within waits: neither hides the other."""
    monkeypatch.setitem(PROCESSORS, "queued_ns", 8 * 10**9)
    found = transactions.anatomy(planted(tmp_path, COUNTS, 1.8), None)
    assert found is not None
    times = {path: one.ns / US for path, one in found.by_path().items()}
    assert times["running/on_cpu"] == pytest.approx(100)
    assert times["running/run_queue"] == pytest.approx(200)
    assert "unreported" not in times


def test_samples_become_times_by_littles_law(tmp_path: Path) -> None:
    found = transactions.anatomy(planted(tmp_path, COUNTS, 1.8), None)
    assert found is not None
    times = {path: one.ns / US for path, one in found.by_path().items()}
    assert times == {
        "wal_fsync": pytest.approx(500), "group_commit_wait": pytest.approx(400),
        "row_lock_waits": pytest.approx(200), "buffer_read": pytest.approx(100),
        "running": pytest.approx(250),
        # A tenth of 4 backends on a processor, a fortieth waiting for one.
        "running/run_queue": pytest.approx(50), "running/on_cpu": pytest.approx(200),
        "unreported": pytest.approx(50),
        # 2 ms a cycle, 0.2 ms of them between transactions.
        "client": pytest.approx(300),
    }  # fmt: skip
    assert total(found.parts) == pytest.approx(1.8e6)
    assert found.wants == ("fsync",)


@pytest.mark.parametrize(
    ("summary", "clients", "doubt"),
    [({"memory": {}}, 1, 0.1), ({}, CLIENTS, 0.4), ({}, 1, 4.0)],
    ids=["memory", "sql", "sql of one client"],
)
def test_a_sampled_part_says_how_far_it_may_be_off(
    tmp_path: Path, summary: dict[str, Any], clients: int, doubt: float
) -> None:
    """By how far samples were off exact times: 0.90 to 1.03, 0.60 to 1.12, 0.18 to 0.80 of them."""
    run = planted(tmp_path, COUNTS, 1.8)
    run.summary("postgres").update(summary)
    run.record.load = LoadShape(kind="closed", clients=clients)
    found = transactions.anatomy(run, None)
    assert found is not None
    sampled = [one for one in found.parts if one.source == "sampled"]
    assert sampled
    at_work_ns = sum(one.ns for one in sampled if one.name in AT_WORK)
    known = [at_work_ns if one.name in AT_WORK else one.ns for one in sampled]
    assert [one.doubt_ns for one in sampled] == pytest.approx([doubt * ns for ns in known])
    assert not any(one.doubt_ns for one in found.parts if one.source == "exact")


def test_what_was_refused_is_noted(tmp_path: Path) -> None:
    run = planted(tmp_path, COUNTS, 1.8)
    run.summary("postgres").update(not_memory="not this user", not_exact="no eBPF")
    found = transactions.anatomy(run, None)
    assert found is not None
    assert [("not this user" in note, "no eBPF" in note) for note in found.notes] == [
        (True, False), (False, True)
    ]  # fmt: skip


@pytest.mark.parametrize("connect_each", [False, True])
def test_clients_whose_backends_are_not_seen_are_not_waiting_for_themselves(
    tmp_path: Path, connect_each: bool
) -> None:
    """One of four is seen at a time, in a sync: the others may be in anything."""
    run = planted(tmp_path, {("IO", "WALSync", "active"): TICKS}, 1.8)
    run.record.parameters["workload"] = {"connect_each": connect_each}
    found = transactions.anatomy(run, None)
    assert found is not None
    parts = {one.name for one in found.parts}
    # Who connects anew for each transaction has a backend for a part of the time alone.
    assert parts == ({"wal_fsync", "client"} if connect_each else {UNATTRIBUTED})
    assert bool(found.notes) != connect_each


def test_means_of_stretches_have_the_error_of_what_was_drawn(tmp_path: Path) -> None:
    """Looks drawn at a share that grows from 0.1 to 0.3: the error is that of so many looks, and
    not that of the growth; a stretch that began before the timed part is in no mean."""
    looks, stretches = 25, 100
    shares = np.linspace(0.1, 0.3, stretches)
    rng = np.random.default_rng(3)
    seen = rng.binomial(looks, shares) / looks
    run = planted(tmp_path, COUNTS, 1.8)
    step_ns = 10**8
    table = {
        "t_ns": [step_ns // 2, *(np.arange(1, stretches + 1) * step_ns).tolist()],
        "over_ns": [step_ns] * (stretches + 1),
        "backend_type": ["client backend"] * (stretches + 1),
        "wait_event_type": ["IO"] * (stretches + 1),
        "wait_event": ["WALSync"] * (stretches + 1),
        "state": ["active"] * (stretches + 1),
        "backends": [1000.0, *seen.tolist()],
    }
    sealed_run(tmp_path, tables={transactions.WAITS_TABLE: table})
    run.record.load = None
    found = transactions.anatomy(run, None)
    assert found is not None
    (sync,) = [one for one in found.parts if one.name == "wal_fsync"]
    a_backend_ns = SECONDS / TRANSACTIONS * 1e9
    assert sync.ns == pytest.approx(seen.mean() * a_backend_ns)
    drawn = float(np.sqrt(np.mean(shares * (1 - shares)) / (looks * stretches)))
    # An estimate from 99 differences: its own spread is 9 %.
    assert sync.error_ns == pytest.approx(1.96 * drawn * a_backend_ns, rel=0.35)


def test_samples_beyond_the_latency_shrink_to_it(tmp_path: Path) -> None:
    found = transactions.anatomy(planted(tmp_path, COUNTS, 1.0), None)
    assert found is not None
    assert total(found.parts) == pytest.approx(1.0e6)
    assert found.by_path()["wal_fsync"].ns == pytest.approx(1.0e6 * 500 / 1500)


def test_a_query_has_the_same_parts_and_none_where_it_was_too_short_to_be_seen(
    tmp_path: Path,
) -> None:
    run = planted(tmp_path / "long", COUNTS, 1.8)
    of_transactions = transactions.anatomy(run, None)
    run.record.operations = "queries"
    run.record.metrics["queries"] = run.record.metrics.pop("transactions")
    found = transactions.anatomy(run, None)
    assert found is not None
    assert of_transactions is not None
    assert (found.operation, found.parts) == ("query", of_transactions.parts)
    short = sealed_run(
        tmp_path / "short",
        metrics={"queries": 1, "measured_s": 0.01, "latency_mean_ms": 10.0},
    )
    short.record.operations = "queries"
    assert transactions.anatomy(short, None) is None


def test_without_samples_nothing_is_explained(tmp_path: Path) -> None:
    untracked = planted(tmp_path / "a", COUNTS, 1.8, {"track_activities": "off"})
    bare = sealed_run(tmp_path / "b", metrics={"transactions": 10, "measured_s": 1,
                                               "latency_mean_ms": 3})  # fmt: skip
    for run, mean_ns in ((untracked, 1.8e6), (bare, 3e6)):
        found = transactions.anatomy(run, None)
        assert found is not None
        assert [(one.name, one.ns) for one in found.parts] == [(UNATTRIBUTED, mean_ns)]
        assert found.wants == ("postgres",)
    assert (
        transactions.anatomy(sealed_run(tmp_path / "c", metrics={"transactions": 10}), None) is None
    )


def syscalls(sync_ns: int, steps: list[float]) -> SyscallFacts:
    share = LogShare("PostgreSQL WAL", 100, 100, sync_ns, CLIENTS, 10**10, TRANSACTIONS, 1.8e6)
    row = StepsRow("nfs", "PostgreSQL WAL", "fdatasync", summary_of(steps), 1, 1, 1, 0)
    return SyscallFacts(
        watch={}, has_counts=False, untimed=0, classes=(), total=ClassRow("all", "all"), series=(),
        waits=WaitFacts(steps=(row,), steps_notes=(), blocks=None, blocks_notes=()),
        shares=(share,),
    )  # fmt: skip


def summary_of(shares: list[float]) -> PartsSummary:
    mean = [100 * share for share in shares]
    return PartsSummary(
        10, 100.0, 100, 100, mean, list(shares), [0] * len(shares), 1, [None] * len(shares)
    )


def test_exact_syncs_take_the_samples_place_and_their_sum_stays(tmp_path: Path) -> None:
    exact = syscalls(TRANSACTIONS * 700_000, [0.0, 0.5, 0.25, 0.25])
    found = transactions.anatomy(planted(tmp_path, COUNTS, 1.8), exact)
    assert found is not None
    times = {one.name: one.ns / US for one in found.parts}
    assert times["wal_fsync"] == 700
    assert times["row_lock_waits"] == pytest.approx(200 * 800 / 1000)
    assert times["client"] == pytest.approx(300), "what the backends did keeps its sum"
    (note,) = found.notes
    assert {"0.7", "0.5"} <= set(note.split())
    agreeing = syscalls(TRANSACTIONS * 505_000, [1.0, 0, 0, 0])
    agreed = transactions.anatomy(planted(tmp_path, COUNTS, 1.8), agreeing)
    assert agreed is not None
    assert agreed.notes == ()


TIMES = [
    ("client backend", "blocked", "IO", "WALSync", 600),
    ("client backend", "blocked", "LWLock", "WALWrite", 350),
    ("client backend", "blocked", "LWLock", "", 50),
    ("client backend", "blocked", "IO", "AioIoCompletion", 75),
    ("client backend", "blocked", "Client", "", 900),
    ("client backend", "blocked", "", "", 25),
    ("client backend", "running", "", "", 200),
    ("client backend", "queued", "", "", 100),
    ("", "blocked", "IO", "WALSync", 5000),
    ("", "running", "", "", 5000),
]
"""Kind of process, kind of time, wait, us of a transaction."""


def test_every_pause_timed_gives_exact_parts_and_samples_only_notes(tmp_path: Path) -> None:
    run = planted(tmp_path, COUNTS, 1.8)
    names = ("backend_type", "kind", "wait_event_type", "wait_event", "ns")
    columns = [[*each] for each in zip(*TIMES, strict=True)]
    times: dict[str, Any] = dict(zip(names, columns, strict=True))
    # Of two backends, half each: pids are summed up.
    halves = {name: values * 2 for name, values in times.items()}
    halves["ns"] = [ns * 1000 * TRANSACTIONS // 2 for ns in halves["ns"]]
    halves["t_ns"] = [10**10] * 2 * len(TIMES)
    halves["pid"] = [1] * len(TIMES) + [2] * len(TIMES)
    sealed_run(tmp_path, tables={TIMES_TABLE: halves})
    found = transactions.anatomy(run, syscalls(TRANSACTIONS * 700_000, [1.0, 0, 0, 0]))
    assert found is not None
    assert {path: one.ns / US for path, one in found.by_path().items()} == {
        "wal_fsync": pytest.approx(600), "group_commit_wait": pytest.approx(350),
        "lwlock_waits": pytest.approx(50), "buffer_read": pytest.approx(75),
        "running": pytest.approx(300), "running/on_cpu": pytest.approx(200),
        "running/run_queue": pytest.approx(100),
        "unreported": pytest.approx(25), "client": pytest.approx(400),
    }  # fmt: skip
    assert total(found.parts) == pytest.approx(1.8e6)
    assert {one.source for one in found.by_path().values()} == {"exact"}
    # Every look saw one backend in a sync: their error is 0, and 100 us are beyond 3 % of 1.8 ms.
    (note,) = found.notes
    assert "WAL fsync 0.5 ms by samples, 0.6 ms by every pause" in note
    assert "row-lock waits" not in note, "200 us that may have been on a processor"


def test_a_sync_is_its_steps_and_a_step_its_calls() -> None:
    commit = OperationBreakdown("nfs", "COMMIT", summary_of([0.1, 0.2, 0.1, 0.3, 0.1, 0.2]))
    calls = BreakdownFacts(rows=(commit,), calls=1, left_out={}, negative={})
    made = within_log_sync(part("wal_fsync", 1000.0), syscalls(1, [0.1, 0.2, 0.6, 0.1]), calls)
    times = {path: one.ns for path, one in made.walk()}
    assert times["wal_fsync/committing"] == pytest.approx(600)
    assert times["wal_fsync/committing/server processing"] == pytest.approx(180)
    assert times["wal_fsync/committing/reply transit"] == pytest.approx(600 * 0.3)
    assert times["wal_fsync/rest"] == pytest.approx(100)
    for path, one in made.walk():
        assert not one.parts or total(one.parts) == pytest.approx(one.ns), path


def test_a_sync_that_was_blocked_shorter_than_its_call_has_a_shorter_rest() -> None:
    """A call of 1000 ns, 600 of them blocked: 400 in the COMMIT, 100 in WRITEs, 100 are left."""
    seen = syscalls(TRANSACTIONS * 1000, [0.0, 0.1, 0.4, 0.5])
    made = within_log_sync(part("wal_fsync", 600.0), seen, None)
    times = {one.name: one.ns for one in made.parts}
    assert times == {
        "sending": pytest.approx(100), "committing": pytest.approx(400),
        "rest": pytest.approx(100),
    }  # fmt: skip
    # Less was blocked than its calls took: they fill it, and nothing is below zero.
    short = {
        one.name: one.ns for one in within_log_sync(part("wal_fsync", 250.0), seen, None).parts
    }
    assert short == {"sending": pytest.approx(50), "committing": pytest.approx(200)}
    # Who waits for a group's commit waits for all of that call.
    whole = within_log_sync(part("group_commit_wait", 600.0), seen, None)
    turn = {one.name: one.ns for one in whole.parts}
    assert turn["rest"] == pytest.approx(300)


def test_a_wait_for_another_flush_is_of_the_syncs_that_were_seen() -> None:
    """Syncs of 1000 ns a transaction: of four clients three at most wait for each."""
    seen = syscalls(TRANSACTIONS * 1000, [0.0, 0.1, 0.4, 0.5])
    whole = within_log_sync(part("group_commit_wait", 5000.0), seen, None)
    times = {one.name: one.ns for one in whole.parts}
    assert times == {
        "sending": pytest.approx(300), "committing": pytest.approx(1200),
        "rest": pytest.approx(1500), UNATTRIBUTED: pytest.approx(2000),
    }  # fmt: skip


PHASE = {
    "t_ns": 0, "phase": "random_write", "wall_ns": 4_000_000, "threads": 2, "operations": 100,
    "user_ns": 500_000, "system_ns": 1_500_000, "final_sync_ns": 1_000_000,
}  # fmt: skip


def of_files(folder: Path, rows: list[dict[str, Any]]) -> AnatomyFacts:
    (folder / "samples").mkdir(parents=True)
    run = sealed_run(folder)
    run.record.parameters["workload"] = {"kind": "files"}
    pq.write_table(pa.Table.from_pylist(rows), folder / "samples" / "phases.parquet")
    found = AnatomyEvidence().facts(run)
    assert found is not None
    return found


def test_an_operation_on_files_is_cpu_waiting_and_the_final_sync(tmp_path: Path) -> None:
    one = of_files(tmp_path / "one", [PHASE])
    assert one.mean_ns == 80_000
    assert {path: found.ns for path, found in one.by_path().items()} == {
        "program": 5_000, "kernel": 15_000, "final_sync": 20_000, "storage": 40_000,
    }  # fmt: skip
    both = of_files(tmp_path / "both", [PHASE, PHASE | {"phase": "seeks", "wall_ns": 9_000_000}])
    assert both.mean_ns == 13_000_000
    times = {path: found.ns for path, found in both.by_path().items()}
    assert times["seeks"] == 9_000_000
    assert times["seeks/storage"] == 9_000_000 - 250_000 - 750_000 - 1_000_000


def test_of_an_engine_that_is_not_known_nothing_is_told(tmp_path: Path) -> None:
    """Its waits are not known: all of it would be "unattributed"."""
    run = sealed_run(tmp_path, metrics={"transactions": 10, "measured_s": 1, "latency_mean_ms": 1})
    for engine, told in (("postgres", True), ("mariadb", True), ("another", False)):
        run.record.parameters["workload"] = {"kind": "tpcb", "engine": engine}
        assert AnatomyEvidence().present(run) == told


def test_parts_have_colours_of_their_own_until_there_are_none() -> None:
    colours = [part.colour for part in _coloured([*ORDER, "client"])]
    some = [colour for colour in colours if colour]
    assert len(set(some)) == len(some) == len(COLOURS)
    few = ["buffer_write", "row_lock_waits", "running", "buffer_read", "wal_fsync", "client"]
    assert len({part.colour for part in _coloured(few)} - {""}) == len(few)
