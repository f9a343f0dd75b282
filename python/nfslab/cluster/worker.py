"""Dask's worker, of which nothing is left but that it joins the cluster and attends to its prime.

No tasks, no nanny, no HTTP, nothing unpickled. It ends when its connection to the scheduler does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from distributed.core import Status
from distributed.worker import Worker

from nfslab.cluster.attended import Attended
from nfslab.cluster.messages import peer_of_comm

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.cluster.certificates import Papers

ATTEND: Final = "nfslab-attend"
LEAVE: Final = "nfslab-leave"
JOIN_S: Final = 20.0
BUSY: Final = "another nfslab holds this host"


class Member(Worker):  # type: ignore[misc]
    """One machine."""

    def __init__(
        self, scheduler: str, papers: Papers, name: str, folder: Path, token: str, host: str | None
    ) -> None:
        super().__init__(
            scheduler,
            name=name,
            nthreads=1,
            host=host,
            protocol="tls",
            security=papers.security(),
            memory_limit=0,
            local_directory=str(folder),
            death_timeout=JOIN_S,
            extensions={},
            startup_information={},
            dashboard=False,
        )
        self._own_folder = folder
        self._token = token
        self._visit: Attended | None = None
        self._turn = asyncio.Lock()
        self._is_awaited = False
        self.handlers = {ATTEND: self._attend, LEAVE: self._leave}
        # The scheduler also tells of others that left, and of tasks: nothing of it matters here.
        for name in self.stream_handlers:
            if name != "close":
                self.stream_handlers[name] = ignored

    def start_http_server(self, *_arguments: Any, **_named: Any) -> None:
        """None."""

    def start_periodic_callbacks(self) -> None:
        """None: no tasks, no memory to watch; TCP's keep-alive tells a scheduler that is gone."""
        for one in self.periodic_callbacks.values():
            one.stop()

    async def _attend(self, comm: Any, prime: dict[str, Any]) -> Status:
        if peer_of_comm(comm).role != "prime":
            comm.abort()
        elif self._is_awaited or (self._visit is not None and not self._visit.is_over):
            await comm.write({"is": "hello", "name": self.name, "facts": "{}", "busy": BUSY})
        else:
            await self._serve(comm, prime)
        return Status.dont_reply

    async def _serve(self, comm: Any, prime: dict[str, Any]) -> None:
        """This prime, once the agents of one that is gone have ended."""
        self._is_awaited = True
        async with self._turn:
            self._is_awaited = False
            self._visit = Attended(comm, str(self.name), self._own_folder, self._token)
            try:
                await self._visit.serve(prime)
            finally:
                self._visit = None

    def _leave(self, comm: Any) -> Status:
        if peer_of_comm(comm).role == "prime":
            self.loop.add_callback(self.close, reason="its prime said so")
        else:
            comm.abort()
        return Status.dont_reply

    async def close(self, *arguments: Any, **named: Any) -> str | None:
        """Agents first."""
        if self._visit is not None:
            await self._visit.leave()
        done: str | None = await super().close(*arguments, **named)
        return done


def ignored(**_said: Any) -> None:
    """What a scheduler tells its workers that is of no interest to ours."""
