"""Where the time of a PostgreSQL server's processes goes, every pause of it (eBPF, root).

A backend keeps a number for the event that it waits for (`my_wait_event_info`, exported by the
server's program since PostgreSQL 14: src/include/utils/wait_event.h). The core reads it each time a
process leaves a processor (`_core.WaitWatch`), and adds up how long it was blocked, waited for a
processor, and was on one. Here numbers become the names that pg_stat_activity shows:

* the first byte is the kind of the wait, the same in all versions;
* of the events of IO, 17 and newer list them in the order of their numbers (pg_get_wait_events());
  those of 15 and 16 that matter are in `IO_EVENTS`; other versions are not watched;
* of light locks only WALWrite is told by name: number 8 in all of these versions (lwlocknames.h).

A process that waited for its client is a client's backend. Limits: a wait that blocks nobody (of a
page in the page cache) is time on a processor; what began before and ends after is in no sum.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import Unavailable
from nfslab.results.core_tables import core_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg
    import pyarrow as pa

    from nfslab._core import WaitWatch

TIMES_TABLE: Final = "postgres_times"
SYMBOL: Final = "my_wait_event_info"
CLIENT_BACKEND: Final = "client backend"
KINDS: Final = {
    0: "", 1: "LWLock", 3: "Lock", 4: "BufferPin", 5: "Activity", 6: "Client", 7: "Extension",
    8: "IPC", 9: "Timeout", 10: "IO", 11: "InjectionPoint",
}  # fmt: skip
CLIENT: Final = 6
LWLOCK_WAL_WRITE: Final = 0x01000008
IO: Final = 10 << 24
WITH_LIST: Final = 17
"""Versions from here on have pg_get_wait_events()."""
_DATA: Final = {
    13: "DataFileExtend", 14: "DataFileFlush", 15: "DataFileImmediateSync",
    16: "DataFilePrefetch", 17: "DataFileRead", 18: "DataFileSync", 19: "DataFileTruncate",
    20: "DataFileWrite",
}  # fmt: skip
_LOG: Final = (
    "WALBootstrapSync", "WALBootstrapWrite", "WALCopyRead", "WALCopySync", "WALCopyWrite",
    "WALInitSync", "WALInitWrite", "WALRead", "WALSync", "WALSyncMethodAssign", "WALWrite",
)  # fmt: skip
IO_EVENTS: Final[Mapping[int, Mapping[int, str]]] = {
    15: _DATA | dict(enumerate(_LOG, 62)),
    16: _DATA | dict(enumerate(_LOG, 63)),
}
"""By version and number within the kind (wait_event.h, whose order it is)."""
LIST: Final = """
SELECT name FROM pg_get_wait_events() WITH ORDINALITY AS event(type, name, description, place)
WHERE type = 'IO' ORDER BY place
"""


def io_events(connection: psycopg.Connection[Any], major: int) -> Mapping[int, str]:
    """The names of the IO events by number. Unavailable: they are not known of this version."""
    if major >= WITH_LIST:
        return {place: name for place, (name,) in enumerate(connection.execute(LIST).fetchall())}
    if major not in IO_EVENTS:
        raise Unavailable(
            "waits are sampled only",
            why=f"the numbers of the wait events of PostgreSQL {major} are not known",
            fix="use PostgreSQL 15, 16, 17 or 18",
        )
    return IO_EVENTS[major]


def event_of(state: int, events: Mapping[int, str]) -> tuple[str, str]:
    """(kind, event) as pg_stat_activity has them; of other kinds than IO no event, but WALWrite."""
    if state >> 24 == IO >> 24:
        return "IO", events.get(state - IO, "")
    name = "WALWrite" if state == LWLOCK_WAL_WRITE else ""
    return KINDS.get(state >> 24, f"kind {state >> 24}"), name


class ExactWaits:
    """Watches a server until it is stopped."""

    def __init__(self, connection: psycopg.Connection[Any], pid: int, major: int) -> None:
        """Unavailable or CoreError: it cannot be watched."""
        from nfslab._core import WaitWatch

        self._events = io_events(connection, major)
        self._own = connection.info.backend_pid
        self._watch: WaitWatch = WaitWatch(pid, SYMBOL)
        self._before: dict[tuple[int, str, int], int] = {}

    def begin(self) -> None:
        """The timed part begins."""
        self._before = self._totals()

    def _totals(self) -> dict[tuple[int, str, int], int]:
        columns = core_table(self._watch.totals()).to_pydict()
        keys = zip(columns["tid"], columns["kind"], columns["state"], strict=True)
        return dict(zip(keys, columns["ns"], strict=True))

    def end(self, zero_ns: int) -> tuple[pa.Table, dict[str, int]]:
        """Since `begin`, by process, and what watching cost.

        t_ns: when it was read, since `zero_ns`; backend_type: "client backend", or "" for another
        process; kind, wait_event_type, wait_event, ns.
        """
        import pyarrow as pa

        figures = self._watch.figures()
        self._watch.stop()
        t_ns = monotonic_ns() - zero_ns
        totals = self._totals()
        clients = {pid for pid, kind, state in totals
                   if kind == "blocked" and state >> 24 == CLIENT} - {self._own}  # fmt: skip
        rows = []
        for (pid, kind, state), ns in totals.items():
            spent = ns - self._before.get((pid, kind, state), 0)
            if spent > 0 and pid != self._own:
                named = event_of(state, self._events) if kind == "blocked" else ("", "")
                rows.append(
                    (t_ns, pid, CLIENT_BACKEND if pid in clients else "", kind, *named, spent)
                )
        names = ("t_ns", "pid", "backend_type", "kind", "wait_event_type", "wait_event", "ns")
        types = [
            pa.int64(),
            pa.int32(),
            pa.string(),
            pa.string(),
            pa.string(),
            pa.string(),
            pa.int64(),
        ]
        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        arrays = [pa.array(list(c), t) for c, t in zip(columns, types, strict=True)]
        return pa.table(dict(zip(names, arrays, strict=True))), figures
