"""The process that uses a run's SQLite: told what to do by lines, it answers into a pipe.

    {"do": "open", "path", "pragmas", "busy_timeout_ms"}   each pragma is read back
    {"do": "rows", "statement"}                  {"event": "rows", "rows"}
    {"do": "hold", "statements", "insert", "file"}     rows of a CSV file, kept in memory
    {"do": "counts"}                             {"event": "counts", ...}

    python -P -m nfslab.databases.sqlite.worker ANSWERS

It is a process of its own so that the system calls, bytes and memory of the database are those of
one process: collectors watch it as they watch an engine's server.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.databases.sqlite.library import CACHE_HIT, CACHE_MISS, Connection, SqliteError
from nfslab.machine.agent import READ_BYTES, STDIN, Lines, event

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE_MOST: Final = 16 << 20
"""Of a command: a statement with 100,000 keys in it is a megabyte."""


class Worker:
    """One connection, and who asks."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self._said_bytes = 0
        self._connection: Connection | None = None

    def obey(self, order: dict[str, Any]) -> None:
        """Do it, and say what came of it."""
        try:
            done = getattr(self, f"_{order.pop('do')}")(**order)
        except (SqliteError, OSError) as error:
            self._say("error", why=str(error))
            return
        self._say("done" if done is None else done[0], **({} if done is None else done[1]))

    @property
    def _database(self) -> Connection:
        if self._connection is None:
            raise SqliteError("it was not opened")
        return self._connection

    def _open(self, path: str, pragmas: dict[str, str], busy_timeout_ms: int) -> None:
        self._connection = Connection(path, busy_timeout_ms)
        for name, wanted in pragmas.items():
            self._database.rows(f"PRAGMA {name} = {wanted}")
            found = self._database.rows(f"PRAGMA {name}")
            if [(str(found[0][0]) if found else "")] != [wanted]:
                raise SqliteError(f"PRAGMA {name} is {found}, not {wanted}, as was asked for")

    def _rows(self, statement: str) -> tuple[str, dict[str, Any]]:
        return "rows", {"rows": self._database.rows(statement)}

    def _hold(self, statements: list[str], insert: str, file: str) -> None:
        for statement in statements:
            self._database.rows(statement)
        self._database.insert(insert, _csv(Path(file)))

    def _counts(self) -> tuple[str, dict[str, Any]]:
        """Bytes written are without those of our own answers."""
        counted = dict(
            line.split(b": ") for line in Path("/proc/self/io").read_bytes().splitlines()
        )
        return "counts", {
            "hit": self._database.status(CACHE_HIT),
            "missed": self._database.status(CACHE_MISS),
            "written_bytes": int(counted[b"wchar"]) - self._said_bytes,
            "fetched_bytes": int(counted[b"read_bytes"]),
        }

    def _say(self, name: str, **content: Any) -> None:
        text = event(name, **content)
        while text:
            some = os.write(self._answers, text)
            self._said_bytes += some
            text = text[some:]


def _csv(file: Path) -> Iterator[list[bytes]]:
    with file.open("rb") as lines:
        for line in lines:
            yield line.rstrip(b"\n").split(b",")


def main() -> None:
    """Until nobody is there to tell us anything."""
    import json

    worker = Worker(os.open(sys.argv[1], os.O_WRONLY))
    lines = Lines(LINE_MOST)
    while found := os.read(STDIN, READ_BYTES):
        for line in lines.feed(found):
            if line is None:
                return
            worker.obey(json.loads(line))


if __name__ == "__main__":
    main()
