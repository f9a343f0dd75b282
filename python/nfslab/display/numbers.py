"""Numbers as every output writes them: one rule, in Python and in the page's JavaScript alike.

Three significant digits, rounded as written (half away from zero), the unit always beside; times in
ns to s, sizes in binary multiples; whole numbers are never cut. tests/display/numbers.json is the
table of cases that both must pass.

    >>> quantity(0.0123, "s"), quantity(1536, "bytes"), quantity(99.96, "1/s")
    ('12.3 ms', '1.50 KiB', '100/s')
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

ABSENT: Final = "–"
DIGITS: Final = 3
EXACT_BELOW: Final = 1e15
"""Whole numbers are written with all their digits below it."""
WHOLE_WITHIN: Final = 1e-12
"""Relative: 100 times 0.83 is 83."""
SMALLEST: Final = 1e-6
"""Smaller ones are written with a power of ten."""
P_SMALLEST: Final = 1e-4
_TIME_S: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME_STEPS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


def number(value: float | None, digits: int = DIGITS) -> str:
    """A number with that many significant digits and thousands separators."""
    if value is None or math.isnan(value):
        return ABSENT
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size < EXACT_BELOW and abs(value - round(value)) <= WHOLE_WITHIN * size:
        return f"{round(value):,}".replace("-", "−")
    exact = Decimal(repr(float(value)))
    rounded = _rounded(exact, digits)
    if not SMALLEST <= size < EXACT_BELOW:
        return f"{rounded:.{digits - 1}e}".replace("e+", "e").replace("-", "−", value < 0)
    decimals = max(0, digits - 1 - rounded.adjusted())
    shown = exact.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)
    return f"{shown:,f}".replace("-", "−")


def quantity(value: float | None, unit: str, digits: int = DIGITS) -> str:
    """A value with its unit in a multiple that suits it."""
    if value is None or math.isnan(value):
        return ABSENT
    divisor, shown = _multiple(value, shown_unit(unit), digits)
    return number(value / divisor, digits) + suffix(shown)


def interval(low: float | None, high: float | None, unit: str = "", digits: int = DIGITS) -> str:
    """ "low to high" in one common unit."""
    if low is None or high is None:
        return ABSENT
    finite = [abs(v) for v in (low, high) if math.isfinite(v)]
    divisor, shown = _multiple(max(finite, default=0.0), shown_unit(unit), digits)
    both = f"{number(low / divisor, digits)} to {number(high / divisor, digits)}"
    return both + suffix(shown)


def count(value: float | None) -> str:
    """A whole number, exact."""
    return ABSENT if value is None else f"{round(value):,}".replace("-", "−")


def counted(value: int, noun: str) -> str:
    """Such as: 1 run, 2 runs."""
    return f"{count(value)} {noun}" if value == 1 else f"{count(value)} {noun}s"


def percent(share: float | None, digits: int = DIGITS) -> str:
    """A share of 0 to 1 as per cent."""
    return ABSENT if share is None else f"{number(share * 100, digits)} %"


def ratio(value: float | None) -> str:
    """A ratio: three digits behind the point near 1, fewer far from it."""
    if value is None or math.isnan(value):
        return ABSENT
    if not 0.1 <= value < 10:
        return number(value)
    return str(Decimal(repr(float(value))).quantize(Decimal("0.001"), ROUND_HALF_UP))


def relative(value: float, interval: str = "") -> str:
    """A ratio as a change, with its interval: "−49 % (0.512x, 0.410 to 0.640)"."""
    sign = "+" if value > 1 else ""
    return f"{sign}{percent(value - 1, 2)} ({ratio(value)}x{interval and f', {interval}'})"


def p_value(p: float | None) -> str:
    """A probability: two digits, a power of ten when it is tiny."""
    if p is None or math.isnan(p):
        return ABSENT
    if 0 < p < P_SMALLEST:
        return f"{_rounded(Decimal(repr(float(p))), 1):.0e}"
    return number(p, 2)


def shown_unit(unit: str) -> str:
    """The unit as people know it: bytes are "B", a plain number has "1"."""
    return {"bytes": "B", "bytes/s": "B/s", "": "1", "count": "1"}.get(unit, unit)


def suffix(unit: str) -> str:
    """What stands behind a number: "1/s" becomes "/s"."""
    if unit in ("", "1"):
        return ""
    return unit[1:] if unit.startswith("1/") else f" {unit}"


def _rounded(value: Decimal, digits: int) -> Decimal:
    return Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(value)


def _multiple(value: float, unit: str, digits: int) -> tuple[float, str]:
    """Divisor and unit that suit the value as it will be written: 999.9 µs is 1.00 ms."""
    if not math.isfinite(value) or value == 0:
        return 1.0, unit
    if unit in _TIME_S:
        seconds = abs(float(_rounded(Decimal(repr(float(value))), digits))) * _TIME_S[unit]
        step, shown = next((s for s in _TIME_STEPS if seconds >= s[0] * 0.9999999), _TIME_STEPS[-1])
        return step / _TIME_S[unit], shown
    if unit in ("B", "B/s"):
        power = min(5, max(0, math.floor(math.log2(abs(value)) / 10 + 1e-12)))
        return 1024.0**power, f"{_BINARY[power]}{unit}"
    return 1.0, unit
