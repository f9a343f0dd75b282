"""Order entry like TPC-C's: the same tables, transactions and checks, on the engine asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from nfslab.workloads.base import ByAnother, Workload
from nfslab.workloads.tpcc.mariadb.workload import TpccOnMariadb
from nfslab.workloads.tpcc.parameters import TpccParameters
from nfslab.workloads.tpcc.postgres.workload import TpccOnPostgres

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.machine.availability import Availability
    from nfslab.workloads.base import RunContext, WorkloadParameters

ENGINES: Final[Mapping[str, type[Workload]]] = {
    "postgres": TpccOnPostgres,
    "mariadb": TpccOnMariadb,
}
LIKE: Final = "like TPC-C, not TPC-C: not comparable with published TPC results"


class TpccWorkload(ByAnother):
    """New orders, payments, deliveries on nine tables."""

    kind: ClassVar[str] = "tpcc"
    summary: ClassVar[str] = "PostgreSQL or MariaDB under order entry like TPC-C's (DBT-2)"
    Parameters: ClassVar[type[WorkloadParameters]] = TpccParameters
    roles: ClassVar[tuple[str, ...]] = ("data", "wal")
    files_on: ClassVar[Literal["client", "server"]] = "server"
    parameters: TpccParameters

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        self.engine = self.parameters.engine
        self.inner = ENGINES[self.engine](parameters)

    @classmethod
    def available(cls) -> Availability:
        """Is there any PostgreSQL? `check` asks for the engine that is wanted."""
        return TpccOnPostgres.available()

    def check(self) -> Availability:
        """Are tables and scripts those of the experiment, and is the engine here?"""
        same = self.parameters.check_defined()
        return super().check() if same.ok else same

    def prepare(self, context: RunContext) -> None:
        """The tables loaded; what a reader has to know of this load."""
        super().prepare(context)
        p = self.parameters
        context.notes.append(LIKE)
        if p.homes == "fixed" and p.terminals < p.warehouses:
            context.notes.append(
                f"{p.terminals} terminals are at home in as many of the {p.warehouses} warehouses: "
                'homes = "random" works in all'
            )
