"""One of several generator processes: `python -m nfslab.offered.part`, told by its parent.

    parent (`nfslab.machine.agent`)      this process
    plan: its `plan`               ──>
    prepare                        ──>   its part of the file set   ──> prepared: `files`
    connect                        ──>   threads and connections    ──> connected
    start: `at_ns`, for all        ──>   the load                   ──> sums: `sums`, `began_ns`
                                         between: progress: `state`; an error ends it

The parent's end of standard input is its life: when that closes, the work stops. So no process is
left behind, however the parent ended; a Ctrl-C is the parent's to obey.

`began_ns` is when this process ran at or behind the common instant: one that was kept from running
was not there to begin. What single operations were late by is in the sums.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from nfslab import clock
from nfslab.machine.agent import Parent, child

LINE_MAX = 64 << 20
"""Bytes of a line; a plan has some thousands."""


class Present:
    """When this process ran first, from an instant on: seen by a thread that waits for it."""

    def __init__(self) -> None:
        self.began_ns: int | None = None

    def from_(self, at_ns: int) -> None:
        """Of CLOCK_MONOTONIC; returns at once."""
        threading.Thread(target=self._wait, args=(at_ns,), daemon=True).start()

    def _wait(self, at_ns: int) -> None:
        while (left_ns := at_ns - clock.monotonic_ns()) > 0:
            clock.sleep(left_ns / 1e9)
        self.began_ns = clock.monotonic_ns()


def work(parent: Parent) -> None:
    """From the plan to the sums."""
    from nfslab._core import Load

    def progress(state: dict[str, Any]) -> bool:
        parent.say("progress", state=state)
        return parent.is_there()

    present = Present()

    def begin() -> int:
        parent.say("connected")
        at_ns = int(parent.obey("start")["at_ns"])
        present.from_(at_ns)
        return at_ns

    load = Load(json.dumps(parent.obey("plan")["plan"]))
    parent.obey("prepare")
    parent.say("prepared", files=load.prepare(progress))
    parent.obey("connect")
    sums = load.run_part(begin, progress)
    parent.say("sums", sums=sums, began_ns=present.began_ns)


if __name__ == "__main__":
    sys.exit(child(work, LINE_MAX))
