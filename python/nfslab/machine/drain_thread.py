"""A thread that empties a source of records in turns, while what it records goes on.

    begin ──> drain, every DRAIN_S ──> end: the thread has gone; the last records are its owner's

A source that has gone (its mount, its process) ends the turns, and nothing that was taken before.
What it keeps is bounded where it is kept (`nfslab.results.bounded_rows`).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from nfslab import clock

if TYPE_CHECKING:
    from collections.abc import Callable

DRAIN_S: Final = 0.2
"""Between two turns: a source has room for more than comes meanwhile."""


class DrainThread:
    """Calls `drain`, which may raise CoreError, until `end`."""

    def __init__(self, drain: Callable[[], None], name: str) -> None:
        self._drain = drain
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.cpu_s = 0.0
        """The thread's own processor time, once it has ended."""
        self.problem = ""
        """Why it ended early."""

    def begin(self) -> None:
        """The first turn is one `DRAIN_S` from now."""
        self._thread.start()

    def end(self) -> None:
        """Returns when no turn is under way any more; also when it was never begun."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        from nfslab._core import CoreError

        began = clock.thread_cpu()
        while not clock.wait(self._over, DRAIN_S):
            try:
                self._drain()
            except CoreError as error:
                self.problem = str(error)
                break
        self.cpu_s = clock.thread_cpu() - began
