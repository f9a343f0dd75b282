"""What a database engine has to be able to do for a workload.

    bring_up    empty places -> loaded (made there, or a copy), started, settings read back
    session     one connection of our own, for loads, plans, checks
    stop        in peace after a verified run, at once otherwise

A new engine is one folder with such a class, one test folder, and a value of `engine` in each
workload that is to run it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from nfslab.errors import RunFailed
    from nfslab.machine.availability import Availability
    from nfslab.results.records import DurabilityRecord
    from nfslab.workloads.base import RunContext


LATE_SESSIONS: Final = (
    "sessions of the warm-up outlived it: the server's counters may have some of its work"
)


class Session(Protocol):
    """One connection (autocommit)."""

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        """What a statement yields, if anything; RunFailed in the engine's words."""


class Tables(Protocol):
    """What a workload loads into an empty database."""

    def record(self) -> dict[str, Any]:
        """Everything that determines it, as JSON: equal tables have equal records."""

    def load(self, server: Any) -> None:
        """Make and fill it in the engine's server; RunFailed."""


class Database(ABC):
    """One engine's database, for one run."""

    kind: ClassVar[str]
    title: ClassVar[str]
    """As people write it."""
    empty_bytes: ClassVar[int]
    """What it takes without tables, for the check of space."""
    log_bytes: ClassVar[int]
    """The least that its log takes; the same."""

    @abstractmethod
    def check(self) -> Availability:
        """Are its programs here, and do they take these settings?"""

    @abstractmethod
    def owner(self) -> int | None:
        """The user of its files and its server; None: the caller."""

    @abstractmethod
    def bring_up(self, context: RunContext, tables: Tables) -> None:
        """Loaded on the run's places and up; what collectors need is in `context.services`.

        The settings in effect are in the place's facts. RunFailed.
        """

    @abstractmethod
    def session(self) -> AbstractContextManager[Session]:
        """A connection to the loaded database; RunFailed when it is gone."""

    @abstractmethod
    def alive(self) -> bool:
        """Does its server still run?"""

    def ends_within(self, limit_s: float) -> bool:
        """Is its server gone, or does it go so soon?"""
        return not self.alive()

    def clients_are_gone(self) -> bool:
        """Wait until the load's sessions are over, and what they did is counted; within a bound.

        True at once where the engine's counters have the living sessions', too.
        """
        return True

    @abstractmethod
    def death(self, what: str, also: str = "") -> RunFailed:
        """The error for a database that failed, with its own last words."""

    @abstractmethod
    def stop(self, *, hurry: bool) -> None:
        """End what was started; nothing when nothing was."""


def not_durable(context: RunContext, reasons: Sequence[str]) -> None:
    """What the database does not wait for is not durable, whatever the storage can."""
    if not reasons:
        return
    for place in context.places.values():
        known = place.durability.reasons
        place.durability = _volatile([*(r for r in reasons if r not in known), *known])
    context.notes.extend(f"not durable: {reason}" for reason in reasons)


def _volatile(reasons: list[str]) -> DurabilityRecord:
    from nfslab.results.records import DurabilityRecord

    return DurabilityRecord(level="volatile", reasons=reasons)
