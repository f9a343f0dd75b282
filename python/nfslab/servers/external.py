"""A server that is there already: HOST:/EXPORT. Only its owner knows what it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from nfslab.servers.base import Server, ServerParameters

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.hosts.base import Host, Link
    from nfslab.machine.resources import Resources
    from nfslab.results.records import Level


class ExternalParameters(ServerParameters):
    """What is said of it."""

    server_durability: Literal["stable", "volatile"] | None = None
    """Of another server than the embedded one: does it keep what it confirmed?"""


class ExternalServer(Server):
    """An export that somebody else serves."""

    kind: ClassVar[str] = "external"
    summary: ClassVar[str] = "an export that is there: HOST:/EXPORT"
    Parameters: ClassVar[type[ServerParameters]] = ExternalParameters
    is_ours: ClassVar[bool] = False
    parameters: ExternalParameters

    def start(self, folder: Path, resources: Resources, *, host: Host, link: Link) -> None:
        """It runs already."""

    def stop(self) -> None:
        """It goes on."""

    def free_bytes(self, directory: Path) -> int | None:
        """Not known before it is mounted."""
        return None

    @property
    def stated_durability(self) -> Level | None:
        """As given."""
        return self.parameters.server_durability
