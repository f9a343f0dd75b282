"""Parameters of the workload `tpcb`, as written in the experiment file."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, field_validator, model_validator

from nfslab.databases.mariadb import settings as of_mariadb
from nfslab.databases.postgres import settings as of_postgres
from nfslab.databases.shared.settings import SettingValue, refuse_problems
from nfslab.databases.sqlite.database import DRIVER
from nfslab.databases.sqlite.settings import SqliteSettings, log_problem
from nfslab.quantities import Duration
from nfslab.workloads.base import DefinedParameters
from nfslab.workloads.sysbench.client import CLIENTS_MAX, SHARED, whole_seconds

if TYPE_CHECKING:
    from typing import Self

Engine = Literal["postgres", "mariadb", "sqlite"]
SCALE_MAX: Final = 20_000
SCRIPT: Final = Path(__file__).parent / "tpcb.lua"


def definition() -> str:
    """SHA-256 of the client's scripts."""
    files = (SCRIPT, SHARED, DRIVER)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


class TpcbParameters(DefinedParameters):
    """What `[workload]` may hold with `kind = "tpcb"`."""

    data: str
    """Role: the target of the data directory, or of SQLite's database."""
    wal: str | None = None
    """Role: the target of the write-ahead (redo) log; default: with the data."""
    engine: Engine = "postgres"
    scale: int = Field(default=1, ge=1, le=SCALE_MAX)
    """Branches; 100,000 accounts each."""
    load: Literal["copy", "fresh"] = "copy"
    """"copy": loaded once and copied for every run; "fresh": loaded anew for every run."""
    clients: int = Field(default=1, ge=1, le=CLIENTS_MAX)
    """Connections, each with a thread of its own."""
    duration: Duration = Field(ge=1)
    """Whole seconds."""
    warm_up: Duration = 0.0
    """Whole seconds of the same load before the timed part."""
    max_tries: int = Field(default=10, ge=1, le=1_000_000)
    """How often a transaction is tried that the database gave up: deadlock, lock timeout, busy."""
    postgres: dict[str, SettingValue] = Field(default_factory=dict)
    """Settings of its server, any: name = value."""
    mariadb: dict[str, SettingValue] = Field(default_factory=dict)
    """The same."""
    sqlite: SqliteSettings = Field(default_factory=SqliteSettings)

    @classmethod
    def defined(cls) -> str:
        """Of the client's scripts."""
        return definition()

    @field_validator("duration", "warm_up")
    @classmethod
    def _whole_seconds(cls, value: float) -> float:
        return whole_seconds(value)

    @model_validator(mode="after")
    def _possible(self) -> Self:
        refuse_problems(self.postgres, of_postgres.setting_problem)
        refuse_problems(self.mariadb, of_mariadb.setting_problem)
        if self.engine == "postgres":
            problem = of_postgres.connections_problem(self.postgres, self.clients)
        else:
            problem = of_mariadb.connections_problem(self.mariadb, self.clients)
        if problem and self.engine != "sqlite":
            raise ValueError(problem)
        if self.engine == "sqlite" and (problem := log_problem(self.data, self.wal)):
            raise ValueError(problem)
        return self
