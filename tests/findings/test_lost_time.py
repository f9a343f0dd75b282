"""Causes that are no part of the anatomy, and those that a limit beside it tells."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.findings.alone import Alone
from nfslab.findings.base import Finding
from nfslab.findings.calls import Call
from nfslab.findings.registry import findings_alone, findings_of
from nfslab.results.records import CheckRecord, EvidenceRecord, LoadShape, Metric
from nfslab.statistics.checks.dead_time import check_dead_time
from nfslab.statistics.checks.steady_state import check_steady_state
from nfslab.statistics.periods import period_of

from tests.findings.pairs import US, anatomy, calls_pair, compared_sides

PLANTED = {"cold_start", "periodic_job", "generator", "connection_ceiling", "swapping"}
"""By the tests below."""
BLOCKS = 6
CLOSED = {"load": LoadShape(kind="closed", clients=1)}
OPEN = {"load": LoadShape(kind="open", rate_per_s=100.0)}
SECOND = 10**9


def record_of(check: Any) -> CheckRecord:
    """As a run keeps it."""
    return CheckRecord(
        name=check.name, verdict=check.verdict, message=check.message, values=check.values
    )


def warming(rng: np.random.Generator, rate: float, long_s: int) -> CheckRecord:
    """60 s at 1,000 operations a second, after so many seconds at `rate`."""
    rates = np.where(np.arange(60) < long_s, rate, 1000.0) * rng.normal(1, 0.01, 60)
    return record_of(check_steady_state(rates, SECOND))


def stopping(rng: np.random.Generator, begins_s: list[float], long_s: float) -> CheckRecord:
    """30 s of operations 1 ms apart, but for these stretches."""
    ends = np.cumsum(rng.exponential(1e6, 30_000))
    for begin in begins_s:
        ends = ends[(ends < begin * SECOND) | (ends > (begin + long_s) * SECOND)]
    return record_of(check_dead_time(ends[ends < 30 * SECOND], 30 * SECOND))


def runs(checks: list[CheckRecord], mean_us: float, record: dict[str, Any]) -> list[Any]:
    """(facts, record) of each run."""
    rng = np.random.default_rng(7)
    return [
        (anatomy({"client": mean_us * US * float(rng.normal(1, 0.01))}, frozenset()),
         record | {"checks": [check]})
        for check in checks
    ]  # fmt: skip


def found_of(base: list[Any], new: list[Any]) -> list[Finding]:
    """What is found of these runs."""
    pair = compared_sides({"base": [one for one, _ in base], "new": [one for one, _ in new]})
    for side, kept in zip(pair.sides, (base, new), strict=True):
        for run, (_, record) in zip(side, kept, strict=True):
            for name, value in record.items():
                setattr(run.run.record, name, value)
    return findings_of(pair)


def test_a_warm_up_is_as_large_as_its_arithmetic() -> None:
    """20 of 60 s at half the rate: 5/6 of the mean rate, so a sixth of the mean time is lost."""
    rng = np.random.default_rng(1)
    base = runs([warming(rng, 1000, 0) for _ in range(BLOCKS)], 1000, CLOSED)
    cold = runs([warming(rng, 500, 20) for _ in range(BLOCKS)], 1200, CLOSED)
    (found,) = [one for one in found_of(base, cold) if one.cause == "cold_start"]
    assert found.interval_ns[0] <= 1200 * US / 6 <= found.interval_ns[1]
    assert found.effect_ns == pytest.approx(200 * US, rel=0.1)
    # Both begin cold, or the load is open: nothing of it is the difference.
    same = runs([warming(rng, 500, 20) for _ in range(BLOCKS)], 1000, CLOSED)
    assert all(one.cause != "cold_start" for one in found_of(same, cold))
    opened = runs([warming(rng, 500, 20) for _ in range(BLOCKS)], 1200, OPEN)
    assert all(one.cause != "cold_start" for one in found_of(base, opened))


def test_a_cold_start_says_why_a_part_is_longer() -> None:
    """All of what reading takes longer is of the beginning: the warm-up is named before it."""
    rng = np.random.default_rng(8)
    sides = {}
    for label, reads_us, long_s in (("base", 10, 0), ("new", 190, 20)):
        checks = [warming(rng, 550, long_s) for _ in range(BLOCKS)]
        sides[label] = runs(checks, 1000, CLOSED)
        for number, (_, record) in enumerate(sides[label]):
            parts = {"client": 1000 * US, "buffer_read": reads_us * US * float(rng.normal(1, 0.02))}
            sides[label][number] = anatomy(parts, frozenset()), record
    found = found_of(sides["base"], sides["new"])
    assert [one.cause for one in found] == ["cold_start", "data_reads"]
    assert found[1].effect_ns == pytest.approx(180 * US, rel=0.05)


EVERY_FIVE = [2.0, 7.0, 12.0, 17.0, 22.0, 27.0]
AT_ANY_TIME = [1.0, 3.5, 11.0, 14.0, 22.0, 28.0]


def test_stops_at_equal_intervals_are_periodic() -> None:
    rng = np.random.default_rng(2)
    base = runs([stopping(rng, [], 0) for _ in range(BLOCKS)], 1000, CLOSED)
    timed = runs([stopping(rng, EVERY_FIVE, 1.0) for _ in range(BLOCKS)], 1250, CLOSED)
    (found,) = [one for one in found_of(base, timed) if one.cause == "periodic_job"]
    assert found.effect_ns == pytest.approx(1250 * US * 6 / 30, rel=0.05)
    assert "every 5.00 s" in found.because
    any_time = runs([stopping(rng, AT_ANY_TIME, 1.0) for _ in range(BLOCKS)], 1250, CLOSED)
    assert all(one.cause != "periodic_job" for one in found_of(base, any_time))


def test_pauses_that_the_server_tells_are_the_servers() -> None:
    rng = np.random.default_rng(3)
    base = runs([stopping(rng, [], 0) for _ in range(BLOCKS)], 1000, CLOSED)
    timed = [
        (anatomy({"client": 1000 * US, "storage/server pause": 250 * US}, frozenset()),
         CLOSED | {"checks": [stopping(rng, EVERY_FIVE, 1.0)]})
        for _ in range(BLOCKS)
    ]  # fmt: skip
    causes = [one.cause for one in found_of(base, timed)]
    assert "server_stall" in causes
    assert "periodic_job" not in causes


def test_independent_instants_are_hardly_ever_regular() -> None:
    rng = np.random.default_rng(4)
    regular = sum(period_of(np.cumsum(rng.exponential(1.0, 5))) is not None for _ in range(20_000))
    assert regular / 20_000 < 1e-3
    assert period_of([0, 10, 20, 30, 41]) == pytest.approx(10.25)
    assert period_of([0, 10, 20, 30]) is None
    assert period_of([5, 5, 5, 5, 5]) is None


def busy(share: float, threads: int) -> dict[str, Any]:
    """10 s, 5,000 transactions, that share of pgbench's threads' time on a processor."""
    values = {"client_cpu_s_per_transaction": share * 10 * threads / 5000,
              "transactions": 5000.0, "measured_s": 10.0}  # fmt: skip
    return {
        "metrics": {name: Metric(value=value, unit="s") for name, value in values.items()},
        "parameters": {"workload": {"clients": 8, "threads": threads}},
    }


@pytest.mark.parametrize(("threads", "full"), [(1, True), (2, False)])
def test_a_generator_whose_threads_are_full_is_the_limit(threads: int, full: bool) -> None:
    """The same processor time, of one thread or of two."""
    share = 0.97 / threads
    parts = {"client": 700 * US, "wal_fsync": 100 * US}
    sides = {"base": [anatomy(parts, frozenset())] * 4, "new": [anatomy(parts, frozenset())] * 4}
    made = compared_sides(sides, records={"base": busy(share, threads)})
    found = [one.cause for one in findings_alone(Alone(made.base, made.sides[0]))]
    assert ("generator" in found) is full


def swapped(folder: Path, bytes_per_s: float, waiting: float) -> dict[str, Any]:
    """A record, and beside it the table, of a second in which so much came back from swap."""
    (folder / "evidence").mkdir(parents=True)
    rows = {"t_ns": [k * SECOND // 10 for k in range(1, 11)],
            "swapped_in_bytes_per_s": [bytes_per_s] * 10}  # fmt: skip
    table = pa.table(rows).replace_schema_metadata({"nfslab.format": "1"})
    pq.write_table(table, folder / "evidence" / "system_vm.parquet")
    summary = {"pressure": {"memory": {"some_share": waiting}}}
    return {"evidence": [EvidenceRecord(collector="system", summary=summary)]}


@pytest.mark.parametrize(
    ("bytes_per_s", "waiting", "named"),
    [(8e6, 0.4, True), (8e3, 0.4, False), (8e6, 0.01, False), (0.0, 0.0, False)],
)
def test_pages_that_come_back_and_tasks_that_wait_are_swapping(
    bytes_per_s: float, waiting: float, named: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(6)
    sides = {
        label: [
            anatomy({"running": ns * US * float(rng.normal(1, 0.02)), "client": 300 * US},
                    frozenset())
            for _ in range(BLOCKS)
        ]
        for label, ns in (("base", 500), ("new", 1100))
    }  # fmt: skip
    folders = {label: tmp_path / label for label in sides}
    records = {
        "base": swapped(folders["base"], 0.0, 0.0),
        "new": swapped(folders["new"], bytes_per_s, waiting),
    }
    found = findings_of(compared_sides(sides, records=records, folders=folders))
    assert ("swapping" in {one.cause for one in found}) is named


def connected(number: int) -> dict[str, Any]:
    """A record with a mount of so many connections."""
    return {
        "places": {"data": SimpleNamespace(target="nfs", facts={"nfs": {"transports": number}})}
    }


@pytest.mark.parametrize(
    ("base", "new", "longer", "named"),
    [
        (4, 1, "WRITE", True),
        (4, 4, "WRITE", False),  # as many
        (1, 4, "WRITE", False),  # more
        (4, 1, "GETATTR", False),  # not calls with data
    ],
)
def test_fewer_connections_are_the_cause_of_longer_ways(
    base: int, new: int, longer: str, named: bool
) -> None:
    usual = {"request transit": 100 * US, "server processing": 100 * US, "reply transit": 100 * US}
    calls = {name: Call(1.0, size, usual) for name, size in (("WRITE", 1e6), ("GETATTR", 200.0))}
    slow = calls | {longer: Call(1.0, 1e6, usual | {"request transit": 900 * US})}
    pair = calls_pair(
        calls, slow, noise=0.02, blocks=BLOCKS, rng=np.random.default_rng(5),
        records={"base": connected(base), "new": connected(new)},
    )  # fmt: skip
    first = findings_of(pair)[0]
    assert (first.cause == "connection_ceiling") is named
