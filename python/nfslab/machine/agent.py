"""The one protocol between nfslab and child processes of its own: lines of JSON.

    parent                                    child (embedded server, generator, mount)
    {"do": NAME, ...}   ── standard input ──>
                        <── standard output ── {"event": NAME, ...}
                                               {"event": "error", "what", "why", "fix", ...}

One object a line. Answers come in the order of the commands; events may come between them. The
parent's end of standard input is a child's life unless it says otherwise: when that closes, the
work stops. Each side bounds a line; what is longer is no command, and an end for an answer.

Used by `nfslab serve --control`, the generators of an offered load, and `nfslab mount`. The same
lines pass through a remote shell as they pass through a pipe.
"""

from __future__ import annotations

import json
import os
import select
import signal
from typing import TYPE_CHECKING, Any, Final

from nfslab.errors import NfslabError, RunFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STDIN: Final = 0
STDOUT: Final = 1
READ_BYTES: Final = 1 << 16
WORDS_MAX: Final = 200
"""Of a wrong command, how much is repeated in the answer."""


class Lines:
    """Bytes in any pieces -> whole lines that are not blank; None for each that is too long."""

    def __init__(self, bytes_most: int) -> None:
        self._most = bytes_most
        self._begun = bytearray()
        self._too_long = False

    def feed(self, heard: bytes) -> Iterator[bytes | None]:
        """Lines that end in these bytes."""
        *ended, rest = heard.split(b"\n")
        for part in ended:
            line, self._begun = bytes(self._begun + part), bytearray()
            too_long = self._too_long or len(line) > self._most
            self._too_long = False
            if too_long:
                yield None
            elif line.strip():
                yield line
        self._begun += rest
        if len(self._begun) > self._most:
            self._begun, self._too_long = bytearray(), True


def event(name: str, **content: Any) -> bytes:
    """An event as its line."""
    return json.dumps({"event": name, **content}).encode() + b"\n"


def order(name: str, **content: Any) -> bytes:
    """A command as its line."""
    return json.dumps({"do": name, **content}).encode() + b"\n"


def error_content(error: Any) -> dict[str, Any]:
    """What an error says of itself, for its event: those of nfslab and of the core alike."""
    parts = ("kind", "what", "why", "fix", "exit_code")
    return {part: getattr(error, part) for part in parts if hasattr(error, part)}


def error_of(content: dict[str, Any]) -> NfslabError:
    """The error that an event tells of."""
    kind = UsageError if content.get("exit_code") == UsageError.exit_code else RunFailed
    return kind(content["what"], why=content.get("why", ""), fix=content.get("fix", ""))


def command_of(line: bytes, known: dict[str, frozenset[str]], fix: str) -> dict[str, Any]:
    """The command of a line: its name is one of `known`, its keys are those; UsageError."""

    def wrong(why: str) -> UsageError:
        shown = line[:WORDS_MAX].decode(errors="replace")
        return UsageError(f"not a command: {shown}", why=why, fix=fix)

    try:
        asked = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise wrong(f"it is no JSON: {error}") from error
    if not isinstance(asked, dict):
        raise wrong("it is no JSON object")
    name = asked.get("do")
    if not isinstance(name, str) or name not in known:
        raise wrong(f"{json.dumps(name)[:WORDS_MAX]} is nothing that can be done")
    if unknown := sorted(set(asked) - known[name] - {"do"}):
        raise wrong(f"{unknown[0][:WORDS_MAX]!r} does not belong to it")
    return asked


class ParentGone(Exception):
    """Nobody is there to tell us anything."""


def child(work: Callable[[Parent], None], bytes_most: int) -> int:
    """The whole of a child that does one thing after the other; a Ctrl-C is the parent's to obey.

    Its exit code: 0 all was handed over, 1 an error was said, 3 the parent is gone.
    """
    from nfslab._core import CoreError

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent(bytes_most)
    try:
        try:
            work(parent)
        except CoreError as error:
            parent.say("error", **error_content(error))
            return 1
    except (ParentGone, BrokenPipeError):
        return 3
    return 0


class Parent:
    """The child's side, where it does one thing after the other."""

    def __init__(self, bytes_most: int) -> None:
        self._lines = Lines(bytes_most)
        self._heard: list[bytes] = []

    def obey(self, *names: str) -> dict[str, Any]:
        """Wait for the next command, which has to be one of these; ParentGone, ValueError."""
        while not self._heard:
            found = os.read(STDIN, READ_BYTES)
            if not found:
                raise ParentGone
            for line in self._lines.feed(found):
                if line is None:
                    raise ParentGone
                self._heard.append(line)
        said: dict[str, Any] = json.loads(self._heard.pop(0))
        if said.get("do") not in names:
            raise ValueError(f"{said!r} instead of {' or '.join(names)}")
        return said

    def is_there(self) -> bool:
        """Whether standard input is still open. Nothing is to come while we are at work."""
        readable, _, _ = select.select([STDIN], [], [], 0)
        return not readable or bool(os.read(STDIN, READ_BYTES))

    def say(self, name: str, **content: Any) -> None:
        """An event, whole."""
        text = event(name, **content)
        while text:
            text = text[os.write(STDOUT, text) :]
