"""Can something be done here? The one answer that targets, workloads, collectors give."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Availability:
    """Can this be done on this machine by this user? If not: why, and what would add it."""

    ok: bool
    reason: str = ""
    fix: str = ""
    moot: bool = False
    """It could be done, but there is nothing here to do it on: no fault of the machine's."""
