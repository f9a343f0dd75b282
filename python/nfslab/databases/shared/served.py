"""What engines with a server have in common: who runs it, whether it lives, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from nfslab import clock
from nfslab.databases.base import Database
from nfslab.errors import RunFailed
from nfslab.machine import users

if TYPE_CHECKING:
    from collections.abc import Callable

    from nfslab.databases.shared.deployment import Deployment

READY_POLL_S: Final = 0.02


class Server(Protocol):
    """A server that was started."""

    @property
    def deployment(self) -> Deployment:
        """How it runs."""

    def alive(self) -> bool:
        """Does its first process still run?"""

    def ends_within(self, limit_s: float) -> bool:
        """Wait so long for its end."""

    def death(self, what: str, also: str = "") -> RunFailed:
        """The error for a server that failed, with its own last words."""

    def stop(self, *, hurry: bool = False) -> object:
        """Shut down; at once in a hurry."""


S = TypeVar("S", bound=Server)


class ServedDatabase(Database, Generic[S]):
    """An engine with a server; `bring_up` sets `_server`."""

    _server: S | None = None

    def owner(self) -> int | None:
        """Database servers refuse to run as root: an unprivileged user then, else the caller."""
        return users.unprivileged_user()

    def server(self) -> S:
        """The one that is up; RunFailed where there is none."""
        if self._server is None:
            raise RunFailed(f"there is no {self.title}: the run was not prepared")
        return self._server

    @property
    def is_up(self) -> bool:
        """One was started, and not stopped: it may have died."""
        return self._server is not None

    def alive(self) -> bool:
        """Does it still run?"""
        return self._server is not None and self._server.alive()

    def ends_within(self, limit_s: float) -> bool:
        """Wait so long for its end."""
        return self._server is None or self._server.ends_within(limit_s)

    def death(self, what: str, also: str = "") -> RunFailed:
        """With the last lines of its log."""
        return self.server().death(what, also)

    def stop(self, *, hurry: bool) -> None:
        """Shut it down."""
        if self._server is not None:
            server, self._server = self._server, None
            server.stop(hurry=hurry)


def wait_until_ready(
    server: Server, title: str, connect: Callable[[], object], *refused: type[Exception]
) -> None:
    """Until `connect` no longer raises one of these, or the server has ended: RunFailed."""
    while True:
        server.deployment.remaining_s()
        if not server.alive():
            raise server.death(f"{title} did not start")
        try:
            connect()
            return
        except refused:
            clock.sleep(READY_POLL_S)
