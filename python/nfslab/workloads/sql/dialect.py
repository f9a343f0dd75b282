"""What an engine has to be able to do for the workload `sql`.

    database     the engine's server, for the life of a run
    tables       the data set, as the engine loads it
    connected    one session: plans are checked, queries run and counted in it

A new engine is one folder with such a class, one line in `DIALECTS`, a value of the parameter
`engine`, and one test file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from nfslab.plugins import load_plugin

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from nfslab.databases.base import Database, Tables
    from nfslab.machine.availability import Availability
    from nfslab.results.records import Metric
    from nfslab.workloads.sql.parameters import SqlParameters
    from nfslab.workloads.sql.queries import Answer

DIALECTS: dict[str, str] = {
    "postgres": "nfslab.workloads.sql.postgres.dialect:PostgresDialect",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """What the engine counted so far; bytes. A difference of two is what a stretch of time did."""

    read: int | None
    """Blocks that were not in the engine's buffers; None: they cannot be told from others."""
    hit: int
    """Blocks that were."""
    temporary: int
    """Written to temporary files."""
    log: int
    """Written to the log."""
    fetched: int | None = None
    """From block devices, by the engine's processes, read-ahead included; None: it may not be
    read."""

    def since(self, before: Counts) -> Counts:
        """The difference."""
        return Counts(
            _moved(self.read, before.read),
            self.hit - before.hit,
            self.temporary - before.temporary,
            self.log - before.log,
            _moved(self.fetched, before.fetched),
        )


def _moved(now: int | None, before: int | None) -> int | None:
    return None if now is None or before is None else now - before


@dataclass(frozen=True, slots=True)
class Proof:
    """What the plan was found to be, after the timed part."""

    message: str
    metrics: dict[str, Metric] = field(default_factory=dict)


class Connected(ABC):
    """A session that is about to run the query of its parameters."""

    @abstractmethod
    def check_plan(self) -> None:
        """RunFailed, with the plan, where it is another one than intended; it is not executed."""

    @abstractmethod
    def before(self) -> None:
        """What has to be done before it is executed, and is not timed."""

    @abstractmethod
    def execute(self) -> Answer:
        """Run it once; what it yields, where that is its answer."""

    @abstractmethod
    def undo(self) -> None:
        """After an execution: as it was before it."""

    @abstractmethod
    def answer(self, yielded: Answer) -> Answer:
        """What has to be right, of what the last execution yielded or left."""

    @abstractmethod
    def counts(self) -> Counts:
        """What the engine counted, all that this session did included."""

    @abstractmethod
    def prove(self) -> Proof:
        """Is the plan still the intended one, and did it do what it is there for? RunFailed."""

    @abstractmethod
    def empty(self) -> None:
        """A statement that does nothing: what client and connection cost."""

    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """Bytes of `items` and of the whole database."""

    @abstractmethod
    def text(self) -> str:
        """Everything that is executed, to be done by hand."""


class Dialect(ABC):
    """One engine's SQL."""

    engine: ClassVar[str]

    def __init__(self, parameters: SqlParameters) -> None:
        self.p = parameters

    @classmethod
    @abstractmethod
    def available(cls) -> Availability:
        """Is there such an engine?"""

    @abstractmethod
    def check(self) -> Availability:
        """Can it run with these parameters?"""

    @property
    @abstractmethod
    def database(self) -> Database:
        """The same one at each call."""

    @abstractmethod
    def tables(self) -> Tables:
        """What is loaded: the same for all queries of one size."""

    @abstractmethod
    def connected(self) -> AbstractContextManager[Connected]:
        """A session on the loaded database, with what pins the plan. RunFailed."""


def dialect_class(engine: str) -> type[Dialect]:
    """The class of an engine; `UsageError` names the nearest known one."""
    found: type[Dialect] = load_plugin(DIALECTS, engine, what="engine")
    return found
