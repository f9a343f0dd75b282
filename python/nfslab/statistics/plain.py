"""Results of statistics as plain values, for JSON."""

from __future__ import annotations

from typing import Any

from nfslab.statistics.intervals import Interval


def plain_values(result: object, names: tuple[str, ...]) -> dict[str, Any]:
    """These attributes of a result: intervals as dictionaries, tuples as lists."""
    plain: dict[str, Any] = {}
    for name in names:
        value = getattr(result, name)
        if isinstance(value, Interval):
            value = value.as_dict()
        plain[name] = list(value) if isinstance(value, tuple) else value
    return plain
