"""No mount: the workload is the client (`sfs`), and finds the export in `services.nfs_exports`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from nfslab.mounts.base import Mounting, MountParameters

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nfslab.context import Services
    from nfslab.hosts.base import Host
    from nfslab.machine.availability import Availability
    from nfslab.machine.resources import Resources


@dataclass(frozen=True, slots=True)
class NfsExport:
    """Where it is and how to speak to it."""

    source: str
    """HOST:/EXPORT."""
    options: list[str]
    """Options of nfs(5), one an entry; of a server of ours its ports first."""
    is_calibration: bool = False
    """The embedded server's null store: every name is a file, and nothing is kept."""


class NoMount(Mounting):
    """The export, told to the workload with the options it is to use."""

    kind: ClassVar[str] = "none"
    summary: ClassVar[str] = "not mounted: for a workload that speaks NFS itself"
    has_files: ClassVar[bool] = False

    def __init__(self, parameters: MountParameters, target: str) -> None:
        super().__init__(parameters, target)
        self.export: NfsExport | None = None

    def sound(self) -> Availability:
        """The client is ours, and says which options it takes."""
        return self.check_options()

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
        """Nothing is made; the options are handed on."""
        asked = [*options, *self.parameters.options()]
        self.export = NfsExport(source, asked, is_calibration)

    def down(self) -> None:
        """Nothing was made."""
        self.export = None

    def facts(self) -> dict[str, Any]:
        """None: the workload says what it used."""
        return {}

    def offer(self, target: str, services: Services) -> None:
        """The export itself."""
        if self.export is not None:
            services.nfs_exports[target] = self.export
