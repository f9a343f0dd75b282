"""What the workload tells the collectors about the PostgreSQL it runs.

`context.facts` of a pgbench run holds, for whoever watches:

    "postgres"           PostgresService: how to reach the server, whose process it is
    "at_timed_start"     a list that a collector may append functions to: each is called
                         once, right before the timed program starts (after the warm-up)
    "timed_start_ns"     CLOCK_MONOTONIC when the timed part began: t = 0 of all samples
    "timed_end_ns"       the same when it ended
"""

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
    wal_directory: Path
    client_name: str
    """application_name of the load's connections."""
