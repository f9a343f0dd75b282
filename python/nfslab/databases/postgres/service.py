"""What a workload tells the collectors about the PostgreSQL it runs: `services.postgres`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class PostgresService:
    """A running PostgreSQL, for the collectors of the same run. Not for the records: the
    connection string may hold the password of this run."""

    conninfo: str
    """For the database `postgres`, so that watching is not counted as load."""
    database: str
    """Name of the database under load."""
    pid: int
    """The postmaster: all server processes are its children."""
    version: str
    major: int
    data_directory: Path
    client_name: str
    """application_name of the load's connections."""
