"""Base against new: the right points are paired, planted effects come out as planted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nfslab.errors import UsageError
from nfslab.results.comparison import (
    NOT_INTERLEAVED,
    SelectionComparison,
    compare_selections,
)
from nfslab.results.selection import parse_selection

from tests.report.synthetic import Recipe, shared_pgbench, write_pgbench

SMALL: dict[str, Any] = {
    "clients": (1, 5, 10),
    "samples": False,
    "evidence": False,
}


def compare(base: str, new: str, *metrics: str) -> SelectionComparison:
    return compare_selections(parse_selection(base), parse_selection(new), metrics or None)


def write(folder: Path, **changes: Any) -> str:
    return str(write_pgbench(folder, Recipe(**{**SMALL, "repetitions": 8, **changes})).path)


def planted(**changes: Any) -> str:
    """The same, where nothing is changed."""
    return str(shared_pgbench(Recipe(**{**SMALL, "repetitions": 8, **changes})))


def test_selections_of_one_experiment_are_paired_by_block() -> None:
    """Blocks that drift by 50 % do not hide an effect of 25 %: only if they are paired."""
    path = planted(block_spread=0.5, spread=0.01)
    found = compare(f"{path}:placement=together", f"{path}:placement=log apart")
    assert found.paired_by_block
    assert [pair.label for pair in found.points] == ["clients=1", "clients=5", "clients=10"]
    for result in found.results["tps"]:
        assert result.verdict == "faster"
        assert result.ratio == pytest.approx(1.25, rel=0.03)
        assert result.n_pairs == 8
        assert result.n_comparisons == 3


def test_the_ratio_is_that_of_the_values() -> None:
    path = planted()
    found = compare(f"{path}:placement=together", f"{path}:placement=log apart")
    outcomes = parse_selection(path).outcomes
    for pair, result in zip(found.points, found.results["tps"], strict=True):
        side: dict[int, dict[int, float]] = {pair.base: {}, pair.new: {}}
        for line in outcomes.counted:
            index = outcomes.index_of[line.point_id]
            if index in side:
                side[index][line.block] = line.metrics["tps"]
        logs = [np.log(side[pair.new][b] / side[pair.base][b]) for b in side[pair.base]]
        assert result.ratio == pytest.approx(float(np.exp(np.mean(logs))), rel=1e-12)


def test_two_experiments_are_not_paired() -> None:
    base = planted(seed=1)
    new = planted(seed=2, base_tps=240.0, block_spread=0.0)
    found = compare(base, new)
    assert not found.paired_by_block
    assert len(found.points) == 6
    assert {result.verdict for result in found.results["tps"]} == {"faster"}
    assert {result.n_pairs for result in found.results["tps"]} == {0}
    assert found.results["tps"][0].n_comparisons == 6
    assert NOT_INTERLEAVED in found.notes
    within = compare(f"{base}:clients=1", f"{base}:clients=5")
    assert NOT_INTERLEAVED not in within.notes


def test_equal_experiments_show_no_difference() -> None:
    base, new = planted(seed=1), planted(seed=2)
    assert {r.verdict for r in compare(base, new).results["tps"]} == {"inconclusive"}


def test_lower_is_better_for_latencies() -> None:
    path = planted()
    found = compare(
        f"{path}:placement=together", f"{path}:placement=log apart", "latency_p99_ms", "tps"
    )
    assert found.metrics == ["latency_p99_ms", "tps"]
    for result in found.results["latency_p99_ms"]:
        assert result.verdict == "faster"
        assert result.ratio == pytest.approx(1 / 1.25, rel=0.1)


def test_one_repetition_is_unknown() -> None:
    base, new = planted(repetitions=1), planted(seed=2)
    assert {r.verdict for r in compare(base, new).results["tps"]} == {"significance unknown (n=1)"}


def test_points_without_a_partner_are_listed() -> None:
    base = planted(clients=(1, 5, 7))
    new = planted(clients=(1, 5, 30), seed=2)
    found = compare(base, new)
    assert len(found.points) == 4
    assert found.base_only == ["placement=together, clients=7", "placement=log apart, clients=7"]
    assert found.new_only == ["placement=together, clients=30", "placement=log apart, clients=30"]


def test_levels_meet_as_numbers(tmp_path: Path) -> None:
    """The same size written as 128k here and 131072 there is one level."""
    from nfslab.results.store import ExperimentFolder

    paths = []
    for name, level in (("a", "128k"), ("b", 131072)):
        path = write(tmp_path / name, clients=(1,), seed=len(name))
        folder = ExperimentFolder.open(Path(path))
        record = folder.record
        points = [
            point.model_copy(update={"factors": {**point.factors, "clients": level}})
            for point in record.points
        ]
        folder.update_record(record.model_copy(update={"points": points}))
        paths.append(path)
    assert len(compare(*paths).points) == 2


def test_unequal_durability_comes_first() -> None:
    path = planted(volatile=("log apart",))
    found = compare(f"{path}:placement=together", f"{path}:placement=log apart")
    assert re.match("UNEQUAL.* baseline is stable, new is volatile", found.durability_line)
    assert "tmpfs" in found.durability_line
    equal = compare(f"{path}:clients=1", f"{path}:clients=5")
    assert equal.durability_line == ""


def test_what_else_differs_is_listed() -> None:
    base = planted()
    new = planted(
        seed=2,
        measured_s=7.0,
        machine_changes_at_block=0,
        mount_changes_at_block=4,
    )
    listed = {item.what: (item.base, item.new) for item in compare(base, new).differences}
    assert listed == {
        "workload.duration_s": ("3.0", "7.0"),
        "data in effect: mount options": ("rw,relatime", "rw,noatime, rw,relatime"),
        "wal in effect: mount options": ("rw,relatime", "rw,noatime, rw,relatime"),
        "kernel.release": ("6.1.0-18-amd64", "6.1.0-21-amd64"),
    }


def test_only_the_compared_parameter_differs_within_an_experiment() -> None:
    path = planted()
    found = compare(f"{path}:placement=together", f"{path}:placement=log apart")
    assert [item.what for item in found.differences] == [
        "workload.wal",
        "wal in effect: target",
    ]


@pytest.mark.parametrize(
    ("base", "new", "what"),
    [
        ("", "", "same runs"),
        (":clients=1", ":placement=together", "same runs"),
        (":placement=together", ":clients=1,placement=log apart,clients=5", None),
        (":clients=1", ":clients=5", None),
    ],
)
def test_what_can_be_compared_within_an_experiment(
    tmp_path: Path, base: str, new: str, what: str | None
) -> None:
    path = planted()
    if what is None:
        assert compare(path + base, path + new).points
    else:
        with pytest.raises(UsageError, match=what):
            compare(path + base, path + new)


def test_an_axis_that_one_side_lacks_has_to_be_selected(tmp_path: Path) -> None:
    from nfslab.results.store import ExperimentFolder

    base = write(tmp_path / "a")
    new = write(tmp_path / "b", seed=2)
    folder = ExperimentFolder.open(Path(new))
    record = folder.record
    axes = [record.axes[0].model_copy(update={"name": "storage"}), record.axes[1]]
    points = [
        point.model_copy(
            update={
                "factors": {
                    "storage": point.factors["placement"],
                    "clients": point.factors["clients"],
                }
            }
        )
        for point in record.points
    ]
    folder.update_record(record.model_copy(update={"axes": axes, "points": points}))
    with pytest.raises(UsageError, match="several configurations"):
        compare(base, new)
    found = compare(f"{base}:placement=together", f"{new}:storage=log apart")
    assert [pair.label for pair in found.points] == ["clients=1", "clients=5", "clients=10"]


def test_unknown_metrics_name_the_nearest() -> None:
    path = planted()
    with pytest.raises(UsageError, match="no metric 'tsp'") as caught:
        compare(f"{path}:placement=together", f"{path}:placement=log apart", "tsp")
    assert "'tps'" in caught.value.fix


def test_experiments_without_a_good_run_say_so() -> None:
    every = tuple((block, point) for block in range(2) for point in range(2))
    base = planted(clients=(1,), repetitions=2, failed=every)
    new = planted(clients=(1,), repetitions=2, seed=2)
    with pytest.raises(UsageError, match="no run that can be compared"):
        compare(base, new)
