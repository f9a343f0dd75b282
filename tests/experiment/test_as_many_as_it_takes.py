"""Blocks are added until the interval is narrow: the rule by scipy, and the same after any cut."""

from __future__ import annotations

import json
import math
import re
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
from nfslab.display.markdown import escape
from nfslab.errors import UsageError
from nfslab.experiment.dry_run import dry_run, dry_run_lines
from nfslab.experiment.forecast import RUN_S
from nfslab.experiment.reading import read_experiment
from nfslab.experiment.repetitions import read_repetitions, repetitions_text
from nfslab.experiment.session import Options, read_options
from nfslab.experiment.summary import summarise
from nfslab.report.analysis import analyse
from nfslab.report.html.document import render_html
from nfslab.report.markdown import render_markdown
from nfslab.report.verdict import conclusion
from nfslab.results.outcomes import Outcomes
from nfslab.results.precision import precision_of
from scipy import stats

from tests.experiment.session_support import only_folder, records, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nfslab.results.store import ExperimentFolder

RULE = ("repetitions = 3", 'repetitions = { at_least = 4, at_most = 30, until = "10%" }')
ONE_COMPARISON = ("values = [1, 2, 4]", "values = [2]")
NOISE = ('data = "one"', 'data = "one"\nspread = 0.1')


def widths(folder: ExperimentFolder, comparisons: int) -> dict[int, float]:
    """Blocks -> upper half of the widest interval, relative to the ratio, by the definition."""
    logs: dict[tuple[str, int], dict[int, float]] = {}
    for record in records(folder):
        key = (record.factors["data"], record.factors["clients"])
        logs.setdefault(key, {})[record.block] = math.log(record.metrics["rate_per_s"].value)
    found = {}
    for n in range(4, 1 + max(len(blocks) for blocks in logs.values())):
        halves = []
        for clients in {key[1] for key in logs}:
            sides = [[logs[data, clients][block] for block in range(n)] for data in ("one", "two")]
            error = np.std(np.subtract(*sides), ddof=1) / math.sqrt(n)
            # Half of 5 %, over the family; both tails.
            halves.append(stats.t.isf(0.025 / comparisons / 2, n - 1) * error)
        found[n] = math.expm1(max(halves))
    return found


@pytest.mark.parametrize(("comparisons", "until"), [(1, 0.1), (3, 0.4)])
def test_it_ends_at_the_first_block_whose_widest_interval_is_narrow(
    experiment_file: Callable[..., Path], comparisons: int, until: float
) -> None:
    changes = (RULE, NOISE) if comparisons == 3 else (RULE, NOISE, ONE_COMPARISON)
    path = experiment_file(*changes)
    session, _ = run(path, repetitions={"at_least": 4, "at_most": 200, "until": until})
    folder = only_folder(path)
    found = widths(folder, comparisons)
    blocks = folder.record.repetitions
    assert blocks == max(found) > 4
    assert found[blocks] <= until
    assert all(width > until for n, width in found.items() if n < blocks)
    assert session.made == len(records(folder)) == 2 * comparisons * blocks
    assert summarise(session).planned == session.made
    precision = precision_of(Outcomes(folder))
    assert precision is not None
    assert precision.reached
    assert precision.half_width == pytest.approx(found[blocks])


def test_interrupted_anywhere_it_decides_as_if_it_had_not_been(
    experiment_file: Callable[..., Path],
) -> None:
    path = experiment_file((RULE[0], RULE[1].replace("10%", "7%")), NOISE, ONE_COMPARISON)
    run(path)
    folder = only_folder(path)
    whole = [(r.run_id, r.metrics["rate_per_s"].value) for r in records(folder)]
    blocks = folder.record.repetitions
    assert 6 < blocks < 30
    experiment_json = folder.path / "experiment.json"
    cuts = [(kept, 0) for kept in (8, *range(len(whole) - 3, len(whole) + 1))]
    for kept, decided in [*cuts, (len(whole) - 2, 1)]:
        for run_id, _ in whole[kept:]:
            shutil.rmtree(folder.path / "runs" / run_id)
        (folder.path / "catalogue.jsonl").unlink()
        # As the plan stood then: the block under way was decided on, or just the next one.
        record = json.loads(experiment_json.read_text())
        record.pop("crc32", None)
        record["repetitions"] = max(4, math.ceil(kept / 2)) + decided
        experiment_json.write_text(json.dumps(record))
        session, _ = run(path)
        assert session.made == len(whole) - kept
        again = only_folder(path)
        assert [(r.run_id, r.metrics["rate_per_s"].value) for r in records(again)] == whole
        assert again.record.repetitions == blocks


def test_the_limit_is_kept_and_said(experiment_file: Callable[..., Path]) -> None:
    path = experiment_file(RULE, NOISE, ONE_COMPARISON)
    limited = {"at_least": 4, "at_most": 5, "until": 0.01}
    _, told = run(path, repetitions=limited)
    folder = only_folder(path)
    assert folder.record.repetitions == 5
    analysis = analyse(folder.path)
    (width,) = (w for n, w in widths(folder, 1).items() if n == 5)
    needed = math.ceil(5 * (math.log1p(width) / math.log1p(0.01)) ** 2)
    for text in ("5 repetitions", "1 %", str(needed)):
        assert text in analysis.precision
    assert analysis.precision in conclusion(analysis)
    assert escape(analysis.precision) in render_markdown(analysis)
    assert analysis.precision in render_html(analysis)
    assert analysis.as_dict()["precision"] == analysis.precision
    assert "4 repetitions" in told.text
    # A second call has nothing to do; a number that is given adds what it says.
    session, _ = run(path, repetitions=limited)
    assert session.made == 0
    session, _ = run(path, repetitions=7)
    assert session.made == 4


def test_intervals_are_at_half_the_level_also_when_a_number_is_given_later(
    experiment_file: Callable[..., Path],
) -> None:
    path = experiment_file(RULE, NOISE, ONE_COMPARISON)
    run(path, repetitions={"at_least": 4, "at_most": 4, "until": 0.5})
    run(path, repetitions=6)
    (row,) = analyse(only_folder(path).path).comparisons["rate_per_s"]
    assert row.result.alpha == 0.025
    assert row.result.interval is not None
    assert row.result.interval.confidence == 0.975


def test_a_number_that_was_given_is_as_before(experiment_file: Callable[..., Path]) -> None:
    path = experiment_file(NOISE, ONE_COMPARISON)
    run(path)
    analysis = analyse(only_folder(path).path)
    (row,) = analysis.comparisons["rate_per_s"]
    assert row.result.alpha == 0.05
    assert (analysis.repetitions, analysis.precision) == (3, "")


def test_points_that_never_work_keep_nobody_waiting(experiment_file: Callable[..., Path]) -> None:
    path = experiment_file(RULE, ('data = "one"', 'data = "one"\nfail = "measure"'))
    session, _ = run(path)
    assert session.made == 4 * 6


def test_values_without_any_spread_end_where_an_exact_test_can_judge(
    experiment_file: Callable[..., Path],
) -> None:
    """2^(1-n) below 0.025 takes seven pairs."""
    path = experiment_file(RULE, ONE_COMPARISON)
    run(path)
    assert only_folder(path).record.repetitions == 7


def test_the_plan_says_least_and_most(experiment_file: Callable[..., Path]) -> None:
    options = Options(experiment_file(RULE, NOISE, ONE_COMPARISON))
    plan = dry_run(read_options(options), options)
    one_s = 1.0 + RUN_S
    assert (len(plan.missing), plan.most and plan.most[0]) == (8, 60)
    assert (plan.seconds, plan.most and plan.most[1]) == pytest.approx(
        (8 * one_s, 60 * one_s), rel=0.01
    )
    said = plan.as_dict()
    assert (said["runs_most"], said["seconds_most"]) == plan.most
    text = "\n".join(dry_run_lines(plan))
    assert re.search(r"\b8 runs\b.*\b60 runs\b", text)
    run(options.file)
    options = Options(options.file, results=options.file.parent / "results")
    plan = dry_run(read_options(options), options)
    assert (len(plan.missing), plan.most) == (0, (0, 0.0))


@pytest.mark.parametrize(
    ("repetitions", "named"),
    [
        ('{ at_least = 3, until = "5%" }', "at_least"),
        ('{ at_least = 9, at_most = 8, until = "5%" }', "at_most"),
        ('{ until = "0%" }', "until"),
        ("{ until = 5 }", "until"),
        ("{ at_most = 30 }", "until"),
        ('{ until = "5%", atleast = 3 }', "at_least"),
        ("0", "repetitions"),
        ('"many"', "repetitions"),
    ],
)
def test_what_is_wrong_is_named(
    experiment_file: Callable[..., Path], repetitions: str, named: str
) -> None:
    path = experiment_file(("repetitions = 3", f"repetitions = {repetitions}"))
    with pytest.raises(UsageError, match=named):
        read_experiment(path)


def test_without_a_comparison_it_is_refused(experiment_file: Callable[..., Path]) -> None:
    path = experiment_file(RULE, ONE_COMPARISON, ('values = ["one", "two"]', 'values = ["one"]'))
    with pytest.raises(UsageError, match="repetitions"):
        read_experiment(path)


def test_the_option_says_the_same_as_the_file(experiment_file: Callable[..., Path]) -> None:
    given = read_repetitions("4..30:10%")
    written = read_experiment(experiment_file(RULE))
    assert read_experiment(experiment_file(), repetitions=given).section == written.section
    assert repetitions_text(given) == "4..30:10%"
    assert repetitions_text(8) == "8"
    for wrong in ("4..30", "4:5%", "-1", "4..30:0%", "4..30:x"):
        with pytest.raises(ValueError, match=r"%|could not"):
            read_repetitions(wrong)
