"""The data set as tables, of whatever engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from nfslab.workloads.sql.data import Data, definition


@dataclass(frozen=True)
class SqlTables:
    """`items` with so many rows, `parts`, and the empty `copies`."""

    made: ClassVar[tuple[str, ...]]
    """Statements that make tables, before the rows."""
    indexed: ClassVar[tuple[str, ...]]
    """Those behind them."""
    rows: int

    @property
    def data(self) -> Data:
        """The rows."""
        return Data(self.rows)

    def record(self) -> dict[str, Any]:
        """Everything that determines them."""
        return {"tables": "sql", "rows": self.rows, "definition": definition(),
                "made": [*self.made, *self.indexed]}  # fmt: skip
