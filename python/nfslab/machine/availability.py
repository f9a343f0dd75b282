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


def core() -> Availability:
    """Is the Rust core there?"""
    try:
        from nfslab import _core  # noqa: F401
    except ImportError as error:
        return Availability(False, f"the Rust core is missing: {error}", "run ./nfslab")
    return Availability(True)


def measuring_core() -> Availability:
    """Is the Rust core there, and fit for publishing figures?"""
    if not (answer := core()).ok:
        return answer
    from nfslab._core import build_info

    if build_info().get("profile") != "release":
        return Availability(
            False, "the Rust core is a debug build: its figures mean nothing", "run ./nfslab"
        )
    return Availability(True)
