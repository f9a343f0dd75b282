"""The command line: one file per command, arguments only.

The group imports a command's module when that command is used (see `registry`), so that
`nfslab --help` stays within a third of a second. Errors that a person can act upon are
printed in three lines (what, why, fix); the exit code tells a script what happened:
2 bad usage, 1 a failed run, 130 interrupted (0 where Ctrl-C is the way to end a command).
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from nfslab import __version__
from nfslab.cli.registry import COMMANDS, READERS
from nfslab.display import called
from nfslab.errors import NfslabError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

EXAMPLES = """\b
Examples:
  nfslab quickstart
  nfslab run experiments/placement-2001.toml --dry-run
  nfslab report results/placement-2001-1a2b3c4d
"""


class CalledFormatter(click.HelpFormatter):
    """Help whose commands can be pasted."""

    def write_text(self, text: str) -> None:
        """Paragraphs and examples."""
        super().write_text(called.as_called(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], *more: Any, **named: Any) -> None:
        """Options and commands, with what they are for."""
        super().write_dl([(term, called.as_called(text)) for term, text in rows], *more, **named)


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the registry: the order of a first session."""
        return list(COMMANDS)

    def make_context(self, *arguments: Any, **named: Any) -> click.Context:
        """As click does; help may be piped."""
        with _reader_may_go():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does; output may be piped."""
        with _reader_may_go():
            return super().invoke(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module; None when nobody knows the name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        if cmd_name in READERS:
            # numpy, which comes with tables, begins a thread for each further processor, and each
            # spins for a while, waiting for matrices that never come. Not where a command starts
            # programs: they would inherit this.
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        command = importlib.import_module(entry[0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, from the registry alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but an unknown name comes with the nearest known one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from nfslab.plugins import nearest

            guess = nearest(args[0], COMMANDS)
            hint = f" Did you mean {guess!r}?" if guess else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@contextlib.contextmanager
def _reader_may_go() -> Iterator[None]:
    """Who reads our output may go away (`nfslab list | head`): no error of ours, though click ends
    with 1 for it. What the command came to stays."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError as error:
        # Python writes what is left of it at the end, and would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        ended = error.__context__
        if ended is None or isinstance(ended, BrokenPipeError):
            raise click.exceptions.Exit(0) from None
        raise ended from None


@click.group(cls=LazyGroup, epilog=EXAMPLES, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="nfslab")
def cli() -> None:
    """How does my database, web server or file load behave on this storage, and why?"""


def main() -> NoReturn:
    """Entry point: run the command line and leave with the right exit code."""
    click.Context.formatter_class = CalledFormatter
    try:
        code = cli.main(
            prog_name=called.name(), complete_var="_NFSLAB_COMPLETE", standalone_mode=False
        )
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2 if isinstance(error, click.UsageError) else error.exit_code)
    except (KeyboardInterrupt, RuntimeError) as error:
        if not _is_interrupt(error):
            raise
        print("nfslab: interrupted; everything that was finished is kept.", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        # Files are written with errors of their own: what has no name is our output.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or error.filename:
            raise
        print(
            "nfslab: the output cannot be written",
            f"  why: {error.strerror}",
            "  fix: make room where it goes, or send it elsewhere",
            sep="\n",
            file=sys.stderr,
        )
        # Python writes what is left of it at the end, and would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except NfslabError as error:
        first, *rest = error.lines()
        print(f"nfslab: {first}", *map(called.as_called, rest), sep="\n", file=sys.stderr)
        sys.exit(error.exit_code)
    # Without standalone mode click returns what a command gave to `ctx.exit`.
    sys.exit(code if isinstance(code, int) else 0)


def _is_interrupt(error: BaseException) -> bool:
    """Whether a signal ended the command.

    One that comes between two instructions of `threading.Condition.wait` is raised where its lock
    is not held, and leaving that raises "release unlocked lock" over it.
    """
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return True
    return isinstance(error.__context__, KeyboardInterrupt) and "lock" in str(error)
