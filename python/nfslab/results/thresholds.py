"""`--fail-if "METRIC < -N%"`: conditions for scripts that never fire on noise.

Grammar: METRIC `<` -N%  or  METRIC `>` +N% (the plus may be left out; N may have decimals).
The percentage is the change of new relative to base: `tps < -5%` means "tps went down by
more than 5 %", `latency_p99_ms > 10%` means "the 99th percentile went up by more than 10 %".

At each pair of points a condition

* *fires* when the change in that direction is shown (after correction for the number of
  points: the interval leaves out "no change") and the estimated change is beyond the limit;
* *cannot be judged* when a side has too few repetitions to say anything (n < 2), or when
  the metric has no ratio there (zero or negative values);
* *holds* otherwise: also when a change beyond the limit is estimated but not shown. What
  the runs could have shown is printed beside it, so that a pass means something.

Whether the whole interval lies beyond the limit is told as well (`certain`): then the
change is shown to be larger than the limit, not only larger than zero.

Exit code of `nfslab compare`: 1 when a condition fires anywhere; else 2 when one could not
be judged somewhere (a check that was not made must not look like one that passed); else 0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nfslab.errors import UsageError

if TYPE_CHECKING:
    from nfslab.results.comparison import SelectionComparison
    from nfslab.statistics.comparison import Comparison

Outcome = Literal["fires", "holds", "cannot be judged"]

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


def exit_code(judgements: list[Judgement]) -> int:
    """1: a condition fires; 2: none does, but one could not be judged; 0: all hold."""
    outcomes = {judgement.outcome for judgement in judgements}
    if "fires" in outcomes:
        return 1
    return 2 if "cannot be judged" in outcomes else 0


def _one(condition: Condition, result: Comparison) -> tuple[Outcome, bool, str]:
    """(outcome, certain, reason) of one comparison."""
    if result.p_value is None:
        n = f"n = {result.n_base} and {result.n_new}"
        return "cannot be judged", False, f"not enough repetitions to say ({n})"
    if result.ratio is None:
        return "cannot be judged", False, "zero or negative values have no change in per cent"
    change = result.ratio - 1.0
    down = condition.side == "<"
    beyond = change < condition.change if down else change > condition.change
    if result.interval is None:  # no spread at all, and too few runs for an exact test
        return "holds", False, f"{percent(change)}: {result.verdict}"
    low, high = result.interval.low - 1.0, result.interval.high - 1.0
    stated = f"{percent(change)} ({percent(low)} to {percent(high)})"
    shown = high < 0 if down else low > 0
    certain = high < condition.change if down else low > condition.change
    if shown and beyond:
        more = "the whole interval is beyond the limit" if certain else "a change is shown"
        return "fires", certain, f"{stated}: {more}"
    if beyond:
        return "holds", False, f"{stated}: beyond the limit, but no change is shown"
    return "holds", False, f"{stated}{_power(result, down)}"


def _power(result: Comparison, down: bool) -> str:
    """What could have been shown, when nothing was."""
    smallest = result.smallest_detectable
    if result.shown or smallest is None or not math.isfinite(smallest):
        return ""
    change = (1.0 / smallest if down else smallest) - 1.0
    return f": no difference shown; {percent(change)} would have been (4 times in 5)"


def percent(change: float) -> str:
    """A change for people: "+3.2 %"."""
    if not math.isfinite(change):
        return "unbounded" if change > 0 else "unknown"
    return f"{change * 100:+.1f} %" if abs(change) < 1 else f"{change * 100:+.0f} %"
