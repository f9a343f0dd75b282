"""Causes named of simulated captures, against what was planted in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace.simulation.judged import Matrix, judged
from tests.trace.simulation.planted import ALL, POINTS

MOST_FALSE = 0.02
LEAST_NAMED = 0.95


def assert_true(matrix: Matrix) -> None:
    assert matrix.false <= MOST_FALSE * matrix.captures, matrix.wrong
    assert matrix.named >= LEAST_NAMED * matrix.knowable, matrix.wrong


def test_causes_are_the_planted_ones(tmp_path: Path) -> None:
    """Each kind once."""
    matrix = judged(tmp_path, POINTS[:1], range(1))
    assert matrix.captures == len(ALL)
    assert_true(matrix)


@pytest.mark.long
def test_causes_are_the_planted_ones_at_each_place(tmp_path: Path) -> None:
    matrix = judged(tmp_path, POINTS, range(1, 2))
    assert matrix.captures == 3 * len(ALL)
    assert_true(matrix)


@pytest.mark.long
@pytest.mark.parametrize("name", ["idle", "idle_heavy", "idle_lognormal", "stalls_at_random"])
def test_random_pauses_have_no_period(tmp_path: Path, name: str) -> None:
    """Hardly a capture of pauses at random has a period."""
    matrix = judged(tmp_path, ("client",), range(100, 110), [name])
    assert matrix.rows[name]["period"] == 0, matrix.wrong
