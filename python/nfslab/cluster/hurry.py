"""A thread whose beats have to come while a load takes all processors."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Final

NICENESS: Final = -10


def hurry() -> None:
    """The calling thread alone, where it may (root): what it starts is as nice as anybody.

    Source: sched(7): a thread with SCHED_RESET_ON_FORK hands a negative nice value to no child.
    """
    with contextlib.suppress(OSError):
        policy = os.SCHED_OTHER | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, policy, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
