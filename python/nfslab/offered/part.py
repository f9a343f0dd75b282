"""One of several generator processes: `python -m nfslab.offered.part`, told by its parent.

    parent (`nfslab.machine.agent`)      this process
    plan: its `plan`               ──>
    prepare                        ──>   its part of the file set   ──> prepared: `files`
    connect                        ──>   threads and connections    ──> connected
    start: `at_ns`, for all        ──>   the load                   ──> sums: `sums`
                                         between: progress: `state`; an error ends it

The parent's end of standard input is its life: when that closes, the work stops. So no process is
left behind, however the parent ended; a Ctrl-C is the parent's to obey.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from nfslab.machine.agent import Parent, ParentGone, error_content

LINE_MAX = 64 << 20
"""Bytes of a line; a plan has some thousands."""


def work(parent: Parent) -> None:
    """From the plan to the sums."""
    from nfslab._core import Load

    def progress(state: dict[str, Any]) -> bool:
        parent.say("progress", state=state)
        return parent.is_there()

    def begin() -> int:
        parent.say("connected")
        return int(parent.obey("start")["at_ns"])

    load = Load(json.dumps(parent.obey("plan")["plan"]))
    parent.obey("prepare")
    parent.say("prepared", files=load.prepare(progress))
    parent.obey("connect")
    parent.say("sums", sums=load.run_part(begin, progress))


def main() -> int:
    """Exit code: 0 all was handed over, 1 an error was said, 3 the parent is gone."""
    from nfslab._core import CoreError

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent(LINE_MAX)
    try:
        try:
            work(parent)
        except CoreError as error:
            parent.say("error", **error_content(error))
            return 1
    except (ParentGone, BrokenPipeError):
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
