"""Changes as people read them: "+12.3 % [+8.1, +16.7]". The one place that words them.

One decimal, none from 100 % on, and as many more (up to three) as keep a change or a bound
that is not zero from being shown as zero. A bound at infinity is shown as such.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nfslab.statistics.comparison import Comparison
    from nfslab.statistics.intervals import Interval

NOTHING = "unknown"
MAX_DECIMALS = 3
WHOLE_FROM_PERCENT = 100.0


def percent_change_text(ratio: float | None, interval: Interval | None = None) -> str:
    """A ratio as a change in per cent, with its interval where there is one."""
    if ratio is None:
        return NOTHING
    numbers = [(ratio - 1.0) * 100.0]
    if interval is not None:
        numbers += [(interval.low - 1.0) * 100.0, (interval.high - 1.0) * 100.0]
    decimals = _decimals(numbers)
    texts = [_signed(number, decimals) for number in numbers]
    if interval is None:
        return f"{texts[0]} %"
    return f"{texts[0]} % [{texts[1]}, {texts[2]}]"


def difference_text(
    difference: float | None, interval: Interval | None = None, unit: str = ""
) -> str:
    """A difference in the metric's unit, for values that have no ratio."""
    if difference is None:
        return NOTHING
    tail = f" {unit}" if unit else ""
    if interval is None:
        return f"{difference:+.4g}{tail}"
    return f"{difference:+.4g}{tail} [{interval.low:+.4g}, {interval.high:+.4g}]"


def change_text(comparison: Comparison, unit: str = "") -> str:
    """The size of a comparison's change, by its scale."""
    if comparison.scale == "ratio":
        return percent_change_text(comparison.ratio, comparison.interval)
    return difference_text(comparison.difference, comparison.interval, unit)


def detectable_text(comparison: Comparison, unit: str = "") -> str:
    """What these repetitions could have shown: "+7.5 % or -7.0 %" (80 % power)."""
    smallest = comparison.smallest_detectable
    if smallest is None:
        return NOTHING
    if comparison.scale == "difference":
        tail = f" {unit}" if unit else ""
        return f"{smallest:.4g}{tail} more or less"
    up, down = (smallest - 1.0) * 100.0, (1.0 / smallest - 1.0) * 100.0
    decimals = _decimals([up, down])
    return f"{_signed(up, decimals)} % or {_signed(down, decimals)} %"


def _decimals(numbers: list[float]) -> int:
    finite = [abs(number) for number in numbers if math.isfinite(number) and number != 0]
    smallest = min(finite, default=1.0)
    decimals = 1
    while decimals < MAX_DECIMALS and round(smallest, decimals) == 0:
        decimals += 1
    return decimals


def _signed(number: float, decimals: int) -> str:
    if math.isinf(number):
        return "+∞" if number > 0 else "-∞"
    if abs(number) >= WHOLE_FROM_PERCENT:
        return f"{number:+.0f}"
    text = f"{number:+.{decimals}f}"
    return text.replace("-", "+") if float(text) == 0 else text
