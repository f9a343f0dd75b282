"""The last way: what a PostgreSQL and the kernel say of themselves, before and after.

pg_stat_wal (13 and newer: how often the log was synced and for how long), pg_stat_io (16: fsyncs of
data files), pg_stat_bgwriter, and /proc/PID/io of the processes that live at both readings. Totals
only: no single call, no series, no distribution.

Limits: what ended between the readings has taken its /proc/PID/io with it; times are 0 unless the
server's track_wal_io_timing and track_io_timing are on (the summary says so); without a connection
(a server of another user) only /proc is read.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import RunFailed, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

QUERIES: Final = {
    "pg_stat_wal": "SELECT * FROM pg_stat_wal",
    "pg_stat_io": ("SELECT sum(fsyncs) AS fsyncs, sum(fsync_time) AS fsync_time FROM pg_stat_io"),
    "pg_stat_bgwriter": "SELECT * FROM pg_stat_bgwriter",
}
SETTINGS: Final = ("track_wal_io_timing", "track_io_timing")
CONNECT_LIMIT_S: Final = 30
PROCESSES_MOST: Final = 4096
IO_FIELDS: Final = ("rchar", "wchar", "syscr", "syscw", "read_bytes", "write_bytes")


class SyscallViews:
    """Readings of one server; used like the other sources, but it has no records."""

    def __init__(self, pids: Sequence[int], conninfo: str = "") -> None:
        self._pids, self._conninfo = list(pids), conninfo
        self.notes: list[str] = []
        self._before = self._read()
        self._io_before = self._processes()
        if not self._before and not any(self._io_before.values()):
            raise self._nothing()
        self._totals: dict[str, float] = {}
        self._over = False

    def _nothing(self) -> RunFailed:
        named = ", ".join(map(str, self._pids))
        reasons = [f"/proc/PID/io of {named} cannot be read: of another user, or ended"]
        return RunFailed(
            "neither PostgreSQL's views nor /proc can be read",
            why="; ".join([*reasons, *self.notes]),
            fix="run as root, or as the user of what is watched",
        )

    def take(self) -> dict[str, Any]:
        """Nothing: there are no records."""
        return {}

    def counts(self) -> None:
        """Nothing: there are no totals by file."""

    def figures(self) -> dict[str, int]:
        """Differences since the start, whole numbers."""
        if not self._over:
            self._totals = self._difference()
        return {name: round(value) for name, value in self._totals.items() if value}

    def stop(self) -> None:
        """Read a last time."""
        self._totals, self._over = self._difference(), True

    def restart(self) -> None:
        """Count from now on."""
        self._before, self._io_before = self._read(), self._processes()

    def _difference(self) -> dict[str, float]:
        after, io_after = self._read(), self._processes()
        found = {name: value - self._before.get(name, 0.0) for name, value in after.items()}
        for pid, values in io_after.items():
            before = self._io_before.get(pid)
            if before is not None:
                for name, value in values.items():
                    key = f"proc_io.{name}"
                    found[key] = found.get(key, 0.0) + value - before.get(name, 0)
        return found

    def _processes(self) -> dict[int, dict[str, int]]:
        from nfslab.machine.processes import all_statuses, descendants_of

        pids = descendants_of(self._pids, all_statuses(), PROCESSES_MOST)
        return {pid: _io_of(pid) for pid in pids}

    def _read(self) -> dict[str, float]:
        if not self._conninfo:
            return {}
        import psycopg

        found: dict[str, float] = {}
        try:
            with psycopg.connect(
                self._conninfo, autocommit=True, connect_timeout=CONNECT_LIMIT_S
            ) as connection:
                for view, query in QUERIES.items():
                    with contextlib.suppress(psycopg.errors.UndefinedTable):
                        found |= _numbers(view, connection.execute(query))
                rows = connection.execute(
                    "SELECT name FROM pg_settings WHERE name = ANY(%s) AND setting = 'off'",
                    (list(SETTINGS),),
                ).fetchall()
                self._note([f"{row[0]} is off: its times are 0" for row in rows])
        except psycopg.Error as error:
            self._note([f"PostgreSQL does not answer: {one_line(error)}"])
        return found

    def _note(self, notes: Sequence[str]) -> None:
        self.notes += [note for note in notes if note not in self.notes]


def _numbers(view: str, cursor: Any) -> Mapping[str, float]:
    row = cursor.fetchone()
    names = [column.name for column in cursor.description or []]
    if row is None:
        return {}
    return {
        f"{view}.{name}": float(value)
        for name, value in zip(names, row, strict=True)
        if value is not None and not hasattr(value, "year")
    }


def _io_of(pid: int) -> dict[str, int]:
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            lines = dict(line.split(": ") for line in file)
    except (OSError, ValueError):
        return {}
    return {name: int(lines[name]) for name in IO_FIELDS if name in lines}
