"""Event loops on threads of their own: who calls may run one already (a notebook's)."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from nfslab.cluster.hurry import hurry

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self, *, hurries: bool = True) -> None:
        self.loop = asyncio.new_event_loop()
        self._hurries = hurries
        self._thread = threading.Thread(target=self._run, daemon=True, name="cluster")
        self._thread.start()

    def _run(self) -> None:
        if self._hurries:
            hurry()
        self.loop.run_forever()

    def call(self, work: Coroutine[Any, Any, Any], limit_s: float | None = None) -> Any:
        """Run it there, and wait for it; TimeoutError."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(limit_s)
        except concurrent.futures.TimeoutError as error:
            future.cancel()
            raise TimeoutError(f"no answer within {limit_s:g} s") from error

    def close(self) -> None:
        """What still runs there is cancelled."""

        async def cancelled() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.call(cancelled())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


def waited(work: Coroutine[Any, Any, T]) -> T:
    """What the coroutine returns. The caller's thread may run a loop already (a notebook's)."""
    # What it starts is not to hurry.
    loop = Loop(hurries=False)
    try:
        found: T = loop.call(work)
        return found
    finally:
        loop.close()
