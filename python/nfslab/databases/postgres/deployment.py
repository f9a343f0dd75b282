"""How PostgreSQL's programs are run for one run: what a deployment of it has more than others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab.databases.postgres.delays import NO_DELAYS, PlantedDelays
from nfslab.databases.shared.deployment import Deployment

if TYPE_CHECKING:
    from nfslab.databases.postgres.installation import Installation

ROLE_NAME: Final = "nfslab"


@dataclass(slots=True, kw_only=True)
class PostgresDeployment(Deployment):
    """Of one installation."""

    installation: Installation
    database: str
    """The load's own, so that pg_stat_database counts nothing else."""
    delays: PlantedDelays = NO_DELAYS
    """Of the server's calls on files."""
