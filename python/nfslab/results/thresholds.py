"""`--fail-if "METRIC < -N%"`: conditions for scripts that never fire on noise.

Grammar: METRIC `<` -N%  or  METRIC `>` +N% (the plus may be left out; N may have decimals).
The percentage is the change of new relative to base: `tps < -5%` means "tps went down by
more than 5 %", `latency_p99_ms > 10%` means "the 99th percentile went up by more than 10 %".

At each pair of points a condition

* *fires* when the change in that direction is shown (after correction for the number of
  points: the interval leaves out "no change") and the estimated change is beyond the limit;
* *holds* when another change is shown, when the interval leaves out what is beyond the limit,
  or when a change as large as the limit was detectable with 80 % power;
* is *inconclusive* otherwise: nothing is shown, and what was asked for could not have been.
  So it is where a side has fewer than three repetitions, and where the metric has no ratio
  (zero or negative values).

Whether the whole interval lies beyond the limit is told as well (`certain`): then the
change is shown to be larger than the limit, not only larger than zero.

Exit code of `nfslab compare`: 1 when a condition fires anywhere; else 3 when one is
inconclusive somewhere (a check that could not see must not look like one that passed), or what
`--if-inconclusive` makes of it; else 0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nfslab.errors import UsageError
from nfslab.statistics.estimates import permutation_p, sign_flips_p
from nfslab.statistics.verdicts import MIN_RUNS

if TYPE_CHECKING:
    from nfslab.results.comparison import SelectionComparison
    from nfslab.statistics.comparison import Comparison

Outcome = Literal["fires", "holds", "inconclusive"]
EXIT_CODES = {"pass": 0, "fail": 1, None: 3}
"""What an inconclusive condition makes of the exit code, by `--if-inconclusive`."""

MAX_CONDITIONS = 100
"""Conditions of one call."""

_CONDITION = re.compile(
    r"\s*(?P<metric>[A-Za-z_][A-Za-z0-9_.-]*)\s*(?P<side>[<>])\s*"
    r"(?P<percent>[+-]?(?:\d+(?:\.\d*)?|\.\d+))\s*%\s*"
)


@dataclass(frozen=True, slots=True)
class Condition:
    """One parsed condition."""

    text: str
    metric: str
    side: Literal["<", ">"]
    change: float
    """The limit as a fraction: -0.05 for "-5%"."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one condition came to at one pair of points."""

    condition: str
    point: str
    outcome: Outcome
    certain: bool
    """Fired, and the whole interval lies beyond the limit."""
    reason: str


def parse_condition(text: str) -> Condition:
    """The condition that a person wrote; `UsageError` shows the grammar."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is no condition",
            fix='write METRIC < -N% or METRIC > +N%, such as "tps < -5%"',
        )
    side: Literal["<", ">"] = "<" if match["side"] == "<" else ">"
    change = float(match["percent"]) / 100.0
    wrong_way = (side == "<" and change > 0) or (side == ">" and change < 0)
    if wrong_way or (side == "<" and change <= -1.0):
        why = (
            "nothing can go down by 100 % or more"
            if not wrong_way
            else "a limit on the other side of 0 would fire when nothing has changed"
        )
        raise UsageError(
            f"{text!r} cannot be meant",
            why=why,
            fix='write METRIC < -N% for "down by more than N %", METRIC > N% for "up by more"',
        )
    return Condition(text.strip(), match["metric"], side, change)


def judge(condition: Condition, comparison: SelectionComparison) -> list[Judgement]:
    """The condition at every pair of points of the comparison."""
    results = comparison.results[condition.metric]
    return [
        Judgement(condition.text, point.label, *_one(condition, result))
        for point, result in zip(comparison.points, results, strict=True)
    ]


def exit_code(judgements: list[Judgement], if_inconclusive: str | None = None) -> int:
    """1: a condition fires; 3 (or as told): none does, but one is inconclusive; 0: all hold."""
    outcomes = {judgement.outcome for judgement in judgements}
    if "fires" in outcomes:
        return 1
    return EXIT_CODES[if_inconclusive] if "inconclusive" in outcomes else 0


def _one(condition: Condition, result: Comparison) -> tuple[Outcome, bool, str]:
    """(outcome, certain, reason) of one comparison."""
    if result.p_value is None:
        n = f"n = {result.n_base} and {result.n_new}"
        return "inconclusive", False, f"not enough repetitions to say ({n})"
    if result.ratio is None:
        return "inconclusive", False, "zero or negative values have no change in per cent"
    change = result.ratio - 1.0
    limit = condition.change
    down = condition.side == "<"
    beyond = change < limit if down else change > limit
    if result.interval is None:  # no spread was seen
        could = attainable_p(result) < result.alpha / result.n_comparisons
        return "holds" if could else "inconclusive", False, f"{percent(change)}: {result.verdict}"
    low, high = result.interval.low - 1.0, result.interval.high - 1.0
    stated = f"{percent(change)} ({percent(low)} to {percent(high)})"
    if beyond and (high < 0 if down else low > 0):
        certain = high < limit if down else low > limit
        more = "the whole interval is beyond the limit" if certain else "a change is shown"
        return "fires", certain, f"{stated}: {more}"
    if result.shown:
        return "holds", False, stated
    smallest = result.smallest_detectable
    if low > limit if down else high < limit:
        return (
            "holds",
            False,
            f"{stated}: what is beyond the limit is left out{_power(result, down)}",
        )
    if smallest is not None and limit and smallest <= (1 / (1 + limit) if down else 1 + limit):
        return "holds", False, f"{stated}{_power(result, down)}"
    return "inconclusive", False, f"{stated}{_power(result, down)}{_needed(result, limit)}"


def attainable_p(result: Comparison) -> float:
    """The smallest p that these repetitions can have where no value differs from another."""
    if result.n_pairs >= MIN_RUNS:
        return sign_flips_p(result.n_pairs)
    return permutation_p(result.n_base, result.n_new)


def _power(result: Comparison, down: bool) -> str:
    """What could have been shown, when nothing was."""
    smallest = result.smallest_detectable
    if smallest is None or not math.isfinite(smallest):
        return "; inconclusive"
    change = (1.0 / smallest if down else smallest) - 1.0
    return f"; {percent(change)} was detectable with 80 % power"


def _needed(result: Comparison, limit: float) -> str:
    """With how many repetitions the limit could be shown: the error falls with their root."""
    smallest = result.smallest_detectable
    if not limit or smallest is None or not math.isfinite(smallest):
        return ""
    factor = (math.log(smallest) / math.log(1.0 + limit)) ** 2
    runs = math.ceil(min(result.n_base, result.n_new) * factor)
    return f"; {percent(limit)} needs some {runs} repetitions"


def percent(change: float) -> str:
    """A change for people: "+3.2 %"."""
    if not math.isfinite(change):
        return "unbounded" if change > 0 else "unknown"
    return f"{change * 100:+.1f} %" if abs(change) < 1 else f"{change * 100:+.0f} %"
