"""Can something be done here? The one answer that targets, workloads, collectors give."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Availability:
    """Can this be done on this machine by this user? If not: why, and what would add it."""

    ok: bool
    reason: str = ""
    fix: str = ""
    how: str = ""
    """In which way it is done, where there are several, and what that one cannot do."""
    moot: bool = False
    """It could be done, but there is nothing here to do it on: no fault of the machine's."""


def measuring_core() -> Availability:
    """Is the Rust core there, and fit for publishing figures?"""
    try:
        from nfslab._core import build_info
    except ImportError as error:
        return Availability(False, f"the Rust core is missing: {error}", "run ./nfslab")
    if build_info().get("profile") != "release":
        return Availability(
            False, "the Rust core is a debug build: its figures mean nothing", "run ./nfslab"
        )
    return Availability(True)
