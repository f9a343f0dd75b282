"""MariaDB's evidence: what a call is, which part it is, and parts against other witnesses."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from time import clock_getres
from typing import Any

import pytest
from nfslab.evidence.anatomy import innodb
from nfslab.evidence.anatomy.parts import UNATTRIBUTED, AnatomyFacts
from nfslab.evidence.base import SealedRun
from nfslab.evidence.collector import Evidence
from nfslab.evidence.mariadb import calls
from nfslab.evidence.mariadb.calls import CALL_SHIFT, FUTEX, NO_CALL, Wait, state_of, wait_of
from nfslab.evidence.mariadb.collector import MariadbCollector, MariadbCollectorParameters
from nfslab.evidence.mariadb.exact_times import TIMES_TABLE
from nfslab.evidence.mariadb.kind import MariadbEvidence
from nfslab.evidence.syscalls.collector import FsyncCollector, FsyncParameters
from nfslab.results.records import LoadShape
from nfslab.workloads.base import Outcome
from nfslab.workloads.tpcb.parameters import TpcbParameters
from nfslab.workloads.tpcb.workload import TpcbWorkload

from tests.evidence.runs import found_of, sealed_run
from tests.machine import needs
from tests.workloads.run_context import run_of, scratch_folder

MS = 1e6
LOG = "InnoDB redo log"
CLASSES = {7: LOG, 8: calls.SOCKET, 9: "InnoDB data"}
CONDITION, LATCH_WAIT = 0x189, 0x80


def futex(detail: int, value: int = 0) -> int:
    return FUTEX << CALL_SHIFT | detail | value << calls.VALUE_SHIFT


@pytest.mark.parametrize(
    ("state", "wait"),
    [
        (75 << CALL_SHIFT | 7, Wait("fdatasync", LOG)),
        (17 << CALL_SHIFT | 9, Wait("pread64", "InnoDB data")),
        (0 << CALL_SHIFT | 8, Wait(calls.CLIENT, "")),
        (7 << CALL_SHIFT, Wait(calls.CLIENT, "")),
        (18 << CALL_SHIFT | 77, Wait("pwrite64", "")),
        (NO_CALL << CALL_SHIFT, Wait(calls.FAULT, "")),
        (28 << CALL_SHIFT, Wait("call 28", "")),
        (futex(CONDITION | calls.TIMED), Wait(calls.ROW_LOCK, "")),
        (futex(CONDITION | calls.TIMED | calls.OF_PROGRAM), Wait(calls.IDLE, "")),
        (futex(CONDITION), Wait(calls.FLUSH, "")),
        (futex(LATCH_WAIT | calls.OWN), Wait(calls.FLUSH, "")),
        (futex(LATCH_WAIT), Wait(calls.LATCH, "")),
        (futex(LATCH_WAIT | calls.OWN, value=2), Wait(calls.LATCH, "")),
    ],
)
def test_what_a_thread_waits_for_is_told_by_its_call(state: int, wait: Wait) -> None:
    assert wait_of(state, CLASSES) == wait


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("running", None),
        ("", None),
        ("-1 0x7f00 0x55", NO_CALL << CALL_SHIFT),
        ("75 0x7 0x1 0x2 0x3 0x4 0x5 0x7f00 0x55", 75 << CALL_SHIFT | 7),
        ("7 0x7 0x1 0x2 0x3 0x4 0x5 0x7f00 0x55", 7 << CALL_SHIFT),
        ("202 0x5000 0x189 0x0 0x7ffe 0x0 0xffffffff 0x7f00 0x55",
         futex(CONDITION | calls.TIMED | calls.OF_PROGRAM)),
        ("202 0x7f80 0x80 0x0 0x0 0x0 0x0 0x7f00 0x55", futex(LATCH_WAIT | calls.OWN)),
        ("202 0x10 0x80 0x80000001 0x0 0x0 0x0 0x7f00 0x55", futex(LATCH_WAIT, value=3)),
    ],
)  # fmt: skip
def test_a_line_of_proc_is_the_same_state(line: str, state: int | None) -> None:
    assert state_of(line, range(0x4000, 0x6000)) == state


@pytest.mark.parametrize(
    ("wait", "file_class", "part"),
    [
        ("fdatasync", LOG, "wal_fsync"),
        ("pwrite64", LOG, "wal_write"),
        ("pwrite64", f"{LOG} (O_DSYNC)", "wal_fsync"),
        ("pread64", "InnoDB system tablespace", "buffer_read"),
        ("fsync", "InnoDB data", "buffer_write"),
        ("fsync", "MariaDB binary and relay logs", "other_files"),
        ("openat", "", "other_files"),
        (calls.ROW_LOCK, "", "row_lock_waits"),
        (calls.FLUSH, "", "group_commit_wait"),
        (calls.LATCH, "", "lwlock_waits"),
        (calls.CLIENT, "", None),
        (calls.IDLE, "", None),
        ("call 28", "", "other"),
    ],
)
def test_each_wait_is_in_one_part(wait: str, file_class: str, part: str | None) -> None:
    assert innodb.part_of(wait, file_class) == part


@dataclass
class Seen:
    """A run of tpcb that was watched."""

    outcome: Outcome
    evidence: Evidence
    others: list[Evidence]
    run: SealedRun

    @property
    def clients(self) -> list[dict[str, Any]]:
        rows = self.evidence.tables[TIMES_TABLE].to_pylist()
        return [row for row in rows if row["client"]]

    def value(self, metric: str) -> float:
        return self.outcome.metrics[metric].value

    def ns(self, **wanted: str) -> int:
        """Of the load's threads: rows with these values."""
        return sum(row["ns"] for row in self.clients if all(row[k] == v for k, v in wanted.items()))

    def anatomy(self) -> AnatomyFacts:
        made = innodb.anatomy(self.run, None)
        assert made is not None
        assert sum(part.ns for part in made.parts) == pytest.approx(made.mean_ns)
        assert all(part.ns >= 0 for part in made.parts)
        return made

    def parts(self) -> dict[str, float]:
        return {part.name: part.ns for part in self.anatomy().parts}


def watched(tmp_path: Path, *others: Any, way: str = "exact", **given: Any) -> Seen:
    """A load, with what was seen of it; parts are of the sealed run's tables."""
    # Longer than who asks now and then which threads are the load's gets no processor.
    common = {"data": "disk", "duration": 6, "warm_up": 1, "engine": "mariadb"}
    work = TpcbWorkload(TpcbParameters.model_validate(common | given))
    if not (answer := work.check()).ok:
        pytest.skip(answer.reason)
    # Not in memory: there MariaDB maps its redo log, and makes no calls on it.
    with scratch_folder(in_memory=False) as root:
        name = f"innodb-{uuid.uuid4().hex[:8]}"
        places = {"data": root / f"{name}-data"}
        with run_of(work, root, name=name, places=places) as run:
            work.prepare(run.context)
            mine = MariadbCollector(MariadbCollectorParameters.model_validate({"way": way}))
            for one in (mine, *others):
                assert one.applies(run.context).ok
                one.start(run.context)
            outcome = work.measure(run.context)
            evidence, rest = mine.stop(), [one.stop() for one in others]
            assert work.verify(run.context, outcome)[0].verdict == "ok"
    assert "incomplete" not in evidence.summary
    tables = {name: table.to_pydict() for name, table in evidence.tables.items()}
    metrics = {name: metric.value for name, metric in outcome.metrics.items()}
    sealed = sealed_run(tmp_path / name, "mariadb", evidence.summary, tables, metrics)
    sealed.record.load = LoadShape(kind="closed", clients=given.get("clients", 1))
    return Seen(outcome, evidence, rest, sealed)


def exactly(tmp_path: Path, *others: Any, **given: Any) -> Seen:
    seen = watched(tmp_path, *others, **given)
    if missing := seen.evidence.summary.get("not_exact"):
        pytest.skip(missing)
    return seen


@pytest.mark.system
@needs.ebpf
@pytest.mark.long
def test_no_nanosecond_of_a_clients_thread_is_left_out(tmp_path: Path) -> None:
    seen = exactly(tmp_path, clients=3, scale=3, duration=3)
    by_thread: dict[int, int] = {}
    for row in seen.clients:
        by_thread[row["tid"]] = by_thread.get(row["tid"], 0) + row["ns"]
    assert len(by_thread) == 3
    # A thread begins a moment before its client's first transaction, and ends after its last one:
    # that of one client may come long behind that of another.
    rows = seen.outcome.samples["transactions"].to_pandas()
    rows["begin_ns"] = rows["t_ns"] - rows["latency_ns"]
    of_client = rows.groupby("client")
    spans_ns = sorted(of_client["t_ns"].max() - of_client["begin_ns"].min())
    for ns, span_ns in zip(sorted(by_thread.values()), spans_ns, strict=True):
        assert ns >= 0.9 * span_ns
    made = seen.anatomy()
    assert {part.source for part in made.parts} == {"exact"}
    assert "client" in seen.parts()
    assert UNATTRIBUTED not in seen.parts()


@pytest.mark.long
@needs.ebpf
def test_syncs_of_the_log_are_those_that_system_calls_tell(tmp_path: Path) -> None:
    """A call is what it was blocked for, and what it was on a processor, or waited for one."""
    seen = exactly(tmp_path, FsyncCollector(FsyncParameters()), clients=2, scale=2)
    tables = seen.others[0].tables
    of_log = {row["file_id"] for row in tables["syscall_files"].to_pylist() if row["class"] == LOG}
    threads = set(seen.evidence.summary["threads"])
    called = [
        row["latency_ns"]
        for row in tables["syscall_syncs"].to_pylist()
        if row["file_id"] in of_log and row["tid"] in threads and row["t_ns"] >= 0
    ]
    assert called
    blocked = seen.ns(wait="fdatasync", file_class=LOG) + seen.ns(wait="fsync", file_class=LOG)
    beside = seen.ns(kind="running") + seen.ns(kind="queued")
    # Both begin and end a moment apart: a sync or two.
    assert blocked <= sum(called) + 2 * max(called)
    assert blocked + beside >= sum(called) - 2 * max(called)
    assert seen.parts()["wal_fsync"] == pytest.approx(blocked / seen.value("transactions"))


@pytest.mark.long
@needs.ebpf
def test_row_locks_are_those_that_innodb_counts(tmp_path: Path) -> None:
    """It counts each wait, by a clock of some milliseconds, cut off to whole ones."""
    seen = exactly(tmp_path, clients=4, scale=1)
    status = seen.evidence.summary["status"]
    waits, tick_ms = status["Innodb_row_lock_waits"], clock_getres(5) * 1e3
    pauses = sum(row["times"] for row in seen.clients if row["wait"] == calls.ROW_LOCK)
    assert waits > 0
    # Some more or fewer where there are few: a disk that takes long for each commit.
    assert 0.7 * waits - 5 <= pauses <= 1.4 * waits + 5
    blocked = seen.ns(wait=calls.ROW_LOCK)
    assert blocked <= (status["Innodb_row_lock_time"] + waits * (1 + tick_ms)) * MS
    beside = seen.ns(kind="running") + seen.ns(kind="queued")
    assert blocked + beside >= (status["Innodb_row_lock_time"] - waits * tick_ms) * MS


TIMES = {
    "t_ns": [5] * 6, "tid": [3] * 5 + [4], "client": [True] * 5 + [False],
    "kind": ["running", "queued", "blocked", "blocked", "blocked", "blocked"],
    "wait": ["", "", "fdatasync", calls.ROW_LOCK, calls.CLIENT, "pwrite64"],
    "file_class": ["", "", LOG, "", "", "InnoDB data"],
    "ns": [100_000, 200_000, 400_000, 100_000, 900_000, 10**9], "times": [1] * 6,
}  # fmt: skip


def planted(folder: Path, clients: int) -> SealedRun:
    """Ten transactions of 0.1 ms and one thread of the load's that was timed."""
    summary = {"version": "10.11", "threads": [3], "status": {"Innodb_data_fsyncs": 20}}
    metrics = {"transactions": 10.0, "measured_s": 0.001, "latency_mean_ms": 0.1}
    run = sealed_run(folder, "mariadb", summary, {TIMES_TABLE: TIMES}, metrics)
    run.record.load = LoadShape(kind="closed", clients=clients)
    return run


def test_times_become_parts_and_other_threads_are_in_none(tmp_path: Path) -> None:
    made = innodb.anatomy(planted(tmp_path, 1), None)
    assert made is not None
    parts = {part.name: part.ns for part in made.parts}
    assert parts == pytest.approx(
        {"wal_fsync": 40_000, "row_lock_waits": 10_000, "running": 30_000, "client": 20_000}
    )
    (running,) = (part for part in made.parts if part.name == "running")
    assert {part.name: part.ns for part in running.parts} == {"on_cpu": 1e4, "run_queue": 2e4}
    assert made.wants == ("fsync",)


def test_clients_whose_threads_were_not_timed_are_not_waiting_for_themselves(
    tmp_path: Path,
) -> None:
    made = innodb.anatomy(planted(tmp_path, 2), None)
    assert made is not None
    assert [part.name for part in made.parts] == [UNATTRIBUTED]
    assert "Of 2 clients' threads 1" in made.notes[0]


def test_a_section_has_waits_and_counters_of_a_transaction(tmp_path: Path) -> None:
    kind, run = MariadbEvidence(), planted(tmp_path, 1)
    facts = kind.facts(run)
    assert facts.per_transaction == {"Innodb_data_fsyncs": 2.0}
    assert [one.wait for one in facts.waits][:2] == [f"fdatasync: {LOG}", "queued"]
    assert facts.waits[0].threads == pytest.approx(0.4)
    section = kind.section(found_of({"x=1": [(run, facts)]}))
    assert section is not None
    assert section.sentences[0].startswith(f"x=1: most waited for fdatasync: {LOG}")
