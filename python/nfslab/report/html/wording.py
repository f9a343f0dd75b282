"""Numbers and names as the page writes them; the same rules as in assets/src/format.js.

Three significant digits, the unit always beside, times in ns to s, sizes in binary
multiples. Names of metrics lose the unit that they end in, because the unit is shown.
"""

from __future__ import annotations

import math

_TIME_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_UNIT_ENDINGS = {
    "ms": "_ms",
    "s": "_s",
    "B": "_bytes",
    "B/s": "_bytes_per_s",
    "%": "_pct",
    "1/s": "_per_s",
    "us": "_us",
    "ns": "_ns",
}
ABSENT = "–"


def shown_unit(unit: str) -> str:
    """The unit as the page knows it: bytes are "B", a plain number has "1"."""
    return {"bytes": "B", "bytes/s": "B/s", "": "1", "count": "1"}.get(unit, unit)


def metric_label(name: str, unit: str) -> str:
    """A metric's name for people: "latency_p99_ms" is "latency p99"."""
    ending = _UNIT_ENDINGS.get(shown_unit(unit), "")
    if ending and name.endswith(ending) and len(name) > len(ending):
        name = name[: -len(ending)]
    return name.replace("_", " ")


def plain(value: float, digits: int = 3) -> str:
    """A number with that many significant digits and thousands separators."""
    if math.isnan(value):
        return ABSENT
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size and (size < 1e-6 or size >= 1e15):
        return f"{value:.{digits - 1}e}"
    decimals = 0
    if size:
        decimals = min(10, max(0, digits - 1 - math.floor(math.log10(size) + 1e-12)))
    if value == round(value):
        decimals = 0
    return f"{value:,.{decimals}f}".replace("-", "−")


def quantity(value: float | None, unit: str, digits: int = 3) -> str:
    """A value with its unit in a multiple that suits it."""
    if value is None or math.isnan(value):
        return ABSENT
    divisor, shown = _multiple(value, shown_unit(unit))
    return plain(value / divisor, digits) + _after(shown)


def span(low: float | None, high: float | None, unit: str) -> str:
    """ "low to high" in one common unit."""
    if low is None or high is None:
        return ABSENT
    finite = [abs(v) for v in (low, high) if math.isfinite(v)]
    divisor, shown = _multiple(max(finite, default=0.0), shown_unit(unit))
    return f"{plain(low / divisor)} to {plain(high / divisor)}{_after(shown)}"


def probability(p: float | None) -> str:
    """A p-value: two digits, a power of ten when it is tiny."""
    if p is None:
        return ABSENT
    return f"{p:.0e}" if 0 < p < 1e-4 else plain(p, 2)


def _multiple(value: float, unit: str) -> tuple[float, str]:
    if not math.isfinite(value) or value == 0:
        return 1.0, unit
    if unit in _TIME_S:
        seconds = abs(value) * _TIME_S[unit]
        step, shown = next((s for s in _TIME_STEPS if seconds >= s[0] * 0.9999999), _TIME_STEPS[-1])
        return step / _TIME_S[unit], shown
    if unit in ("B", "B/s"):
        power = min(5, max(0, math.floor(math.log2(abs(value)) / 10 + 1e-12)))
        return 1024.0**power, f"{_BINARY[power]}{unit}"
    return 1.0, unit


def _after(unit: str) -> str:
    if unit in ("", "1"):
        return ""
    return "/s" if unit == "1/s" else f" {unit}"
