"""Blocks are complete and random, the order is reproducible, and what is missing is found."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nfslab.experiment.forecast import RUN_S, estimated_run_s
from nfslab.experiment.identity import block_order
from nfslab.experiment.plan import missing_runs, next_position, planned_runs
from nfslab.experiment.preflight import needed_bytes
from nfslab.experiment.reading import read_experiment
from nfslab.results.records import CatalogueLine
from nfslab.targets.registry import target_class

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.experiment.plan import PlannedRun
    from nfslab.experiment.setup import Point


@pytest.fixture
def points(experiment_file: Callable[..., Path]) -> list[Point]:
    return read_experiment(experiment_file()).points


def line(run: PlannedRun, status: Any = "ok", **changes: Any) -> CatalogueLine:
    content = {
        "run_id": run.run_id,
        "point_id": run.point.point_id,
        "block": run.block,
        "position": 0,
        "attempt": run.attempt,
        "status": status,
        "factors": {},
        "metrics": {},
        "started_unix_ns": 0,
        "duration_ns": 1,
    }
    return CatalogueLine.model_validate(content | changes)


@given(st.integers(0, 2**63 - 1), st.integers(0, 1000), st.integers(0, 50))
def test_every_block_holds_every_point_once(seed: int, block: int, count: int) -> None:
    assert sorted(block_order(seed, block, count)) == list(range(count))


def test_the_order_of_a_seed_is_fixed_for_ever() -> None:
    """Written down once: a later version must carry a stored seed out in the same order."""
    assert [block_order(2001, block, 6) for block in range(3)] == [
        [3, 5, 2, 0, 1, 4],
        [5, 4, 1, 0, 2, 3],
        [2, 4, 1, 5, 3, 0],
    ]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**40))
def test_every_place_in_a_block_is_equally_likely(seed: int) -> None:
    """Each of 4 points must come first in about a quarter of 800 blocks (6 sigma: 73)."""
    first = Counter(block_order(seed, block, 4)[0] for block in range(800))
    assert all(abs(first[point] - 200) < 74 for point in range(4))


def test_fixed_order_keeps_the_file_s_within_each_block(points: list[Point]) -> None:
    runs = planned_runs(points, 2, "fixed", seed=1)
    assert [run.point.index for run in runs] == [0, 1, 2, 3, 4, 5] * 2
    assert [run.block for run in runs] == [0] * 6 + [1] * 6


def test_blocks_follow_each_other_whole(points: list[Point]) -> None:
    runs = planned_runs(points, 4, "blocks", seed=1)
    assert [run.block for run in runs] == [b for b in range(4) for _ in range(6)]
    orders = {tuple(r.point.index for r in runs if r.block == b) for b in range(4)}
    assert len(orders) > 1


def test_more_repetitions_extend_the_order(points: list[Point]) -> None:
    few, many = (planned_runs(points, n, "blocks", seed=5) for n in (2, 7))
    assert many[: len(few)] == few


def test_nothing_is_missing_when_everything_is_there(points: list[Point]) -> None:
    planned = planned_runs(points, 2, "blocks", seed=1)
    assert missing_runs(planned, map(line, planned), keep_failed=False) == []
    assert missing_runs(planned, [], keep_failed=False) == planned


def test_failed_runs_are_tried_again_as_a_further_attempt(points: list[Point]) -> None:
    planned = planned_runs(points, 1, "fixed", seed=1)
    sealed = [line(planned[0], "failed"), *map(line, planned[1:])]
    (again,) = missing_runs(planned, sealed, keep_failed=False)
    assert (again.point, again.attempt) == (planned[0].point, 2)
    assert again.run_id.endswith("-a2")
    assert missing_runs(planned, sealed, keep_failed=True) == []


def test_only_the_newest_attempt_counts(points: list[Point]) -> None:
    planned = planned_runs(points, 1, "fixed", seed=1)[:1]
    failed_then_ok = [line(planned[0], "failed"), line(planned[0], "ok", attempt=2)]
    assert missing_runs(planned, failed_then_ok, keep_failed=False) == []
    assert missing_runs(planned, reversed(failed_then_ok), keep_failed=False) == []
    ok_then_failed = [line(planned[0]), line(planned[0], "failed", attempt=2)]
    (again,) = missing_runs(planned, ok_then_failed, keep_failed=False)
    assert again.attempt == 3


def test_names_of_damaged_runs_are_not_taken_again(points: list[Point]) -> None:
    planned = planned_runs(points, 1, "fixed", seed=1)[:1]
    taken = {planned[0].run_id, planned[0].run_id.replace("-a1", "-a2")}
    (again,) = missing_runs(planned, [], keep_failed=False, taken=taken)
    assert again.attempt == 3


def test_positions_go_on_counting(points: list[Point]) -> None:
    planned = planned_runs(points, 1, "fixed", seed=1)
    assert next_position([]) == 0
    assert next_position([line(planned[0], position=4), line(planned[1], position=2)]) == 5


def test_filling_a_slow_target_is_in_the_estimate(tmp_path: Path) -> None:
    """By arithmetic: the same bytes at the rates of both kinds of target."""
    text = (
        '[experiment]\nname = "x"\n[targets.disk]\nkind = "local"\n[targets.nfs]\nkind = "nfs"\n'
        '[workload]\nkind = "pgbench"\ndata = "disk"\nwal = "disk"\nscale = 8\nduration = "2s"\n'
        '[[axes]]\nname = "where"\nparameters = ["workload.data", "workload.wal"]\n'
        'values = [["disk", "disk"], ["nfs", "nfs"]]\n'
    )
    (tmp_path / "x.toml").write_text(text)
    here, there = read_experiment(tmp_path / "x.toml").points
    needed = sum(needed_bytes(there).values())
    rates = [target_class(kind).fill_bytes_per_s for kind in ("local", "nfs")]
    extra_s = estimated_run_s(there) - estimated_run_s(here)
    assert extra_s == pytest.approx(needed / rates[1] - needed / rates[0])
    assert estimated_run_s(here) > 2.0 + RUN_S
