"""The meeting point of a cluster, as a process of its own: `python -m nfslab.cluster.scheduler`.

Dask's scheduler, of which nothing is left but that workers join and the prime asks who is there:
no tasks, no client, no dashboard, no HTTP. The prime then speaks to each worker itself.
"""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING, Any, Final

from distributed.core import Status
from distributed.scheduler import Scheduler

from nfslab import __version__
from nfslab.cluster.messages import peer_of_comm

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.cluster.certificates import Papers

KIND: Final = "nfslab-scheduler"
DEFAULT_PORT: Final = 8786
FROM_WORKERS: Final = ("keep-alive", "worker-status-change", "log-event")
"""What a worker's connection may say: nothing of tasks."""
HOSTS_MAX: Final = 1000


class Rendezvous(Scheduler):  # type: ignore[misc]
    """Who is there."""

    def __init__(self, papers: Papers, host: str, port: int) -> None:
        super().__init__(
            security=papers.security(),
            protocol="tls",
            host=host,
            port=port,
            dashboard=False,
            extensions={},
            allowed_failures=0,
            idle_timeout=None,
        )
        # Dask's own notion of silence is minutes; ours is the prime's, over its own connections.
        self.worker_ttl = None
        self.handlers = {
            "identity": only(("prime", "worker"), self.who_is_there),
            "register-worker": only(("worker",), self.join),
            "terminate": only(("prime",), self.leave),
        }
        kept = {name: self.stream_handlers[name] for name in FROM_WORKERS}
        self.stream_handlers.clear()
        self.stream_handlers.update(kept)

    def start_http_server(self, *_arguments: Any, **_named: Any) -> None:
        """None."""

    def start_periodic_callbacks(self) -> None:
        """None: what they watch over are tasks."""

    async def join(self, comm: Any, **said: Any) -> Any:
        """A worker comes, under the name that its certificate gives it."""
        name = said.get("name")
        if not isinstance(name, str) or not peer_of_comm(comm).may_be(name):
            return await comm.write(refusal(f"a worker without the certificate of {name!r}"))
        if len(self.workers) >= HOSTS_MAX:
            return await comm.write(refusal(f"more than {HOSTS_MAX} hosts"))
        # Nothing of what it tells of itself is kept but where it is.
        said["metrics"] = {
            "bandwidth": {"total": 1, "workers": {}, "types": {}}, "memory": 0,
            "digests_total_since_heartbeat": {}, "spilled_bytes": {"memory": 0, "disk": 0},
        }  # fmt: skip
        return await self.add_worker(comm, **said)

    def who_is_there(self) -> dict[str, Any]:
        """Names and addresses."""
        members = [[str(one.name), one.address] for one in self.workers.values()]
        return {"kind": KIND, "nfslab": __version__, "members": members}

    def leave(self) -> Any:
        """All workers are told to end, then this ends."""
        self.loop.add_callback(functools.partial(self.close, reason="stopped by the prime"))
        return Status.dont_reply


def only(roles: tuple[str, ...], handler: Callable[..., Any]) -> Callable[..., Any]:
    """The handler, for peers of these roles."""
    wants_comm = handler.__name__ == "join"

    async def checked(comm: Any, **said: Any) -> Any:
        if peer_of_comm(comm).role not in roles:
            return refusal(f"not for the cluster's {peer_of_comm(comm).role or 'strangers'}")
        done = handler(comm, **said) if wants_comm else handler()
        return await done if asyncio.iscoroutine(done) else done

    return checked


def refusal(why: str) -> dict[str, str]:
    """An answer, and no exception: Dask would send that pickled."""
    return {"status": "error", "message": why}
