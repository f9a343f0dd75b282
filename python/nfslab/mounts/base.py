"""What every way to mount an NFS export has to be able to do.

A mount is made from its part of the target's section and put *up* on a host for a run. It reads
the options in effect back, offers what can be watched, and is taken *down* whatever its server
does. The kind `none` mounts nothing: the workload is the client.

A new kind is one file in this folder, one line in `registry.py`, one test file; its parameters
are parameters of the target `nfs` at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from nfslab.machine.availability import Availability
from nfslab.quantities import Size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.context import Services
    from nfslab.hosts.base import Host
    from nfslab.machine.resources import Resources

OPTIONS = ("proto", "rsize", "wsize", "nconnect", "timeo", "retrans", "call_delay")
FLAGS = (("ac", "noac"), ("sync", "async"), ("hard", "soft"))
"""Parameters that are options of nfs(5): by value, and by word."""


class MountParameters(BaseModel):
    """Options of nfs(5); every key has a default, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    named: ClassVar[tuple[str, ...]] = OPTIONS
    flags: ClassVar[tuple[tuple[str, str], ...]] = FLAGS

    proto: Literal["tcp", "udp", "tcp6", "udp6"] | None = None
    """Transport, as nfs(5)."""
    rsize: Size | None = None
    """Bytes of a READ."""
    wsize: Size | None = None
    """Bytes of a WRITE."""
    nconnect: int | None = None
    """TCP connections."""
    timeo: int | None = None
    """Tenths of a second before a call is retransmitted."""
    retrans: int | None = None
    """Times that it is retransmitted before that counts as a timeout."""
    ac: bool | None = None
    """Attribute cache; false: noac."""
    sync: bool | None = None
    """Each write is on stable storage before it returns."""
    hard: bool | None = None
    """Wait for a dead server; false: soft, EIO."""
    call_delay: str | None = None
    """Planted: calls wait so long before they are sent, as in "COMMIT:2ms+WRITE:500us"."""
    mount_options: list[str] = Field(default_factory=list, max_length=32)
    """Further options of nfs(5), one an entry: ["acregmin=1", "nocto"]."""

    def options(self) -> list[str]:
        """The mount options asked for, one an entry."""
        named = ((name, getattr(self, name)) for name in self.named)
        asked = [f"{name}={value}" for name, value in named if value is not None]
        for yes, no in self.flags:
            if (flag := getattr(self, yes)) is not None:
                asked.append(yes if flag else no)
        return asked + self.mount_options


class Mounting(ABC):
    """An export as one host sees it, for one run."""

    kind: ClassVar[str]
    summary: ClassVar[str]
    Parameters: ClassVar[type[MountParameters]] = MountParameters
    needs: ClassVar[tuple[str, ...]] = ()
    """What not every machine has, for `nfslab list --shipped`."""
    has_files: ClassVar[bool] = True
    """There is a folder with the export's files; else only a workload that speaks NFS reads it."""

    def __init__(self, parameters: MountParameters, target: str) -> None:
        """`target` names it in errors."""
        self.parameters = parameters
        self.target = target

    @classmethod
    def available(cls) -> Availability:
        """Can such a mount be made on this machine by this user?"""
        return Availability(True)

    def sound(self) -> Availability:
        """Could it be under any kernel: are its programs there, do its parameters make sense?"""
        return Availability(True)

    def check(self) -> Availability:
        """Can *this* one be made, with its options? Called before the first run."""
        answer = self.sound()
        return self.available() if answer.ok else answer

    def check_options(self) -> Availability:
        """Does our client take the options?"""
        from nfslab._core import CoreError, check_mount_options

        try:
            check_mount_options(",".join(self.parameters.options()))
        except CoreError as error:
            return Availability(False, error.what, error.fix)
        return Availability(True)

    @abstractmethod
    def up(
        self,
        source: str,
        options: Sequence[str],
        point: Path,
        resources: Resources,
        *,
        host: Host,
        is_calibration: bool,
    ) -> None:
        """Mount `source` (HOST:/EXPORT) at the empty folder `point` on `host`, journalled.

        `options` of the server (its ports) come before those asked for. `is_calibration`: names
        only, nothing is kept. UsageError for an option that nobody knows; RunFailed.
        """

    @abstractmethod
    def down(self) -> None:
        """Unmount, by force if its users or its server hold it; harmless when it is not up."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Options in effect, read back: for the place's record."""

    def offer(self, target: str, services: Services) -> None:
        """Add what it lets be watched or used."""
        return
