"""A machine that has a certificate of the cluster and does as it likes, on a thread of its own."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from distributed.comm import listen
from distributed.protocol.serialize import ToPickle, to_serialize
from nfslab.cluster.certificates import Papers
from nfslab.cluster.loop import Loop

Act = Callable[[Any, dict[str, Any]], Awaitable[None]]


class Evil:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.folder),))


def pickled(folder: Path) -> dict[str, Any]:
    """In each way that Dask's protocol has."""
    return {
        "pickled": ToPickle(Evil(folder)),
        "serialized": to_serialize(Evil(folder)),
    }


class Hostile:
    """Listens as a worker does; `act` gets each connection and its first message."""

    def __init__(self, papers: Papers, act: Act, greeting: dict[str, Any] | None = None) -> None:
        self._loop = Loop()
        self.done = threading.Event()

        async def handle(comm: Any) -> None:
            try:
                await act(comm, await comm.read())
            except OSError:
                comm.abort()
            finally:
                self.done.set()

        async def greeted(comm: Any, _overrides: Any = None) -> None:
            await comm.write({**comm.handshake_info(), **(greeting or {})})
            await comm.read()

        async def started() -> str:
            arguments = papers.security().get_listen_args("worker")
            self._listener = listen("tls://127.0.0.1:0", handle, **arguments)
            self._listener.on_connection = greeted
            await self._listener
            address: str = self._listener.contact_address
            return address

        self.address: str = self._loop.call(started())

    def close(self) -> None:
        async def stopped() -> None:
            self._listener.stop()

        self._loop.call(stopped())
        self._loop.close()
