"""Our own NFS client in FUSE: works wherever FUSE does, without the kernel's NFS client.

The mount lives in this process (its threads need no Python), so that its client can be watched
from here; it goes with the process, and the journal finds its place in the tree after a kill. Its
sockets are made inside the host, which has to be one on this machine's kernel.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nfslab import clock
from nfslab.errors import RunFailed, UsageError
from nfslab.machine.availability import Availability
from nfslab.machine.offered_counters import offered
from nfslab.mounts.base import Mounting, MountParameters
from nfslab.storage.data_calls import DataCalls

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from nfslab._core import Mount
    from nfslab.context import Services
    from nfslab.hosts.base import Host
    from nfslab.machine.resources import Entry, Resources

FUSE_DEVICE = Path("/dev/fuse")
FUSE_HELPER = "fusermount3"
SECRET_NAME = re.compile(r":/[0-9a-f]{32}$")


class FuseMount(Mounting):
    """A mount that this process is the client of."""

    kind: ClassVar[str] = "user"
    summary: ClassVar[str] = "our client in user space, through FUSE"
    needs: ClassVar[tuple[str, ...]] = ("FUSE",)

    def __init__(self, parameters: MountParameters, target: str) -> None:
        super().__init__(parameters, target)
        self.mount: Mount | None = None
        """Its counters and records."""
        self._entry: Entry | None = None
        self._offer = contextlib.ExitStack()

    @classmethod
    def available(cls) -> Availability:
        """FUSE, as root or with its helper."""
        if not FUSE_DEVICE.exists():
            return Availability(
                False, "this machine has no FUSE (/dev/fuse)", "modprobe fuse, or another kernel"
            )
        if os.geteuid() != 0 and shutil.which(FUSE_HELPER) is None:
            return Availability(
                False, f"without root FUSE needs {FUSE_HELPER}", "apt install fuse3, or run as root"
            )
        if not os.access(FUSE_DEVICE, os.R_OK | os.W_OK):
            return Availability(
                False, "/dev/fuse may not be opened", "let the container have the device"
            )
        return Availability(True)

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
        """What the client says is wrong, as our errors."""
        from nfslab._core import CoreError, Mount

        # Every user reads /proc/mounts, and the name of a run's export is a secret.
        shown = SECRET_NAME.sub(":/(of this run)", source)
        asked = ",".join([*options, *self.parameters.options(), f"fsname={shown}"])
        self._entry = resources.mount(point)
        try:
            # All threads of the client descend from this one, and have its network.
            with host.entered():
                self.mount = Mount(source, point, asked)
        except CoreError as error:
            self._entry.undo()
            kind = UsageError if error.kind in ("option", "source") else RunFailed
            raise kind(
                f"target {self.target!r}: {error.what}", why=error.why, fix=error.fix
            ) from error
        self._offer.enter_context(counters_offered(self.mount))

    def down(self) -> None:
        """By force when a stray process keeps it busy, or a dead server holds its users."""
        mount, self.mount = self.mount, None
        if mount is None:
            return
        self._offer.close()
        try:
            mount.unmount()
        except Exception:
            with contextlib.suppress(Exception):
                mount.unmount("force")
        if self._entry is not None:
            self._entry.undo()

    def facts(self) -> dict[str, Any]:
        """As nfs(5) spells them, and what was rounded on the way."""
        assert self.mount is not None
        effective = dict(self.mount.effective_options())
        return {
            "options": effective,
            "options_reported": _in_effect(self.mount),
            "adjustments": self.mount.adjustments(),
            "transports": int(effective.get("nconnect", "1")),
            "transport_protocols": [effective["proto"]],
        }

    def offer(self, target: str, services: Services) -> None:
        """The record of its RPCs."""
        if self.mount is not None:
            services.rpc_recorders[target] = self.mount.recorder()


def counters_offered(mount: Mount) -> AbstractContextManager[None]:
    """Other processes may read its counters while the block runs (`nfslab top`)."""
    files = DataCalls()

    def read() -> dict[str, Any]:
        figures = mount.figures()
        return figures | {
            "what": "mount", "name": str(mount.directory), "source": mount.source,
            "files": files.add(figures["files"]), "at_ns": clock.monotonic_ns(),
        }  # fmt: skip

    return offered(read)


def _in_effect(mount: Mount) -> str:
    """Options as nfs(5) spells them, without the port that differs from run to run."""
    spelled = (
        name if value == "" else f"{name}={value}"
        for name, value in mount.effective_options()
        if name not in ("port", "mountport")
    )
    return ",".join(spelled)
