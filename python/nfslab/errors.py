"""The one root of every error that nfslab raises on purpose.

An error tells what happened, why, and what to do next. The command line prints those
three parts and leaves with the error's exit code; anything that is not a `NfslabError`
is a defect of nfslab and shows its traceback.

Exit codes follow the convention that scripts rely on: 2 for bad usage (nothing was
run), 1 for a run that failed, 130 for an interrupted one (128 + SIGINT); 0 where Ctrl-C is the way
to end a command.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path


class NfslabError(Exception):
    """Anything that went wrong in a way that a person can act upon.

    `what` happened, `why` it did (empty when unknown), and the `fix` to try next.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, why: str = "", fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.fix = fix

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def in_a_line(self, between: str = "; ") -> str:
        """What happened and why, where there is no room for what to do."""
        return between.join(part for part in (self.what, self.why) if part)

    def lines(self) -> list[str]:
        """The message as printed: what, then why, then what to do."""
        lines = [self.what]
        if self.why:
            lines.append(f"  why: {self.why}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return lines


class UsageError(NfslabError):
    """Bad usage: a wrong option, a file that does not validate, a name nobody knows."""

    exit_code = 2


class RunFailed(NfslabError):
    """One run could not be completed; the experiment records the reason and goes on."""


class Unavailable(NfslabError):
    """Something this machine (or this user) cannot do; carries what would add it."""


class ResultsError(NfslabError):
    """A results folder that cannot be read: damaged, half written, or from the future."""


class Interrupted(NfslabError):
    """The person (or the system) asked us to stop; everything finished is kept."""

    exit_code = 130
    folder: Path | None = None
    """Of the results, where something is kept."""


class Terminated(KeyboardInterrupt):
    """SIGTERM: it ends what Ctrl-C would end, at once."""


def one_line(error: BaseException) -> str:
    """Its words, for a sentence or a note."""
    return " ".join(str(error).split())


def of_core(error: Any, usage: Collection[str] = ()) -> UsageError | RunFailed:
    """An error of the core (`CoreError`) as one of ours; kinds in `usage` are bad usage."""
    kind = UsageError if error.kind in usage else RunFailed
    return kind(error.what, why=error.why, fix=error.fix)


@contextlib.contextmanager
def system_errors(what: str, fix: str, kind: type[NfslabError] = ResultsError) -> Iterator[None]:
    """What the system refuses within (OSError) becomes this error, with its words as the reason."""
    try:
        yield
    except OSError as error:
        raise kind(what, why=str(error.strerror or error), fix=fix) from error
