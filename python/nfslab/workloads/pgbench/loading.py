"""What pgbench loads into an empty database: `pgbench --initialize`, and what determines it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nfslab.databases.postgres.server import Server


@dataclass(frozen=True, slots=True)
class PgbenchTables:
    """pgbench's four tables."""

    scale: int
    fillfactor: int
    foreign_keys: bool
    partitions: int
    partition_method: str

    def record(self) -> dict[str, Any]:
        """Everything that determines the tables."""
        return asdict(self)

    def load(self, server: Server) -> None:
        """Make and fill them; it vacuums before it makes the keys. RunFailed."""
        argv = [
            server.deployment.installation.program("pgbench"),
            *("--initialize", "--quiet"),
            *("--scale", str(self.scale)),
            *("--fillfactor", str(self.fillfactor)),
        ]
        if self.foreign_keys:
            argv.append("--foreign-keys")
        if self.partitions:
            argv += ["--partitions", str(self.partitions)]
            argv += ["--partition-method", self.partition_method]
        argv += [*server.client_arguments(), server.deployment.database]
        server.deployment.run(argv, log="load.log", env=server.client_environment())
