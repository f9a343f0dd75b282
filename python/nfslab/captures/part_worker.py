"""Reads files of a capture for another process: `python -m nfslab.captures.part_worker`.

    parent (`nfslab.machine.agent`)      this process
    read: `files`, `next`,         ──>   the files in a row, and the beginning of the next
          `lenses`
                                         between: progress: `state`
                                         part: `part` (the core's JSON, as text), or error
    ... as often as it is told

The parent's end of standard input is its life, as is that of standard output: what cannot be said
ends it. A Ctrl-C is the parent's to obey.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from nfslab.machine.agent import Parent, ParentGone, error_content

if TYPE_CHECKING:
    from nfslab._core import TraceProgress

LINE_MAX = 8 << 20
"""Bytes of a command: 2000 names of files of the longest kind."""


def work(parent: Parent) -> None:
    """One order after the other."""
    from nfslab._core import CoreError, read_part

    def progress(state: TraceProgress) -> None:
        parent.say("progress", state=state)
        if not parent.is_there():
            raise ParentGone

    while True:
        told = parent.obey("read")
        try:
            part = read_part(told["files"], told["next"], told["lenses"], progress)
        except CoreError as error:
            parent.say("error", **error_content(error))
        else:
            parent.say("part", part=part.decode())


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
