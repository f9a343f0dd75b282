"""What a comparison says, as plain text: its change, its interval, its verdict."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nfslab.display.numbers import ABSENT, number, percent, ratio, relative
from nfslab.statistics.verdicts import EMULATED, INCONCLUSIVE

if TYPE_CHECKING:
    from nfslab.statistics.comparison import Comparison


def change(result: Comparison) -> str:
    """The change from base to new: "+24 % (1.240x)", or a difference where there is no ratio."""
    if result.ratio is not None:
        return relative(result.ratio)
    return ABSENT if result.difference is None else f"{result.difference:+.4g}"


def change_interval(result: Comparison) -> str:
    """Its interval at the level at which it was judged; absent where there is none."""
    if result.interval is None:
        return ABSENT
    low, high = result.interval.low, result.interval.high
    if result.ratio is not None:
        return f"{ratio(low)} to {ratio(high)}"
    return f"{low:+.4g} to {high:+.4g}"


def words(result: Comparison) -> str:
    """The verdict's words; with "inconclusive" what they could have shown."""
    smallest = result.smallest_detectable
    if result.verdict != INCONCLUSIVE or smallest is None or not math.isfinite(smallest):
        return result.verdict
    if result.ratio is None:
        size = f"a change of {number(smallest)}"
    elif smallest < 1.995:
        size = f"a change of {percent(smallest - 1, 2)}"
    else:
        size = f"a factor of {number(smallest, 2)}"
    return f"{result.verdict} ({size} detectable with 80 % power)"


def effect(result: Comparison) -> str:
    """The change with its interval: "−32 % (0.680x, 0.410 to 1.110)"."""
    interval = change_interval(result)
    if interval == ABSENT:
        return change(result)
    if result.ratio is not None:
        return relative(result.ratio, interval)
    return f"{change(result)} ({interval})"


def headline(result: Comparison) -> str:
    """The change, its interval, the verdict, and what these runs could have shown.

    Such as: "−32 % (0.680x, 0.410 to 1.110): inconclusive; detectable with 80 % power: 0.350 or
    less" (on the side of the estimate).
    """
    if result.verdict == EMULATED:
        return result.verdict
    said = f"{effect(result)}: {result.verdict}"
    smallest = result.smallest_detectable
    if result.verdict != INCONCLUSIVE or smallest is None or not math.isfinite(smallest):
        return said
    less = (result.estimate or 0.0) < 0
    if result.ratio is None:
        size = f"{-smallest if less else smallest:+.4g}"
    else:
        size = ratio(1.0 / smallest if less else smallest)
    return f"{said}; detectable with 80 % power: {size} or {'less' if less else 'more'}"
