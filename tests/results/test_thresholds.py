"""`--fail-if`: fires on what is shown and beyond the limit, and on nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from nfslab.errors import UsageError
from nfslab.results.comparison import compare_selections
from nfslab.results.selection import parse_selection
from nfslab.results.thresholds import Judgement, exit_code, judge, parse_condition

from tests.report.synthetic import Recipe, shared_pgbench


def judged(condition: str, factor: float, **changes: Any) -> list[Judgement]:
    """The condition on an experiment in which new is `factor` times base."""
    recipe = Recipe(
        **{
            "placements": {"base": 1.0, "new": factor},
            "clients": (1, 10),
            "repetitions": 10,
            "spread": 0.01,
            "samples": False,
            "evidence": False,
            **changes,
        }
    )
    path = shared_pgbench(recipe)
    parsed = parse_condition(condition)
    comparison = compare_selections(
        parse_selection(f"{path}:placement=base"),
        parse_selection(f"{path}:placement=new"),
        [parsed.metric],
    )
    return judge(parsed, comparison)


@pytest.mark.parametrize(
    ("condition", "factor", "outcome"),
    [
        ("tps < -5%", 0.85, "fires"),
        ("tps < -5%", 0.97, "holds"),  # shown, but not beyond the limit
        ("tps < -5%", 1.00, "holds"),
        ("tps < -5%", 1.30, "holds"),  # a change the other way
        ("tps < 0%", 0.97, "fires"),
        ("tps > 5%", 1.20, "fires"),
        ("tps > +5%", 1.20, "fires"),
        ("tps > 5%", 0.80, "holds"),
        ("latency_p99_ms > 10%", 0.80, "fires"),
        ("latency_p99_ms > 10%", 1.25, "holds"),
        ("latency_p99_ms<-10%", 1.25, "fires"),
    ],
)
def test_planted_changes(condition: str, factor: float, outcome: str) -> None:
    judgements = judged(condition, factor)
    assert [judgement.outcome for judgement in judgements] == [outcome] * 2
    assert exit_code(judgements) == (1 if outcome == "fires" else 0)


def test_noise_fires_only_where_a_change_is_shown() -> None:
    """Equal sides with 20 % noise: most estimates are beyond 5 % somewhere, few are shown.

    In each of 12 families of two comparisons a false decrease is shown with a chance of
    2.5 % at most: three or more of 12 have a chance of 0.3 %.
    """
    inconclusive = families_that_fire = 0
    for seed in range(12):
        judgements = judged("tps < -5%", 1.0, spread=0.2, repetitions=4, seed=seed)
        inconclusive += sum(j.outcome == "inconclusive" for j in judgements)
        families_that_fire += any(j.outcome == "fires" for j in judgements)
    assert inconclusive > 12, "four repetitions with 20 % noise cannot show 5 %"
    assert families_that_fire < 3


def test_certain_means_the_whole_interval() -> None:
    for judgement in judged("tps < -5%", 0.5):
        assert judgement.certain
        assert "whole interval" in judgement.reason
    clear_but_wide = judged("tps < -5%", 0.93, spread=0.02)
    assert {judgement.outcome for judgement in clear_but_wide} == {"fires"}
    assert not all(judgement.certain for judgement in clear_but_wide)


def test_one_repetition_is_inconclusive() -> None:
    judgements = judged("tps < -5%", 0.5, repetitions=1)
    assert {judgement.outcome for judgement in judgements} == {"inconclusive"}
    assert "n = 1 and 1" in judgements[0].reason
    assert exit_code(judgements) == 3


def test_zero_values_are_inconclusive_in_per_cent() -> None:
    judgements = judged("failed > 5%", 1.0)
    assert {judgement.outcome for judgement in judgements} == {"inconclusive"}


def test_firing_wins_over_not_knowing() -> None:
    def one(outcome: Any) -> Judgement:
        return Judgement("c", "p", outcome, False, "")

    assert exit_code([]) == 0
    assert exit_code([one("holds")]) == 0
    assert exit_code([one("holds"), one("inconclusive")]) == 3
    assert exit_code([one("holds"), one("inconclusive")], "pass") == 0
    assert exit_code([one("holds"), one("inconclusive")], "fail") == 1
    assert exit_code([one("inconclusive"), one("fires"), one("holds")]) == 1


def test_the_passing_check_says_what_it_could_have_seen() -> None:
    judgements = judged("tps < -5%", 1.0, spread=0.1)
    assert all("80 % power" in j.reason for j in judgements)


@pytest.mark.parametrize(
    ("spread", "repetitions", "outcome"),
    [
        (0.20, 4, "inconclusive"),  # sees a factor of 2 at best
        (0.01, 10, "holds"),
        (0.00, 10, "holds"),  # an exact test: p = 2^-9
        (0.00, 3, "inconclusive"),  # p = 1/4 at best
    ],
)
def test_a_pass_means_that_the_limit_would_have_been_shown(
    spread: float, repetitions: int, outcome: str
) -> None:
    judgements = judged("tps < -5%", 1.0, spread=spread, repetitions=repetitions)
    assert {judgement.outcome for judgement in judgements} == {outcome}


def test_the_repetitions_that_are_asked_for_are_enough() -> None:
    few = judged("tps < -10%", 1.0, spread=0.05, repetitions=4, clients=(1,))
    assert few[0].outcome == "inconclusive"
    asked = re.search(r"some (\d+) repetitions", few[0].reason)
    assert asked is not None
    enough = judged(
        "tps < -10%",
        1.0,
        spread=0.05,
        repetitions=2 * int(asked[1]),  # the spread of four is known to a factor of 2 at best
        clients=(1,),
    )
    assert enough[0].outcome == "holds"


@pytest.mark.parametrize(
    ("text", "metric", "side", "change"),
    [
        ("tps < -5%", "tps", "<", -0.05),
        (" latency_p99_ms>10 % ", "latency_p99_ms", ">", 0.10),
        ("tps<-.5%", "tps", "<", -0.005),
        ("x.y-z > +2.25%", "x.y-z", ">", 0.0225),
    ],
)
def test_grammar(text: str, metric: str, side: str, change: float) -> None:
    parsed = parse_condition(text)
    assert (parsed.metric, parsed.side) == (metric, side)
    assert parsed.change == pytest.approx(change)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tps",
        "tps < 5",
        "tps <= -5%",
        "tps = -5%",
        "tps < -5% and x > 1%",
        "< -5%",
        "tps < five%",
        "tps < 5%",  # would fire when nothing has changed
        "tps > -5%",
        "tps < -100%",
        "tps < nan%",
        "tps < --5%",
    ],
)
def test_bad_conditions_show_the_grammar(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_condition(text)
    assert "-N%" in caught.value.fix
