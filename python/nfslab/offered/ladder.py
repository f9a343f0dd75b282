"""Ladders of offered load as people write them.

>>> loads("800..3200:800")
[800.0, 1600.0, 2400.0, 3200.0]
>>> loads("500, 1k, 2k..3k:500")
[500.0, 1000.0, 2000.0, 2500.0, 3000.0]
"""

from __future__ import annotations

import math
import re
from typing import Final

POINTS_MAX: Final = 1000
"""Points of one ladder; more is a slip of the pen."""
LOAD_MAX: Final = 1e9
"""Operations a second; the generator plans in nanoseconds."""
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(k?)", re.IGNORECASE)
_RANGE: Final = re.compile(r"(.+?)\.\.(.+?):(.+)")


def load(text: str) -> float:
    """Operations a second of a text such as 800 or 1.5k; ValueError otherwise."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text.strip()!r} is no load; write operations a second: 800, 1.5k")
    value = float(match[1]) * (1000 if match[2] else 1)
    if not 0 < value <= LOAD_MAX:
        raise ValueError(f"{text.strip()!r} is not above 0 and up to {LOAD_MAX:g} operations/s")
    return value


def loads(text: str) -> list[float]:
    """Loads in the order written: numbers and ranges FROM..TO:STEP, with commas between."""
    found: list[float] = []
    for part in text.split(","):
        if (span := _RANGE.fullmatch(part.strip())) is not None:
            begin, end, step = (load(word) for word in span.groups())
            found += _steps(begin, end, step, part.strip())
        elif ".." in part:
            raise ValueError(f"{part.strip()!r} is no range; write FROM..TO:STEP, as 800..3200:800")
        else:
            found.append(load(part))
    if len(found) > POINTS_MAX:
        raise ValueError(f"{len(found)} points; at most {POINTS_MAX}")
    return found


def _steps(begin: float, end: float, step: float, text: str) -> list[float]:
    if end < begin:
        raise ValueError(f"{text!r} goes down; write it upwards, or the loads one by one")
    # Counted, not added up: 0.1 a thousand times is not 100.
    count = math.floor((end - begin) / step * (1 + 1e-12)) + 1
    if count > POINTS_MAX:
        raise ValueError(f"{text!r} has {count} points; at most {POINTS_MAX}")
    return [begin + number * step for number in range(count)]
