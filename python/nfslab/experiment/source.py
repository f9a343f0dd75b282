"""The text of an experiment file: its values, and the line on which each of them stands.

Python's `tomllib` reads the values; the core tells the places. Values that an option
(`--set`) replaced have that option as their place.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nfslab.errors import UsageError, system_errors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Step = str | int
Tree = dict[str, Any]

MAX_FILE_BYTES = 1 << 20
"""An experiment file is a few kilobytes; a larger one is another kind of file."""


@dataclass(slots=True)
class Source:
    """A parsed experiment file. `tree` holds its values, `where` names their places."""

    path: Path
    name: str
    """As the person gave it; used in messages."""
    content: bytes
    """The file, byte for byte."""
    text: str
    tree: Tree
    key_lines: dict[tuple[Step, ...], int] = field(default_factory=dict)
    value_lines: dict[tuple[Step, ...], int] = field(default_factory=dict)
    overridden: dict[tuple[Step, ...], str] = field(default_factory=dict)
    """Path -> the option that set it."""

    def line(self, path: Sequence[Step], *, key: bool = False) -> int | None:
        """Line of the value (or key) at `path`, or of the nearest thing around it."""
        steps = tuple(path)
        first = self.key_lines if key else self.value_lines
        if steps in first:
            return first[steps]
        while steps:
            steps = steps[:-1]
            if steps in self.key_lines:
                return self.key_lines[steps]
        return None

    def where(self, path: Sequence[Step], *, key: bool = False) -> str:
        """ "file:line" of `path`, or the option that set it."""
        for length in range(len(path), 0, -1):
            option = self.overridden.get(tuple(path[:length]))
            if option is not None:
                return option
        steps = tuple(path)
        if steps not in self.key_lines:
            for option_path, option in self.overridden.items():
                if steps and option_path[: len(steps)] == steps:
                    return option  # an option made the table that is wrong
        line = self.line(path, key=key)
        return f"{self.name}:{line}" if line is not None else self.name


def read_source(path: Path) -> Source:
    """Read and parse a file; `UsageError` with the line when it is not valid TOML."""
    name = str(path)
    with system_errors(
        f"cannot read the experiment file {name}", "let this user read it", UsageError
    ):
        if path.is_dir():
            raise UsageError(f"{name} is a folder", fix="give an experiment file (TOML)")
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise UsageError(
                f"{name} is no experiment file",
                why=f"it has {size} bytes, more than the {MAX_FILE_BYTES} accepted",
                fix="give an experiment file (TOML), such as those in experiments/",
            )
        content = path.read_bytes()
    return parse_source(content, path)


def parse_source(content: bytes, path: Path) -> Source:
    """Parse the bytes of an experiment file that belongs at `path`."""
    name = str(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{name}:{line}: not valid UTF-8",
            why=f"byte {content[error.start]:#04x} at offset {error.start}",
            fix="TOML files are UTF-8: save it in that encoding",
        ) from error
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(name, text, error) from error
    except RecursionError as error:
        raise UsageError(
            f"{name}: nested too deeply to be an experiment file",
            fix="give an experiment file (TOML), such as those in experiments/",
        ) from error
    source = Source(path, name, content, text, tree)
    _add_lines(source)
    _refuse_dates(source)
    return source


def _syntax_error(name: str, text: str, error: tomllib.TOMLDecodeError) -> UsageError:
    """The parser's words with the place in front and the line itself below."""
    message = str(error)
    place = re.search(r"\s*\(at line (\d+), column (\d+)\)$", message)
    if place:
        line = int(place[1])
        message = message[: place.start()]
    else:
        line = text.count("\n") + 1  # tomllib says "(at end of document)"
        message = message.removesuffix(" (at end of document)")
    lines = text.split("\n")
    shown = lines[line - 1].strip()[:80] if 0 < line <= len(lines) else ""
    return UsageError(
        f"{name}:{line}: {message}",
        why=f"this line is not valid TOML: {shown}" if shown else "not valid TOML",
        fix='strings need quotes: kind = "local"; a table is opened by [name]',
    )


def _add_lines(source: Source) -> None:
    """Fill in the places; without them (an unusual TOML) errors name the file only."""
    from nfslab._core import CoreError, toml_lines

    try:
        places = toml_lines(source.text)
    except CoreError:
        return
    for path, key_line, value_line in places:
        source.key_lines[tuple(path)] = key_line
        source.value_lines[tuple(path)] = value_line


def _refuse_dates(source: Source) -> None:
    """TOML has dates and times; no parameter takes one, so one is a forgotten quote."""
    stack: list[tuple[tuple[Step, ...], Any]] = [((), source.tree)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack += [((*path, key), item) for key, item in value.items()]
        elif isinstance(value, list):
            stack += [((*path, index), item) for index, item in enumerate(value)]
        elif isinstance(value, datetime.date | datetime.time | datetime.datetime):
            raise UsageError(
                f"{source.where(path)}: a date or a time where none is expected",
                why=f"{value.isoformat()} without quotes is a date in TOML",
                fix=f'quote it: "{value.isoformat()}"',
            )
