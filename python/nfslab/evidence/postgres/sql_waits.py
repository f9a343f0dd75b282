"""What a PostgreSQL server's processes wait for, looked at over SQL; and looks as a table.

Where the processes' memory cannot be read (`memory_waits`). The server has a backend at work for
each look, which needs a processor as the load does.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from nfslab import clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    import pyarrow as pa

WAITS_TABLE: Final = "postgres_waits"
ROWS_MAX: Final = 4_000_000
"""Rows kept in memory; beyond, sampling stops and the summary says so."""
TOP_WAITS: Final = 40
ACTIVITY: Final = """
SELECT backend_type, coalesce(wait_event_type, ''), coalesce(wait_event, ''),
       coalesce(state, ''), count(*)
FROM pg_stat_get_activity(NULL) WHERE pid <> pg_backend_pid() AND backend_type IS NOT NULL
GROUP BY 1, 2, 3, 4
"""
"""Of the function behind pg_stat_activity: the view's joins cost as much again."""
KEYS: Final = ("backend_type", "wait_event_type", "wait_event", "state")


class TooMuchError(Exception):
    """A bound was reached: what was seen so far is kept, and the summary says so."""


class WaitRow(NamedTuple):
    """So many processes in one state, on average between two instants (equal ones: at it)."""

    from_ns: int
    t_ns: int
    key: tuple[str, str, str, str]
    """`KEYS`."""
    backends: float


class SqlWaits:
    """Looks at every process, when it is told to."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._rows: list[WaitRow] = []
        self._keys: dict[tuple[str, str, str, str], tuple[str, str, str, str]] = {}
        self.looks = 0

    def look(self) -> None:
        """Once. psycopg.Error, TooMuchError."""
        t_ns = clock.monotonic_ns()
        rows = self._connection.execute(ACTIVITY, prepare=True).fetchall()
        if len(self._rows) + len(rows) > ROWS_MAX:
            raise TooMuchError(f"sampling stopped: more than {ROWS_MAX} rows")
        self.looks += 1
        for *texts, number in rows:
            key = cast("tuple[str, str, str, str]", tuple(texts))
            # Few states, many rows: each state's texts are kept once.
            self._rows.append(WaitRow(t_ns, t_ns, self._keys.setdefault(key, key), number))

    def end(self) -> list[WaitRow]:
        """All that was seen, in the order of time."""
        return self._rows


def waits_table(rows: Sequence[WaitRow], zero_ns: int) -> pa.Table:
    """t_ns (since `zero_ns`), over_ns, `KEYS`, backends: mean number in the over_ns before t_ns."""
    import pyarrow as pa

    columns: dict[str, Any] = {
        "t_ns": pa.array([row.t_ns - zero_ns for row in rows], pa.int64()),
        "over_ns": pa.array([row.t_ns - row.from_ns for row in rows], pa.int64()),
    }
    for place, name in enumerate(KEYS):
        columns[name] = pa.array([row.key[place] for row in rows], pa.string())
    columns["backends"] = pa.array([row.backends for row in rows], pa.float64())
    return pa.table(columns)


def mean_waits(rows: Sequence[WaitRow], begin_ns: int, end_ns: int) -> list[dict[str, Any]]:
    """Mean number of processes in each state between two instants, the most first."""
    inside = [row for row in rows if begin_ns <= row.from_ns and row.t_ns <= end_ns]
    times = sum(1 for _ in groupby(row.t_ns for row in inside))
    totals: Counter[tuple[str, str, str, str]] = Counter()
    for row in inside:
        totals[row.key] += row.backends  # type: ignore[assignment]
    most = sorted(totals.items(), key=lambda item: -item[1])[:TOP_WAITS]
    return [
        dict(zip(KEYS, key, strict=True)) | {"mean_backends": total / times} for key, total in most
    ]
