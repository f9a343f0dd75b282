"""What the processes of this workload have in common: `python -m nfslab.workloads.web.NAME CONFIG`.

CONFIG is a file of JSON. A process says what it has to in lines on its standard output
(`nfslab.machine.agent`); its standard input is its life.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.machine.agent import child

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.machine.agent import Parent

LINE_MAX: Final = 1 << 16
SAY_EVERY_NS: Final = 500_000_000


def main(work: Callable[[dict[str, Any], Parent], None]) -> int:
    """Do it; the exit code of `child`."""
    return child(lambda parent: work(json.loads(Path(sys.argv[1]).read_bytes()), parent), LINE_MAX)


def progress_to(parent: Parent) -> Callable[[str], bool]:
    """A callback for the core: some lines a second; it stops when nobody is there any more."""

    last_ns = 0

    def progress(state: str) -> bool:
        nonlocal last_ns
        now_ns = clock.monotonic_ns()
        if now_ns - last_ns >= SAY_EVERY_NS:
            last_ns = now_ns
            parent.say("progress", state=json.loads(state))
        return parent.is_there()

    return progress
