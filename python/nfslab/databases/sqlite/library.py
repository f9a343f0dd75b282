"""The machine's SQLite, called in its own library: Python's sqlite3 does not give its counters."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LIBRARY: Final = "libsqlite3.so.0"
OK: Final = 0
ROW: Final = 100
DONE: Final = 101
OPEN_READWRITE: Final = 0x2
INTEGER, FLOAT, TEXT, NULL = 1, 2, 3, 5
CACHE_HIT, CACHE_MISS = 7, 8
"""Of sqlite3_db_status: pages that a connection had, and those that it read from its files."""
TRANSIENT: Final = ctypes.c_void_p(-1)
"""A bound text is copied."""


class SqliteError(Exception):
    """In the library's words."""


def loaded() -> ctypes.CDLL:
    """OSError where there is none."""
    library = ctypes.CDLL(LIBRARY)
    handle, text, whole = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    out = ctypes.POINTER(ctypes.c_void_p)
    numbers = ctypes.POINTER(whole)
    declared: dict[str, tuple[Any, list[Any]]] = {
        "libversion": (text, []),
        "open_v2": (whole, [text, out, whole, text]),
        "close_v2": (whole, [handle]),
        "errmsg": (text, [handle]),
        "extended_errcode": (whole, [handle]),
        "busy_timeout": (whole, [handle, whole]),
        "prepare_v2": (whole, [handle, text, whole, out, out]),
        "step": (whole, [handle]),
        "reset": (whole, [handle]),
        "finalize": (whole, [handle]),
        "bind_text": (whole, [handle, whole, text, whole, handle]),
        "column_count": (whole, [handle]),
        "column_type": (whole, [handle, whole]),
        "column_int64": (ctypes.c_int64, [handle, whole]),
        "column_double": (ctypes.c_double, [handle, whole]),
        "column_text": (text, [handle, whole]),
        "db_status": (whole, [handle, whole, numbers, numbers, whole]),
    }
    for name, (result, arguments) in declared.items():
        function = getattr(library, f"sqlite3_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Connection:
    """One, in autocommit, to a database that there is."""

    def __init__(self, path: str, busy_timeout_ms: int) -> None:
        self._library = loaded()
        self._handle = ctypes.c_void_p()
        code = self._library.sqlite3_open_v2(
            path.encode(), ctypes.byref(self._handle), OPEN_READWRITE, None
        )
        self._is_ok(code, path)
        self._library.sqlite3_busy_timeout(self._handle, busy_timeout_ms)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement yields; SqliteError."""
        prepared, found = self._prepared(statement), []
        try:
            while (code := self._library.sqlite3_step(prepared)) == ROW:
                count = self._library.sqlite3_column_count(prepared)
                found.append(tuple(self._column(prepared, number) for number in range(count)))
            self._is_ok(OK if code == DONE else code, statement)
        finally:
            self._library.sqlite3_finalize(prepared)
        return found

    def insert(self, statement: str, rows: Iterable[Sequence[bytes]]) -> None:
        """One execution of a prepared statement for each row of texts, in one transaction."""
        self.rows("BEGIN")
        prepared = self._prepared(statement)
        try:
            for row in rows:
                for number, text in enumerate(row, 1):
                    self._library.sqlite3_bind_text(prepared, number, text, len(text), TRANSIENT)
                code = self._library.sqlite3_step(prepared)
                self._is_ok(OK if code == DONE else code, statement)
                self._library.sqlite3_reset(prepared)
        finally:
            self._library.sqlite3_finalize(prepared)
        self.rows("COMMIT")

    def status(self, which: int) -> int:
        """A counter of this connection."""
        now, most = ctypes.c_int(), ctypes.c_int()
        code = self._library.sqlite3_db_status(
            self._handle, which, ctypes.byref(now), ctypes.byref(most), 0
        )
        self._is_ok(code, f"status {which}")
        return now.value

    def close(self) -> None:
        """It is not used any more."""
        self._library.sqlite3_close_v2(self._handle)

    def _prepared(self, statement: str) -> ctypes.c_void_p:
        text, made = statement.encode(), ctypes.c_void_p()
        code = self._library.sqlite3_prepare_v2(
            self._handle, text, len(text), ctypes.byref(made), None
        )
        self._is_ok(code, statement)
        return made

    def _column(self, prepared: ctypes.c_void_p, number: int) -> Any:
        kind = self._library.sqlite3_column_type(prepared, number)
        if kind == INTEGER:
            return self._library.sqlite3_column_int64(prepared, number)
        if kind == FLOAT:
            return self._library.sqlite3_column_double(prepared, number)
        if kind == NULL:
            return None
        return self._library.sqlite3_column_text(prepared, number).decode(errors="replace")

    def _is_ok(self, code: int, what: str) -> None:
        if code == OK:
            return
        said = self._library.sqlite3_errmsg(self._handle).decode(errors="replace")
        extended = self._library.sqlite3_extended_errcode(self._handle)
        raise SqliteError(f"error {extended}: {said} ({what[:200]})")
