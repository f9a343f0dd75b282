"""Order entry like TPC-C's: the same tables, transactions and checks, on the engine asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from nfslab.workloads.base import Workload
from nfslab.workloads.tpcc.mariadb.workload import TpccOnMariadb
from nfslab.workloads.tpcc.parameters import TpccParameters
from nfslab.workloads.tpcc.postgres.workload import TpccOnPostgres

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.machine.availability import Availability
    from nfslab.workloads.base import WorkloadParameters

ENGINES: Final[Mapping[str, type[Workload]]] = {
    "postgres": TpccOnPostgres,
    "mariadb": TpccOnMariadb,
}


class TpccWorkload(Workload):
    """New orders, payments, deliveries on nine tables: of the class of an engine."""

    kind: ClassVar[str] = "tpcc"
    summary: ClassVar[str] = "PostgreSQL or MariaDB under order entry like TPC-C's (DBT-2)"
    Parameters: ClassVar[type[WorkloadParameters]] = TpccParameters
    roles: ClassVar[tuple[str, ...]] = ("data", "wal")
    files_on: ClassVar[Literal["client", "server"]] = "server"

    @classmethod
    def of(cls, parameters: WorkloadParameters) -> Workload:
        """Returns that on the engine asked for."""
        assert isinstance(parameters, TpccParameters)
        return ENGINES[parameters.engine](parameters)

    @classmethod
    def available(cls) -> Availability:
        """Is there any PostgreSQL? `check` asks for the engine that is wanted."""
        return TpccOnPostgres.available()
