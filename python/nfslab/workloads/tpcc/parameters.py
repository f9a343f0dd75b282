"""Parameters of the workload `tpcc`, as written in the experiment file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field, model_validator

from nfslab.databases.mariadb.settings import connections_problem, setting_problem
from nfslab.databases.postgres.parameters import PostgresParameters
from nfslab.databases.shared.settings import SettingValue, refuse_problems
from nfslab.quantities import Duration
from nfslab.workloads.base import DefinedParameters
from nfslab.workloads.pgbench.parameters import CLIENTS_MAX, PgbenchParameters
from nfslab.workloads.sysbench.client import CLIENTS_MAX as SYSBENCH_CLIENTS_MAX
from nfslab.workloads.sysbench.client import whole_seconds
from nfslab.workloads.tpcc.mariadb import files as of_mariadb
from nfslab.workloads.tpcc.postgres.pacing import first_pause
from nfslab.workloads.tpcc.postgres.scripts import definition
from nfslab.workloads.tpcc.rows import NAME_CONSTANT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Self

MIX: Final = {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4, "stock_level": 4}
"""Transaction -> share of all, per cent (clause 5.2.3 has the least of the last four)."""
CONSTANTS: Final = {"c_name": NAME_CONSTANT + 66, "c_customer": 259, "c_item": 7911}
"""C of NURand while it runs (clause 2.1.6.1)."""
WAREHOUSES_MAX: Final = 10_000
TERMINALS: Final = 10
"""Of a warehouse (clause 4.2.2)."""
PREDICATE_LOCKS: Final = 1024
"""Of a transaction, mean: with PostgreSQL's default of 64 they run out (Stock-Level reads much)."""
Engine = Literal["postgres", "mariadb"]
Isolation = Literal["read committed", "repeatable read", "serializable"]
NOT_ON_MARIADB: Final = {
    "calls": "each of its transactions is one call of a procedure",
    "think": "its terminals have no keying and think times",
    "threads": "sysbench has a thread for each terminal",
    "socket": "it is reached by a private socket alone",
    "postgres": "it chooses a PostgreSQL",
    "data_checksums": "it is initdb's",
    "wal_segment_size": "it is initdb's; see innodb_log_file_size in [workload.mariadb]",
    "planted_delay": "only PostgreSQL's calls can be made to wait",
}
"""Parameters of which nothing but the default can be asked there, and why."""


class TpccParameters(PostgresParameters, DefinedParameters):
    """What `[workload]` may hold with `kind = "tpcc"`."""

    engine: Engine = "postgres"
    mariadb: dict[str, SettingValue] = Field(default_factory=dict)
    """Settings of MariaDB's server, any: name = value; PostgreSQL's are `settings`."""

    # What is loaded
    warehouses: int = Field(default=1, ge=1, le=WAREHOUSES_MAX)

    # The load
    terminals: int = Field(default=TERMINALS, ge=1, le=CLIENTS_MAX)
    """Connections; each has one transaction at a time."""
    threads: int = Field(default=1, ge=1, le=CLIENTS_MAX)
    """Of pgbench."""
    calls: Literal["procedure", "statements"] = "procedure"
    """A transaction is one call, or a statement for each step: some 37 round trips a new order."""
    homes: Literal["fixed", "random"] = "fixed"
    """A terminal's warehouse: its own, or another one for each transaction."""
    think: float = Field(default=0.0, ge=0, le=10)
    """So much of the specification's keying and think times: 1 by the book, 0 none."""
    isolation: Isolation = "read committed"
    max_tries: int = Field(default=10, ge=1, le=1_000_000)
    """How often a transaction is tried after a serialisation error or a deadlock."""
    duration: Duration
    """Whole seconds."""
    warm_up: Duration = 0.0
    """Whole seconds of the same load before the timed part."""
    socket: Literal["unix", "tcp"] = "unix"

    @classmethod
    def defined(cls) -> str:
        """Of tables, procedures and scripts."""
        return definition()

    @classmethod
    def defined_for(cls, given: Mapping[str, Any]) -> str:
        """Each engine has its own."""
        return of_mariadb.definition() if given.get("engine") == "mariadb" else definition()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.duration < self.warm_up:
            raise ValueError("the run is shorter than its warm-up")
        refuse_problems(self.mariadb, setting_problem)
        if self.engine == "mariadb":
            self._possible_on_mariadb()
        else:
            self.driver()  # refuses what pgbench would
        return self

    def _possible_on_mariadb(self) -> None:
        """ValueError; PostgreSQL's `settings` may stay: the engine is an axis."""
        for name, why in NOT_ON_MARIADB.items():
            value = getattr(self, name)
            field = type(self).model_fields[name]
            if value != field.get_default(call_default_factory=True):
                raise ValueError(f'{name} = {value!r} with engine = "mariadb": {why}; leave it out')
        for seconds in (self.duration, self.warm_up):
            whole_seconds(seconds)
        if self.duration < 1:
            raise ValueError("duration is at least one second")
        if self.terminals > SYSBENCH_CLIENTS_MAX:
            raise ValueError(f"sysbench has {SYSBENCH_CLIENTS_MAX} terminals at most")
        if problem := connections_problem(self.mariadb, self.terminals):
            raise ValueError(problem)

    def notes(self) -> list[str]:
        """What a reader has to know of this load, on any engine."""
        found = ["like TPC-C, not TPC-C: not comparable with published TPC results"]
        if self.homes == "fixed" and self.terminals < self.warehouses:
            found.append(
                f"{self.terminals} terminals are at home in as many of the {self.warehouses} "
                'warehouses: homes = "random" works in all'
            )
        return found

    @property
    def clients(self) -> int:
        """Of pgbench or sysbench: a terminal each."""
        return self.terminals

    def driver(self, scripts: Sequence[Path] = ()) -> PgbenchParameters:
        """The same for pgbench; `scripts`: of `MIX`, in its order, once they are written."""
        alike = (*PostgresParameters.model_fields, "threads", "max_tries", "duration", "warm_up",
                 "socket")  # fmt: skip
        given: dict[str, Any] = {name: getattr(self, name) for name in alike}
        if scripts:
            own = {"warehouses": self.warehouses, "fixed_homes": int(self.homes == "fixed")}
            given |= {"scripts": scripts, "script_weights": [*MIX.values()]}
            paced = first_pause(self.think) if self.think else {}
            given["variables"] = CONSTANTS | own | paced
        isolation: dict[str, SettingValue] = {"default_transaction_isolation": self.isolation}
        if self.isolation == "serializable":
            isolation["max_pred_locks_per_transaction"] = PREDICATE_LOCKS
        given |= {"clients": self.terminals, "settings": isolation | self.settings}
        return PgbenchParameters(**given, protocol="prepared")
