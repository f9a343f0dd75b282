"""What the processes of this workload have in common: `python -m nfslab.workloads.web.NAME CONFIG`.

CONFIG is a file of JSON. A process says what it has to in lines on its standard output
(`nfslab.machine.agent`); its standard input is its life.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab.machine.agent import Parent, ParentGone, error_content

if TYPE_CHECKING:
    from collections.abc import Callable

LINE_MAX: Final = 1 << 16
SAY_EVERY_NS: Final = 500_000_000


def main(work: Callable[[dict[str, Any], Parent], None]) -> int:
    """Do it; exit code: 0 done, 1 an error was said, 3 the parent is gone."""
    from nfslab._core import CoreError

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Parent(LINE_MAX)
    try:
        try:
            work(json.loads(Path(sys.argv[1]).read_bytes()), parent)
        except CoreError as error:
            parent.say("error", **error_content(error))
            return 1
    except (ParentGone, BrokenPipeError):
        return 3
    return 0


def progress_to(parent: Parent) -> Callable[[str], bool]:
    """A callback for the core: some lines a second; it stops when nobody is there any more."""
    import time

    last_ns = 0

    def progress(state: str) -> bool:
        nonlocal last_ns
        now_ns = time.monotonic_ns()
        if now_ns - last_ns >= SAY_EVERY_NS:
            last_ns = now_ns
            parent.say("progress", state=json.loads(state))
        return parent.is_there()

    return progress
