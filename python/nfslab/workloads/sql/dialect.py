"""What an engine has to be able to do for the workload `sql`.

    database     the engine's server, for the life of a run
    tables       the data set, as the engine loads it
    connected    one session: plans are checked, queries run and counted in it
    lacking      queries that make no sense on it, and why

A new engine is one folder with such a class, one line in `DIALECTS`, a value of the parameter
`engine`, and one test file. What sessions of all engines do alike is in `session`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, ClassVar, Final

from nfslab.plugins import load_plugin
from nfslab.quantities import format_size
from nfslab.workloads.sql.queries import QUERIES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from nfslab.databases.base import Database, Tables
    from nfslab.machine.availability import Availability
    from nfslab.results.records import Metric
    from nfslab.workloads.base import RunContext
    from nfslab.workloads.sql.parameters import SqlParameters
    from nfslab.workloads.sql.queries import Answer

DIALECTS: dict[str, str] = {
    "postgres": "nfslab.workloads.sql.postgres.dialect:PostgresDialect",
    "mariadb": "nfslab.workloads.sql.mariadb.dialect:MariadbDialect",
    "sqlite": "nfslab.workloads.sql.sqlite.dialect:SqliteDialect",
}
SPILLS: Final = 2
"""So many times the memory of a sort are surely more than fits into it."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the engine counted so far; bytes. A difference of two is what a stretch of time did.

    None: nobody can tell.
    """

    read: int | None = None
    """Blocks that were not in the engine's buffers."""
    hit: int | None = None
    """Blocks that were."""
    temporary: int | None = None
    """Written to temporary files."""
    log: int | None = None
    """Written to the log."""
    fetched: int | None = None
    """From block devices, by the engine's processes, read-ahead included."""
    files: int | None = None
    """Temporary files made, where their bytes are not told: of none there are none."""

    def since(self, before: Counts) -> Counts:
        """The difference."""
        moved = Counts(
            *(_moved(getattr(self, one.name), getattr(before, one.name)) for one in fields(Counts))
        )
        return replace(moved, temporary=0) if moved.files == 0 else moved


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
        """Bytes of the whole `database`, and of `items` where they can be told."""

    @abstractmethod
    def text(self) -> str:
        """Everything that is executed, to be done by hand."""


class Dialect(ABC):
    """One engine's SQL."""

    engine: ClassVar[str]
    title: ClassVar[str]
    """As people write it."""
    lacking: ClassVar[Mapping[str, str]] = {}
    """Query -> why there is none such on this engine."""

    def __init__(self, parameters: SqlParameters) -> None:
        self.p = parameters

    @classmethod
    @abstractmethod
    def available(cls) -> Availability:
        """Is there such an engine?"""

    @classmethod
    def problem(cls, p: SqlParameters) -> str:
        """Why this engine cannot be asked for that; empty: it can, as far as parameters tell."""
        if why := cls.lacking.get(p.query):
            there = ", ".join(query for query in QUERIES if query not in cls.lacking)
            return f"{p.query} is no query of {cls.title}: {why} (it has {there})"
        memory, called = cls.sort_memory(p)
        if p.query == "sort_spill" and p.size < SPILLS * memory:
            return (
                f"sort_spill would not spill: size = {format_size(p.size)} is less than "
                f"{SPILLS} times {called} = {format_size(memory)}; raise size or lower {called}"
            )
        return ""

    @classmethod
    def sort_memory(cls, p: SqlParameters) -> tuple[int, str]:
        """Bytes that a sort may use before it writes files, and which parameter says so."""
        return p.work_mem, "work_mem"

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
    def connected(self, context: RunContext) -> AbstractContextManager[Connected]:
        """A session on the loaded database, with what pins the plan. RunFailed."""


def dialect_class(engine: str) -> type[Dialect]:
    """The class of an engine; `UsageError` names the nearest known one."""
    found: type[Dialect] = load_plugin(DIALECTS, engine, what="engine")
    return found
