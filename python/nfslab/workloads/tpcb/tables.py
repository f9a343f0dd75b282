"""pgbench's four tables on MariaDB and SQLite; on PostgreSQL pgbench makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.databases.base import Session

ACCOUNTS: Final = 100_000
TELLERS: Final = 10
"""Of a branch."""
INSERT_ROWS: Final = ACCOUNTS
"""In one statement, which is a transaction."""


@dataclass(frozen=True, slots=True)
class TpcbTables:
    """As `pgbench --initialize` has them: columns, keys, rows."""

    scale: int
    numbers: str
    """SQL that yields the numbers {first} to {last}, in a column n."""

    def record(self) -> dict[str, Any]:
        """Everything that determines them."""
        return {"tpcb": 1, "scale": self.scale, "statements": list(self._schema())}

    def load(self, server: Session) -> None:
        """Make and fill them; RunFailed."""
        for statement in (*self._schema(), *self._rows()):
            server.rows(statement)

    def _schema(self) -> Iterator[str]:
        # One key column of this very type is SQLite's own row number: no second index.
        key = "INTEGER NOT NULL PRIMARY KEY"
        yield f"CREATE TABLE pgbench_branches (bid {key}, bbalance INTEGER, filler CHAR(88))"
        yield (
            f"CREATE TABLE pgbench_tellers (tid {key}, bid INTEGER, tbalance INTEGER, "
            "filler CHAR(84))"
        )
        yield (
            f"CREATE TABLE pgbench_accounts (aid {key}, bid INTEGER, abalance INTEGER, "
            "filler CHAR(84))"
        )
        yield (
            "CREATE TABLE pgbench_history (tid INTEGER, bid INTEGER, aid INTEGER, delta INTEGER, "
            "mtime TIMESTAMP NULL, filler CHAR(22))"
        )

    def _rows(self) -> Iterator[str]:
        branches, tellers = self.scale, TELLERS * self.scale
        of = self.numbers.format
        yield f"INSERT INTO pgbench_branches SELECT n, 0, NULL FROM {of(first=1, last=branches)}"
        yield (
            f"INSERT INTO pgbench_tellers SELECT n, {_branch(TELLERS)}, 0, NULL "
            f"FROM {of(first=1, last=tellers)}"
        )
        blank = f"'{' ' * 84}'"
        for first in range(1, ACCOUNTS * self.scale, INSERT_ROWS):
            yield (
                f"INSERT INTO pgbench_accounts SELECT n, {_branch(ACCOUNTS)}, 0, {blank} "
                f"FROM {of(first=first, last=first + INSERT_ROWS - 1)}"
            )


NUMBERS: Final = {
    "mariadb": "(SELECT seq AS n FROM seq_{first}_to_{last}) AS numbers",
    "sqlite": "(WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers "
    "WHERE n < {last}) SELECT n FROM numbers)",
}


def _branch(each: int) -> str:
    # Whole numbers everywhere: MariaDB's / is not.
    return f"(n - 1 - (n - 1) % {each}) / {each} + 1"
