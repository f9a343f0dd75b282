"""What every NFS server that a target is served by has to be able to do.

A server is made from its part of the target's section, *started* for a run, and *stopped* after
it. It says where it is (`source`, `options` with its ports), what is in effect (`model`), and
whether what it confirmed is kept. It runs on the host that it is given and listens on the address
of that host's link to those that mount it.

A new server is one file in this folder, one line in `registry.py`, one test file; its parameters
are parameters of the target `nfs` at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from nfslab.machine.availability import Availability
from nfslab.results.records import DurabilityRecord

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.context import Services
    from nfslab.hosts.base import Host, Link
    from nfslab.machine.resources import Resources
    from nfslab.machine.started import Process
    from nfslab.results.records import Level


class ServerParameters(BaseModel):
    """Base of a server's parameters: unknown keys are errors, every key has a default."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Server(ABC):
    """What answers NFS for one run."""

    kind: ClassVar[str]
    summary: ClassVar[str]
    Parameters: ClassVar[type[ServerParameters]]
    needs: ClassVar[tuple[str, ...]] = ()
    """What not every machine has, for `nfslab list --shipped`."""
    is_ours: ClassVar[bool] = True
    """Started for the run, with an export of its own."""

    def __init__(self, parameters: ServerParameters, named: str) -> None:
        """`named` is what the experiment calls it: its kind, or HOST:/EXPORT."""
        self.parameters = parameters
        self.source = named
        """HOST:/EXPORT, once it is up."""
        self.options: list[str] = []
        """Options of nfs(5) that a mount of it needs: its ports."""
        self.model: dict[str, Any] | None = None
        """Settings in effect; None of a server that only its owner knows."""
        self.process: Process | None = None
        """The one that answers, while it is up."""

    def port(self, option: str = "port") -> int:
        """Of NFS (or "mountport"), for one that is up and says its ports."""
        return int(dict(one.split("=", 1) for one in self.options)[option])

    @classmethod
    def available(cls) -> Availability:
        """Can there be such a server here?"""
        return Availability(True)

    def sound(self) -> Availability:
        """Could it be under any kernel: are its programs there, do its parameters make sense?"""
        return Availability(True)

    def check(self) -> Availability:
        """Can there be *this* one, with its parameters? Called before the first run."""
        answer = self.sound()
        return self.available() if answer.ok else answer

    @abstractmethod
    def start(self, folder: Path, resources: Resources, *, host: Host, link: Link) -> None:
        """Serve on `host` for whoever is at the other end of `link`; its files go to `folder`.

        Journalled. RunFailed with its last words; nothing of it is left then.
        """

    @abstractmethod
    def stop(self) -> None:
        """End it; harmless when it was never started."""

    @abstractmethod
    def free_bytes(self, directory: Path) -> int | None:
        """Space that it has for data, its folder being in `directory`; None: not known."""

    def data_folder(self, folder: Path) -> Path | None:
        """Where a person sees the data that it serves; None: nowhere here."""
        return None

    @property
    def has_folders(self) -> bool:
        """Whether it can be mounted: a calibration store has names only."""
        return True

    def durability(self, folder: Path) -> DurabilityRecord | None:
        """What it keeps, where that is known; None: see `stated_durability`."""
        return None

    @property
    def stated_durability(self) -> Level | None:
        """What its owner says that it keeps."""
        return None

    def offer(self, target: str, services: Services) -> None:
        """Add what it lets be watched."""
        return


class ServedElsewhere(Server):
    """A server of the run on another host, as those see it that were told of it."""

    kind: ClassVar[str] = "elsewhere"
    summary: ClassVar[str] = "a server of the run on another host"
    Parameters: ClassVar[type[ServerParameters]] = ServerParameters

    def __init__(self, told: dict[str, Any], named: str) -> None:
        super().__init__(ServerParameters(), named)
        self.source, self.options = str(told["source"]), [str(one) for one in told["options"]]
        self.model = told["model"]
        self._has_folders = bool(told["has_folders"])
        self._durability = DurabilityRecord.model_validate(told["durability"])

    def start(self, folder: Path, resources: Resources, *, host: Host, link: Link) -> None:
        """It is up."""

    def stop(self) -> None:
        """Whoever started it ends it."""

    def free_bytes(self, directory: Path) -> int | None:
        """Whoever started it has asked."""
        return None

    @property
    def has_folders(self) -> bool:
        """As told."""
        return self._has_folders

    def durability(self, folder: Path) -> DurabilityRecord | None:
        """As told."""
        return self._durability


def check_together(server: Server, client: str) -> None:
    """ValueError when the server cannot be used by that kind of mount."""
    if not server.has_folders and client != "none":
        raise ValueError('store = "null" goes with client = "none": it has no folders')
