"""The result of one validity check.

The fields are those of `CheckRecord` in a run's record: `CheckRecord(**asdict(check))`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["ok", "warning", "violation", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """One validity check: its verdict, a sentence for people, and the numbers behind it."""

    name: str
    verdict: Verdict
    message: str
    values: dict[str, Any] = field(default_factory=dict)


def known(*values: float | None) -> bool:
    """Whether every value was measured and is a finite number."""
    return all(value is not None and math.isfinite(value) for value in values)


def unknown(name: str, what: dict[str, float | None]) -> Check:
    """The check that cannot be made, naming what is missing: a gap never becomes an "ok"."""
    missing = [label for label, value in what.items() if value is None]
    odd = [label for label, value in what.items() if value is not None and not math.isfinite(value)]
    parts = []
    if missing:
        parts.append(f"not measured: {', '.join(missing)}")
    if odd:
        parts.append(f"not a finite number: {', '.join(odd)}")
    present = {k: v for k, v in what.items() if v is not None and math.isfinite(v)}
    return Check(name, "unknown", "; ".join(parts), present)
