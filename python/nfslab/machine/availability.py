"""Can something be done here? The one answer that targets, workloads, collectors give."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Availability:
    """Can this be done on this machine by this user? If not: why, and what would add it."""

    ok: bool
    reason: str = ""
    fix: str = ""
