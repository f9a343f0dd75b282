"""Counters that a kernel shows as text: numbers of a line, and what came between two readings.

A counter only grows. One that is smaller than before was set to zero meanwhile (or has wrapped, of
those with 32 bits): `WentDown`, and never a difference.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _typeshed import DataclassInstance

NUMBER_MAX: Final = (1 << 64) - 1
DIGITS_MAX: Final = 20

K = TypeVar("K")


class FormError(ValueError):
    """A text that is no reading: which line, and why."""


class WentDown(Exception):
    """A counter is smaller than it was."""


def number_of(word: str) -> int:
    """A count: digits of ASCII, at most 64 bits. FormError."""
    if not (word.isascii() and word.isdigit()):
        raise FormError(f"{word[:40]!r} is no count")
    if len(word) > DIGITS_MAX or (value := int(word)) > NUMBER_MAX:
        raise FormError(f"{word[:40]} has more than 64 bits")
    return value


def numbers_of(words: Sequence[str]) -> list[int]:
    """Counts; the usual ones, of less than 64 bits, are checked all at once. FormError."""
    digits = "".join(words)
    if digits.isascii() and digits.isdigit() and max(map(len, words)) < DIGITS_MAX:
        return [int(word) for word in words]
    return [number_of(word) for word in words]


def less(later: int, earlier: int) -> int:
    """What was counted meanwhile; WentDown."""
    if later < earlier:
        raise WentDown
    return later - earlier


def moved(later: Mapping[K, int], earlier: Mapping[K, int]) -> dict[K, int]:
    """The same of counters by name; one that is new began at zero."""
    return {name: less(value, earlier.get(name, 0)) for name, value in later.items()}


if TYPE_CHECKING:
    Record = TypeVar("Record", bound=DataclassInstance)


def counted(later: Record, earlier: Record, states: Sequence[str] = ()) -> Record:
    """The difference of two records, but of what is a state; WentDown."""
    made: dict[str, Any] = {}
    for one in fields(later):
        new: Any = getattr(later, one.name)
        old: Any = getattr(earlier, one.name)
        if one.name in states or new is None:
            made[one.name] = new
        elif isinstance(new, tuple):
            padded = (*old, *[0] * (len(new) - len(old)))
            made[one.name] = tuple(less(n, o) for n, o in zip(new, padded, strict=True))
        else:
            made[one.name] = less(new, old or 0)
    return type(later)(**made)
