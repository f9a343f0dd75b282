"""What several commands take and do alike: values as texts, files to write, a polite kill."""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any

import click

from nfslab.errors import Terminated, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def parsed(read: Callable[[str], Any]) -> Callable[..., Any]:
    """A click callback of a function of a text that raises ValueError."""

    def callback(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return [read(one) for one in value]
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return callback


def _terminated(_number: int, _frame: object) -> None:
    raise Terminated


@contextlib.contextmanager
def polite_kill() -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does: nothing half written stays."""
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def check_output(option: str, path: Path, *, folder: bool = False) -> None:
    """Can this file (or folder) be written? Asked before an hour of work; UsageError."""
    kind = "folder" if folder else "file"
    fix = f"name another {kind} with {option}"
    parent = path.absolute().parent
    if not parent.is_dir():
        raise UsageError(f"there is no folder {path.parent}", fix=f"make it, or {fix}")
    if path.exists() and not (path.is_dir() if folder else path.is_file()):
        what = "no folder" if folder else "a folder" if path.is_dir() else "no regular file"
        raise UsageError(f"{path} is {what}", fix=fix)
    if not os.access(parent, os.W_OK):
        raise UsageError(f"cannot write into {parent}", fix=fix)


def bold(text: str) -> str:
    """A heading on a terminal."""
    return click.style(text, bold=True)
