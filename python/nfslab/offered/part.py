"""One of several generator processes: `python -m nfslab.offered.part`, told by its parent.

    parent                         this process
    plan (a line of JSON)    ──>
    "prepare"                ──>   its part of the file set   ──> {"prepared": [...]}
    "connect"                ──>   threads and connections    ──> {"connected": true}
    the common start, ns     ──>   the load                   ──> {"sums": "..."}
                                   between: {"progress": {...}}; {"error": {...}} ends it

The parent's end of standard input is its life: when that closes, the work stops. So no process is
left behind, however the parent ended; a Ctrl-C is the parent's to obey.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from typing import Any

STDIN, STDOUT = 0, 1
LINE_MAX = 64 << 20
"""Bytes of a line; a plan has some thousands."""


class ParentGone(Exception):
    """Nobody is there to tell us anything."""


class Parent:
    """Both pipes, a line at a time."""

    def __init__(self) -> None:
        self._rest = b""

    def line(self) -> str:
        """The next line; waits for it."""
        while b"\n" not in self._rest:
            found = os.read(STDIN, 1 << 16)
            if not found or len(self._rest) > LINE_MAX:
                raise ParentGone
            self._rest += found
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def is_there(self) -> bool:
        """Whether standard input is still open. Nothing is to come while we are at work."""
        readable, _, _ = select.select([STDIN], [], [], 0)
        return not readable or bool(os.read(STDIN, 1 << 16))

    def say(self, event: dict[str, Any]) -> None:
        """An event, whole."""
        text = json.dumps(event).encode() + b"\n"
        while text:
            text = text[os.write(STDOUT, text) :]


def work(parent: Parent) -> None:
    """From the plan to the sums."""
    from nfslab._core import Load

    def progress(state: dict[str, Any]) -> bool:
        parent.say({"progress": state})
        return parent.is_there()

    def begin() -> int:
        parent.say({"connected": True})
        return int(parent.line())

    load = Load(parent.line())
    expect(parent, "prepare")
    parent.say({"prepared": load.prepare(progress)})
    expect(parent, "connect")
    parent.say({"sums": load.run_part(begin, progress)})


def expect(parent: Parent, word: str) -> None:
    """The parent's next word; nothing else makes sense."""
    if (said := parent.line()) != word:
        raise ValueError(f"{said!r} instead of {word!r}")


def main() -> int:
    """Exit code: 0 all was handed over, 1 an error was said, 3 the parent is gone."""
    from nfslab._core import CoreError

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent()
    try:
        try:
            work(parent)
        except CoreError as error:
            said = {name: getattr(error, name) for name in ("kind", "what", "why", "fix")}
            parent.say({"error": said})
            return 1
    except (ParentGone, BrokenPipeError):
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
