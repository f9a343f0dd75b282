"""Sizes and durations as people write them, and back again for people to read.

Sizes are binary, as storage tools and PostgreSQL have always meant them: "8k", "8K",
"8kB" and "8KiB" are all 8192 bytes. A plain number is bytes (sizes) or seconds
(durations). Nothing is guessed: a text that is not wholly understood is an error that
shows what would be.

    >>> parse_size_bytes("128k"), parse_size_bytes(4096)
    (131072, 4096)
    >>> parse_duration_s("1h30m"), parse_duration_s(0.5)
    (5400.0, 0.5)
    >>> format_size(131072), format_size(1500)
    ('128 KiB', '1500 B')
    >>> format_duration(0.25), format_duration(5400)
    ('250 ms', '1 h 30 min')

The pydantic types `Size` and `Duration` use them; a record holds bytes and seconds. pydantic
itself is not imported here: what only formats must not wait for it (`nfslab trace` starts in
half the time without).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?", re.IGNORECASE)
_SIZE_FACTORS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_SIZE_UNITS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
EXACT_BELOW = 10_000
"""Whole multiples of a unit are shown as such up to here, rounded to three digits above."""
MAX_SIZE_BYTES = 2**63 - 1
"""What a signed 64-bit offset can address; the kernel takes no more."""

_PART = r"(\d+(?:\.\d+)?)\s*({})\s*"
_DURATION_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "min": 60.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_DURATION_PART = re.compile(_PART.format("|".join(sorted(_DURATION_UNITS, key=len, reverse=True))))
MAX_DURATION_S = 366 * 86400.0
"""A year: a longer limit is a slip of the pen."""


def parse_size_bytes(value: object) -> int:
    """Bytes from a whole number or a text such as "8k", "1.5G"; ValueError otherwise."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value.strip())):
        exact = float(match[1]) * _SIZE_FACTORS[match[2].lower()]
        if exact != math.floor(exact):
            raise ValueError(f"{value!r} is not a whole number of bytes")
        size = int(exact)
    else:
        raise ValueError(f'{value!r} is not a size; write bytes (8192) or "8k", "128M", "1G"')
    if not 0 <= size <= MAX_SIZE_BYTES:
        raise ValueError(f"{value!r} is outside 0 to {MAX_SIZE_BYTES} bytes")
    return size


def parse_duration_s(value: object) -> float:
    """Seconds from a number or a text such as "90s", "10m", "1h30m"; ValueError otherwise."""
    seconds = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    elif isinstance(value, str):
        text = value.strip()
        parts = list(_DURATION_PART.finditer(text))
        if parts and "".join(part[0] for part in parts) == text:
            seconds = sum(float(part[1]) * _DURATION_UNITS[part[2]] for part in parts)
    if math.isnan(seconds):
        raise ValueError(f'{value!r} is not a duration; write seconds (90) or "90s", "10m", "8h"')
    if not 0 <= seconds <= MAX_DURATION_S:
        raise ValueError(f"{value!r} is outside 0 seconds to a year")
    return seconds


def read_duration_s(text: str) -> float:
    """As `parse_duration_s`, of an option: a bare whole number is seconds."""
    return parse_duration_s(float(text) if text.isdecimal() else text)


def read_share(text: str) -> float:
    """A share of a text such as 0.01 or 1%; ValueError otherwise."""
    number = text.strip()
    value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    if not 0 <= value <= 1:
        raise ValueError(f"{text!r} is not between 0 and 1 (or 0% and 100%)")
    return value


def format_size(size_bytes: float) -> str:
    """Bytes for people: exact multiples as such, otherwise three digits of the unit."""
    for factor, unit in _SIZE_UNITS:
        if size_bytes % factor == 0 and 1 <= size_bytes // factor < EXACT_BELOW:
            return f"{int(size_bytes // factor)} {unit}"
    if size_bytes < 10_000:
        return f"{size_bytes:g} B"
    factor, unit = next(entry for entry in _SIZE_UNITS if size_bytes >= entry[0])
    scaled = size_bytes / factor
    return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"


def format_duration(seconds: float) -> str:
    """Seconds for people: two units at most."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 99.5:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


@dataclass(frozen=True, slots=True)
class _ReadBy:
    """Annotation for pydantic: the value is read by a function before its type is checked."""

    parse: Callable[[object], Any]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(self.parse, handler(source))


Size = Annotated[int, _ReadBy(parse_size_bytes)]
"""A pydantic type: bytes, written as a number or as "128M"."""

Duration = Annotated[float, _ReadBy(parse_duration_s)]
"""A pydantic type: seconds, written as a number or as "10m"."""
