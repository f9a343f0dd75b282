"""What a workload tells the collectors about the MariaDB it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nfslab.databases.shared.service import DatabaseService

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class MariadbService(DatabaseService):
    """A running MariaDB, for the collectors of the same run."""

    socket: Path
    """Where it is reached, by the account `root` without a password."""
    database: str
    """Name of the database under load: a connection to it is the load's."""
    version: str
