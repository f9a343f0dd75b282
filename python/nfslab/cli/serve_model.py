"""Options of `nfslab serve` that plant causes: texts to the core's service model.

Each text is parsed whole or refused with what would be understood; the core checks what the
numbers mean together. What is in effect is read back from the server (`Server.model`).
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROCEDURES: Final = (
    "NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE",
    "MKDIR", "SYMLINK", "MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS",
    "FSSTAT", "FSINFO", "PATHCONF", "COMMIT",
)  # fmt: skip
"""Of NFSv3, by number (RFC 1813)."""
BIT_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)bit(?:/s)?", re.IGNORECASE)
BIT_FACTORS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


def duration_ns(text: str) -> int:
    """Nanoseconds of a text such as 200us, 1.5ms, 10 (seconds); ValueError otherwise."""
    from nfslab.quantities import parse_duration_s

    return round(parse_duration_s(float(text) if text.isdecimal() else text) * 1e9)


def size_bytes(text: str) -> int:
    """Bytes of a text such as 64M; ValueError otherwise."""
    from nfslab.quantities import parse_size_bytes

    return parse_size_bytes(int(text) if text.isdecimal() else text)


def rate_bytes_per_s(text: str) -> int:
    """Bytes a second of a text such as 100M, 100M/s (binary) or 1Gbit (decimal, as networks)."""
    if match := BIT_RATE.fullmatch(text.strip()):
        return round(float(match[1]) * BIT_FACTORS[match[2].lower()] / 8)
    return size_bytes(text.strip().removesuffix("/s"))


def probability(text: str) -> float:
    """A probability of a text such as 0.01 or 1%; ValueError otherwise."""
    number = text.strip()
    value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise ValueError(f"{text!r} is not between 0 and 1 (or 0% and 100%)")
    return value


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no whole number")
    return int(text)


def _order(text: str) -> str:
    if text not in ("fifo", "elevator"):
        raise ValueError(f"{text!r} is no order; write fifo or elevator")
    return text


DISK: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "disks": ("disks", _whole),
    "seek": ("positioning_ns", duration_ns),
    "rate": ("rate_bytes_per_s", rate_bytes_per_s),
    "order": ("order", _order),
    "hit": ("read_hit_ratio", probability),
    "cache": ("cache_bytes", size_bytes),
    "dirty": ("dirty_limit_bytes", size_bytes),
    "commit": ("commit_ns", duration_ns),
    "metadata": ("metadata_bytes", size_bytes),
}
"""Key of `--disk` -> the core's name, and how its value is read."""


def disk(text: str) -> dict[str, Any]:
    """The model's disk of a text such as seek=8ms,rate=20M,order=elevator."""
    from nfslab.plugins import nearest

    found: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if key not in DISK or not (equals and value):
            guess = nearest(key, DISK)
            hint = f" (did you mean {guess}=?)" if guess and guess != key else ""
            raise ValueError(f"{part!r} is none of {', '.join(f'{k}=' for k in DISK)}{hint}")
        name, read = DISK[key]
        if name in found:
            raise ValueError(f"{key}= is given twice")
        found[name] = read(value)
    return found


def service_time(text: str) -> tuple[str | None, int]:
    """(procedure or None for all, nanoseconds) of a text such as 200us or WRITE=1ms."""
    from nfslab.plugins import nearest

    name, equals, value = text.rpartition("=")
    if not equals:
        return None, duration_ns(value)
    if name.upper() not in PROCEDURES:
        guess = nearest(name.upper(), PROCEDURES)
        hint = f"; did you mean {guess}?" if guess else ""
        raise ValueError(f"NFSv3 has no procedure {name!r}{hint}")
    return name.upper(), duration_ns(value)


def stall(text: str) -> tuple[int, int]:
    """(at, for) in nanoseconds of a text such as 10s:500ms."""
    at, colon, length = text.partition(":")
    if not colon:
        raise ValueError(f"{text!r} is not AT:FOR, such as 10s:500ms")
    return duration_ns(at), duration_ns(length)


def parsed(read: Callable[[str], Any]) -> Callable[..., Any]:
    """A click callback for one text, or several."""

    def callback(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return [read(one) for one in value]
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return callback


def model(options: Mapping[str, Any]) -> dict[str, Any] | None:
    """The core's service model of the command's options; None when none of them is given."""
    found: dict[str, Any] = {}
    everything = [time for name, time in options["service_time"] if name is None]
    if len(everything) > 1:
        raise click.BadParameter("a time for all procedures is given twice: name procedures")
    if everything:
        found["service_ns"] = everything[0]
    if by_name := {name: time for name, time in options["service_time"] if name is not None}:
        found["service_by_operation_ns"] = by_name
    named = {
        "threads": "threads", "spread": "spread", "disk": "disk", "nvram": "nvram_bytes",
        "bandwidth": "bandwidth_bytes_per_s", "delay": "delay_ns", "jitter": "jitter_ns",
        "loss": "loss", "duplicate_replies": "duplicate",
    }  # fmt: skip
    found |= {name: options[o] for o, name in named.items() if options[o] is not None}
    if options["stall"]:
        found["stalls"] = options["stall"]
    if not found:
        if options["seed"] is not None:
            raise click.BadParameter("--seed plants nothing by itself: give a cause, too")
        return None
    if options["seed"] is not None:
        found["seed"] = options["seed"]
    return found
