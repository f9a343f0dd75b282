"""Reads files of a capture for another process: `python -m nfslab.captures.part_worker`.

    parent (`captures.pool`)             this process
    read: `folder`, `files`,       ──>   the files in a row, and the beginning of the next
          `next`, `lenses`               between: progress: `state`
                                         done: `part` (the core's JSON, as text); or error
    ... as often as it is told

Files are named as the user named them, from the `folder` where that was: what is wrong with one is
told in the same words. Where that folder is not (on another host), by their whole paths.

The parent's end of standard input is its life, as is that of standard output: what cannot be said
ends it. A Ctrl-C is the parent's to obey.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from nfslab.machine.agent import Parent, ParentGone, error_content

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab._core import TraceProgress

    Tell = Callable[[TraceProgress], None]

LINE_MAX = 8 << 20
"""Bytes of a command: 2000 names of files of the longest kind."""


def files_of(told: dict[str, Any], names: list[str]) -> list[str]:
    """How these are opened here."""
    try:
        os.chdir(told["folder"])
    except OSError:
        return [os.path.abspath(os.path.join(told["folder"], name)) for name in names]
    return names


def read(told: dict[str, Any], progress: Tell) -> dict[str, Any]:
    """A part of the capture; CoreError."""
    from nfslab._core import read_part

    following = [] if told["next"] is None else [told["next"]]
    files = files_of(told, [*told["files"], *following])
    count = len(told["files"])
    own, behind = files[:count], files[count:]
    part = read_part(own, behind[0] if behind else None, told["lenses"], progress)
    return {"part": part.decode()}


def work(parent: Parent) -> None:
    """One order after the other."""
    from nfslab._core import CoreError

    def progress(state: TraceProgress) -> None:
        parent.say("progress", state=state)
        if not parent.is_there():
            raise ParentGone

    while True:
        told = parent.obey("read")
        try:
            done = read(told, progress)
        except CoreError as error:
            parent.say("error", **error_content(error))
        else:
            parent.say("done", **done)


def main() -> int:
    """Exit code: 0 the parent is gone, as it is when all is done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        work(Parent(LINE_MAX))
    except (ParentGone, BrokenPipeError):
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
