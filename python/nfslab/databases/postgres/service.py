"""What a workload tells the collectors about the PostgreSQL it runs: `services.postgres`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from nfslab.databases.shared.service import DatabaseService


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresService(DatabaseService):
    """A running PostgreSQL, for the collectors of the same run. Not for the records: the
    connection string may hold the password of this run."""

    has_views: ClassVar[bool] = True

    conninfo: str
    """For the database `postgres`, so that watching is not counted as load."""
    database: str
    """Name of the database under load."""
    version: str
    major: int
    client_name: str
    """application_name of the load's connections."""
