"""The collector `rpc`: planted totals come back as exact rates, losses are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from nfslab.evidence.rpc.collector import RpcCollector, RpcCollectorParameters
from nfslab.evidence.rpc.timed_calls import timed_calls
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.collectors.planted_rpc import SECOND, Planted
from tests.workloads.run_context import Run, run_of


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    workload = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    with run_of(workload, tmp_path) as made:
        made.context.timed.start_ns = 10 * SECOND
        yield made


def test_rates_are_exact_differences(run: Run) -> None:
    planted = Planted(lost=4)
    collector = RpcCollector(RpcCollectorParameters(calls=True, interval=0.5))
    run.context.services.rpc_recorders = {"remote": planted}
    collector.start(run.context)
    evidence = collector.stop()
    assert planted.began == (True, SECOND // 2)
    assert planted.ended
    rows = evidence.tables["rpc_series"].to_pylist()
    assert [row["t_ns"] for row in rows] == [SECOND // 2, 3 * SECOND // 2, 5 * SECOND // 2]
    assert [row["answered_per_s"] for row in rows] == [100.0, 10.0, 0.0]
    # 100 ms over 50 calls, 100 ms over 10, and no call at all.
    assert [row["round_trip_ms"] for row in rows] == [2.0, 10.0, None]
    assert [row["queue"] for row in rows] == [8, 9, 0]
    assert {row["target"] for row in rows} == {"remote"}
    calls = evidence.tables["rpc_calls"].to_pylist()
    assert [(row["t_ns"], row["xid"]) for row in calls] == [(SECOND, 1), (2 * SECOND, 2)]
    assert evidence.tables["rpc_tcp"].num_rows == 4
    summary = evidence.summary["clients"]["remote"]
    assert summary["counters"] == {"answered": 60}
    (read,) = summary["operations"]
    assert (read["operation"], read["watched_calls"]) == ("READ", 20), "40 prepared the run"
    assert evidence.summary["notes"] == ["remote: 4 calls were lost: they came too fast"]
    assert evidence.cpu_s is not None
    assert evidence.cpu_s >= 0


def test_two_clients_are_told_apart(run: Run) -> None:
    collector = RpcCollector(RpcCollectorParameters())
    run.context.services.rpc_recorders = {"data": Planted(), "log": Planted()}
    collector.start(run.context)
    table = collector.stop().tables["rpc_series"]
    assert table.num_rows == 6
    assert sorted(set(table["target"].to_pylist())) == ["data", "log"]


def test_without_a_client_of_ours_it_says_so(run: Run) -> None:
    collector = RpcCollector(RpcCollectorParameters())
    assert not collector.applies(run.context).ok
    assert collector.stop().summary == {"incomplete": "it was never started"}


def test_calls_of_the_timed_part_are_counted_at_its_ends(run: Run) -> None:
    """100 at 10 s, 150 at 10.5 s, 160 at 11.5 s: between 10.25 s and 11 s 25 and 5 of them."""
    run.context.services.rpc_recorders = {"target": Planted()}  # type: ignore[dict-item]
    collector = RpcCollector(RpcCollectorParameters(interval=0.5))
    collector.start(run.context)
    run.context.timed.was(10 * SECOND + SECOND // 4, 11 * SECOND)
    evidence = collector.stop()
    (operation,) = evidence.summary["clients"]["target"]["operations"]
    assert operation["timed_calls"] == pytest.approx(30)


def test_calls_of_the_timed_part_are_not_told_of_rare_readings(run: Run) -> None:
    """Each 0.1 s was asked for: of the 60 calls, 50 may lie before its begin, or behind it."""
    run.context.services.rpc_recorders = {"target": Planted()}  # type: ignore[dict-item]
    collector = RpcCollector(RpcCollectorParameters(interval=0.05))
    collector.start(run.context)
    run.context.timed.was(10 * SECOND + SECOND // 4, 11 * SECOND)
    evidence = collector.stop()
    (operation,) = evidence.summary["clients"]["target"]["operations"]
    assert operation["timed_calls"] is None
    assert any("not all told" in note for note in evidence.summary["notes"])


def totals(*rows: tuple[float, str, int]) -> pa.Table:
    columns = {"at_ns": [round(t * SECOND) for t, _, _ in rows],
               "operation": [name for _, name, _ in rows],
               "calls": [calls for _, _, calls in rows]}  # fmt: skip
    return pa.table(columns)


@pytest.mark.parametrize(
    ("start_s", "end_s", "expected"),
    [
        (1, 9, ({"READ": 80, "COMMIT": 0}, True)),  # a reading at each end
        (0.5, 9, ({"READ": 80 + 5, "COMMIT": 0}, True)),
        (1, 11, ({"COMMIT": 0}, False)),  # 20 READs of 100 may be behind it, all COMMITs before
        (1, 31, ({}, False)),  # nothing was read near its end
        (-9, 9, ({}, False)),  # nor near its begin
    ],
)
def test_what_may_lie_outside_of_the_timed_part_is_not_counted_in_it(
    start_s: float, end_s: float, expected: tuple[dict[str, float], bool]
) -> None:
    """READ: ten calls a second, read at 0 to 9 s and at 12 s; COMMIT: two calls at first."""
    read = [(float(t), "READ", 10 * t) for t in (*range(10), 12)]
    commit = [(float(t), "COMMIT", 2) for t in (*range(10), 12)]
    table = totals(*read, *commit)
    found, every = timed_calls(table, round(start_s * SECOND), round(end_s * SECOND), 0.3 * SECOND)
    assert ({k: pytest.approx(v) for k, v in expected[0].items()}, expected[1]) == (found, every)
