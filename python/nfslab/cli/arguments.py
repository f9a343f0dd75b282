"""What several commands take and do alike: values as texts, files to write, a polite kill."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nfslab.errors import Terminated, UsageError
from nfslab.experiment.repetitions import read_repetitions
from nfslab.results.durable import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


def print_json(content: Any) -> None:
    """For programs, a key a line."""
    click.echo(to_json(content, indent=1))


results_option = click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Where the experiment's folder is made.",
)
repetitions_option = click.option(
    "--repetitions",
    callback=parsed(read_repetitions),
    metavar="N|MIN..MAX:WIDTH",
    help="Instead of the file's: a number, or as many as it takes (4..30:5%).",
)
anyway_option = click.option(
    "--anyway",
    is_flag=True,
    help="Do not wait for another experiment of this machine: runs are marked.",
)


def bold(text: str) -> str:
    """A heading on a terminal."""
    return click.style(text, bold=True)
