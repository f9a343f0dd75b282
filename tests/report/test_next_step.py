"""What would show a change of 10 %, after an experiment that showed none."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

from nfslab.report.analysis import analyse
from nfslab.report.markdown import render_markdown
from nfslab.report.verdict import conclusion
from scipy import stats

from tests.report.designs import write_design
from tests.report.synthetic import Recipe, write_pgbench

NOISY = Recipe(
    placements={"a": 1.0, "b": 1.0},
    clients=(1,),
    repetitions=4,
    spread=0.2,
    samples=False,
    evidence=False,
)
PLACES = {"place": ["here", "there"]}


def test_it_says_how_many_blocks_by_steins_formula(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, NOISY)
    analysis = analyse(folder.path)
    (row,) = analysis.comparisons["tps"]
    assert not row.result.shown
    error = row.result.standard_error
    assert error is not None
    quantiles = stats.t.isf(0.025, 3) + stats.t.isf(0.2, 3)
    blocks = math.ceil(4 * (quantiles * error / math.log(1.1)) ** 2)
    words = shlex.split(analysis.next_step)
    assert words[0] == str(blocks - 4)
    again = [*folder.record.command, "--repetitions", str(blocks)]
    assert words[-len(again) :] == again
    assert analysis.next_step in conclusion(analysis)
    assert f"repetitions {blocks}" in render_markdown(analysis)


def test_nothing_is_proposed_where_a_difference_is_shown(tmp_path: Path) -> None:
    path = write_design(tmp_path, PLACES, lambda place: 100.0 if place == "here" else 200.0)
    assert analyse(path).next_step == ""


def test_nor_where_10_percent_would_have_been_shown(tmp_path: Path) -> None:
    path = write_design(tmp_path, PLACES, lambda place: 100.0, repetitions=40)
    assert analyse(path).next_step == ""


def test_nor_where_the_spread_is_not_known(tmp_path: Path) -> None:
    path = write_design(tmp_path, PLACES, lambda place: 100.0, repetitions=2)
    assert analyse(path).next_step == ""


def test_a_number_that_was_given_is_replaced(tmp_path: Path) -> None:
    folder = write_pgbench(tmp_path, NOISY)
    given = [*folder.record.command, "--repetitions", "4"]
    folder.update_record(folder.record.model_copy(update={"command": given}))
    said = analyse(folder.path).next_step
    assert said.count("--repetitions") == 1
    assert "--repetitions 4" not in said
