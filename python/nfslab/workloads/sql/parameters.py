"""Parameters of the workload `sql`, as written in the experiment file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from nfslab.databases.mariadb.settings import setting_problem
from nfslab.databases.postgres.parameters import PostgresParameters
from nfslab.databases.shared.settings import SettingValue, refuse_problems
from nfslab.databases.sqlite.settings import SqliteSettings
from nfslab.quantities import Size, format_size
from nfslab.workloads.base import DefinedParameters
from nfslab.workloads.sql.data import definition, rows_of
from nfslab.workloads.sql.dialect import dialect_class
from nfslab.workloads.sql.queries import WRITING, Asked, Query

if TYPE_CHECKING:
    from typing import Self

Engine = Literal["postgres", "mariadb", "sqlite"]
SIZE_LEAST: Final = 1 << 20
SIZE_MOST: Final = 256 << 30
"""Ids have 31 bits."""
WORK_MEM_MOST: Final = 2 << 30
EXECUTIONS_MOST: Final = 1_000_000
LOOKUPS_MOST: Final = 100_000
"""They are written into the statement."""


class SqlParameters(PostgresParameters, DefinedParameters):
    """What `[workload]` may hold with `kind = "sql"`; `settings` may turn autovacuum on."""

    engine: Engine = "postgres"
    """`postgres`, `settings` and what belongs to them are PostgreSQL's; of others there is a
    table."""
    mariadb: dict[str, SettingValue] = Field(default_factory=dict)
    """Settings of its server, any: name = value."""
    sqlite: SqliteSettings = Field(default_factory=SqliteSettings)

    # What is loaded
    size: Size = Field(default=64 << 20, ge=SIZE_LEAST, le=SIZE_MOST)
    """Of the larger table, `items`; all that is loaded is about 1.6 times as much."""

    # What is timed
    query: Query
    cache: Literal["cold", "warm"] = "cold"
    """cold: the server has just started, and the page cache was dropped; warm: it ran before."""
    executions: int = Field(default=1, ge=1, le=EXECUTIONS_MOST)
    """In the timed part, one after the other."""
    share: float = Field(default=0.01, gt=0, le=1)
    """Of the rows, that a range has."""
    lookups: int = Field(default=1000, ge=1, le=LOOKUPS_MOST)
    """Keys of `point_lookups`."""
    work_mem: Size = Field(default=4 << 20, ge=64 << 10, le=WORK_MEM_MOST)
    """For sorts and hash tables, and to make an index (maintenance_work_mem)."""

    @classmethod
    def defined(cls) -> str:
        """Of what makes the rows."""
        return definition()

    @model_serializer(mode="wrap")
    def _of_its_engine(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without the tables of other engines: they change nothing, and experiments of before,
        which knew of none, keep their identity."""
        made: dict[str, Any] = written(self)
        others = {"mariadb", "sqlite"} - {self.engine}
        return {name: value for name, value in made.items() if name not in others}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        refuse_problems(self.mariadb, setting_problem)
        if problem := dialect_class(self.engine).problem(self):
            raise ValueError(problem)
        if self.planted_delay and self.engine != "postgres":
            raise ValueError("planted_delay is of PostgreSQL's calls alone: leave it out")
        if self.query == "point_lookups" and self.lookups > self.rows:
            raise ValueError(
                f"{self.lookups} lookups of different rows, but size = {format_size(self.size)} "
                f"has {self.rows} rows"
            )
        if self.executions > 1 and self.cache == "cold":
            raise ValueError(
                'executions above 1 need cache = "warm": the second one would find what the first '
                "one read (repetitions give more cold ones)"
            )
        if self.executions > 1 and self.query in WRITING:
            raise ValueError(
                f"{self.query} runs once in a run: it has to be undone before it can run again "
                "(repetitions give more)"
            )
        return self

    @property
    def rows(self) -> int:
        """Of `items`."""
        return rows_of(self.size)

    @property
    def asked(self) -> Asked:
        """What determines the answer."""
        return Asked(self.rows, self.share, self.lookups)
