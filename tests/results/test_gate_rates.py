"""How often a gate errs: exit codes and verdicts of planted experiments, many of each kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from nfslab.results.comparison import compare_selections
from nfslab.results.selection import parse_selection
from nfslab.results.thresholds import exit_code, judge, parse_condition
from scipy import stats

from tests.report.synthetic import Recipe, write_pgbench

EXPERIMENTS = 100
FAMILY_LEVEL = 0.05


def most(rate: float) -> int:
    """So many of all experiments at that rate are exceeded once in 10^5."""
    return int(stats.binom.ppf(1 - 1e-5, EXPERIMENTS, rate))


def outcomes(folder: Path, factor: float, repetitions: int, spread: float) -> Counter[str]:
    """Exit codes of `tps < -5%`, and how often any point is called different, falsely so."""
    found: Counter[str] = Counter()
    condition = parse_condition("tps < -5%")
    for seed in range(EXPERIMENTS):
        recipe = Recipe(
            placements={"base": 1.0, "new": factor}, clients=(1, 10), repetitions=repetitions,
            spread=spread, seed=seed, samples=False, evidence=False
        )  # fmt: skip
        path = write_pgbench(folder / str(seed), recipe).path
        base, new = (parse_selection(f"{path}:placement={side}") for side in ("base", "new"))
        comparison = compare_selections(base, new, ["tps"])
        results = comparison.results["tps"]
        found[f"exit {exit_code(judge(condition, comparison))}"] += 1
        found["different"] += any(result.shown for result in results)
        found["the wrong way"] += any(
            result.shown and result.ratio is not None and (result.ratio > 1) != (factor > 1)
            for result in results
        )
    return found


@pytest.mark.long
@pytest.mark.parametrize("repetitions", [3, 10])
@pytest.mark.parametrize("spread", [0.02, 0.15])
def test_equal_sides_fire_no_more_often_than_stated(
    tmp_path: Path, repetitions: int, spread: float
) -> None:
    found = outcomes(tmp_path, 1.0, repetitions, spread)
    assert found["different"] <= most(FAMILY_LEVEL)
    # A decrease is half of what is called different.
    assert found["exit 1"] <= most(FAMILY_LEVEL / 2)


@pytest.mark.long
@pytest.mark.parametrize("repetitions", [3, 10])
@pytest.mark.parametrize("spread", [0.02, 0.15])
def test_a_planted_loss_passes_no_more_often_than_stated(
    tmp_path: Path, repetitions: int, spread: float
) -> None:
    """A pass says that 5 % would have been shown 4 times in 5; here are 10 %, at two points."""
    found = outcomes(tmp_path, 0.9, repetitions, spread)
    assert found["exit 0"] <= most(0.2)
    assert found["the wrong way"] <= most(FAMILY_LEVEL / 2)
    if (repetitions, spread) == (10, 0.02):
        assert found["exit 1"] >= EXPERIMENTS - most(0.05)
