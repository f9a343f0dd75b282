"""The numbers that PostgreSQL's processes keep for what they wait for, and the names of them.

A backend keeps one at `my_wait_event_info`, which the server's program exports since PostgreSQL 14
(src/include/utils/wait_event.h). pg_stat_activity shows names:

* the first byte is the kind of the wait, the same in all versions;
* of the events of IO, 17 and newer list them in the order of their numbers (pg_get_wait_events());
  those of 15 and 16 that matter are in `IO_EVENTS`; other versions are not read;
* of other kinds those of `NAMED` are told by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

SYMBOL: Final = "my_wait_event_info"
KINDS: Final = {
    0: "", 1: "LWLock", 3: "Lock", 4: "BufferPin", 5: "Activity", 6: "Client", 7: "Extension",
    8: "IPC", 9: "Timeout", 10: "IO", 11: "InjectionPoint",
}  # fmt: skip
CLIENT: Final = 6
LOCKS: Final = (
    "relation", "extend", "frozenid", "page", "tuple", "transactionid", "virtualxid", "spectoken",
    "object", "userlock", "advisory", "applytransaction",
)  # fmt: skip
NAMED: Final = {
    0x01000008: "WALWrite", 0x06000000: "ClientRead", 0x06000001: "ClientWrite",
} | dict(enumerate(LOCKS, 0x03000000))  # fmt: skip
"""Of all these versions: lwlocknames.h, wait_event.h, lock.h."""
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
    """(kind, event) as pg_stat_activity has them; of other kinds than IO those of `NAMED`."""
    if state >> 24 == IO >> 24:
        return "IO", events.get(state - IO, "")
    return KINDS.get(state >> 24, f"kind {state >> 24}"), NAMED.get(state, "")
