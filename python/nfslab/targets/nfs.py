"""An NFS export, mounted without the kernel's NFS client: works wherever FUSE does.

    nfslab serve | Ganesha | HOST:/EXPORT  <──NFSv3──  our client in FUSE  <──  the workload

With `client = "none"` it is not mounted at all: the workload is the client (`sfs`), and finds
the export in `context.facts["nfs_exports"]` (target's name -> `NfsExport`). The mount options
are handed on to it then.

The embedded server is started, given its store and service model, and ended for each run,
NFS-Ganesha likewise; a server elsewhere is only mounted. The mount lives in this process
(its threads need no Python), so that its client can be watched from here (`client_of`); it
goes with the process, and the journal finds its place in the tree after a kill.

The mount options in effect are read back and recorded, with what was rounded on the way.
Server settings and mount options are parameters, hence axes.

Durability: the embedded server on a folder is as durable as that folder (it answers a COMMIT
after fsync); memory is volatile, and so are what a modelled NVRAM confirmed and names that are not
synced (`unsafe_async_names`). Of another server (Ganesha too) only its owner knows:
`server_durability`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from nfslab.errors import RunFailed, UsageError
from nfslab.machine import embedded_server, ganesha
from nfslab.machine.availability import Availability
from nfslab.machine.durability import durability_of, weakest
from nfslab.machine.mounts import block_devices_of, mount_of
from nfslab.machine.nfs_export import NfsExport
from nfslab.machine.users import primary_group
from nfslab.quantities import Size
from nfslab.results.records import DurabilityRecord
from nfslab.targets.base import (
    SPACE_ELSEWHERE,
    Place,
    Target,
    TargetParameters,
    describe,
    free_bytes_of,
    own_folder,
    usable_folder,
)

if TYPE_CHECKING:
    from nfslab._core import Mount
    from nfslab.machine.embedded_server import EmbeddedServer
    from nfslab.machine.ganesha import GaneshaServer
    from nfslab.machine.resources import Entry, Resources

EMBEDDED, GANESHA = "embedded", "ganesha"
OURS = (EMBEDDED, GANESHA)
"""Servers that are started for a run."""
FUSE_DEVICE = Path("/dev/fuse")
FUSE_HELPER = "fusermount3"
OPTIONS = ("proto", "rsize", "wsize", "nconnect", "timeo", "retrans")
FLAGS = (("ac", "noac"), ("sync", "async"), ("hard", "soft"))
"""Parameters that are options of nfs(5): by value, and by word."""
MODEL = ("threads", "spread", "disk", "nvram", "bandwidth", "delay", "jitter", "loss", "seed")
"""Parameters that are options of `nfslab serve`, each given once."""


class NfsParameters(TargetParameters):
    """The server, its store and service model; the client's mount options."""

    server: str = EMBEDDED
    """"embedded", "ganesha" (NFS-Ganesha on a folder), or an export that is there: HOST:/EXPORT."""
    client: Literal["user", "none"] = "user"
    """Ours, in user space; "none": not mounted, for a workload that speaks NFS itself. (A mount
    by the kernel is a target of kind "path".)"""
    directory: str = "/var/tmp"
    """Where folders are made: the mount point, and the data of the embedded server."""
    store: Literal["directory", "memory", "null"] = "directory"
    """Embedded: a folder of `directory`, memory, or (not mounted) nothing: every name is a file."""
    size: Size | None = None
    """Embedded, memory: what it may take (1G)."""
    unsafe_async_names: bool = False
    """Embedded, a folder: names and attributes are confirmed before the disk has them."""
    server_durability: Literal["stable", "volatile"] | None = None
    """Of another server than the embedded one: does it keep what it confirmed?"""

    proto: Literal["tcp", "udp", "tcp6", "udp6"] | None = None
    """Transport, as nfs(5)."""
    rsize: Size | None = None
    """Bytes of a READ."""
    wsize: Size | None = None
    """Bytes of a WRITE."""
    nconnect: int | None = None
    """TCP connections."""
    timeo: int | None = None
    """Tenths of a second before a call is sent again."""
    retrans: int | None = None
    """Times that it is sent again before that counts as a timeout."""
    ac: bool | None = None
    """Attribute cache; false: noac."""
    sync: bool | None = None
    """Each write is on stable storage before it returns."""
    hard: bool | None = None
    """Wait for a dead server; false: soft, EIO."""
    mount_options: list[str] = Field(default_factory=list, max_length=32)
    """Further options of nfs(5), one an entry: ["acregmin=1", "nocto"]."""

    threads: int | None = Field(default=None, ge=1, le=1024)
    """Workers, as nfsd's threads. Embedded: this and what follows, see docs/server.md."""
    service_time: list[str] = Field(default_factory=list, max_length=32)
    """Of a call ("200us"), or of one procedure ("WRITE=1ms"); one of them, or a list."""
    spread: Literal["constant", "exponential"] | None = None
    """Of service times."""
    disk: str | None = None
    """A disk with a queue: "seek=8ms,rate=20M,commit=2ms"."""
    nvram: Size | None = None
    """Stable at once until full; 0 is none."""
    bandwidth: str | None = None
    """Of the wire: "1Gbit"."""
    delay: str | None = None
    """Added to every reply."""
    jitter: str | None = None
    """Up to this much more."""
    loss: float | None = Field(default=None, ge=0, le=1)
    """Of datagrams (UDP)."""
    stall: list[str] = Field(default_factory=list, max_length=64)
    """Stand still: "10s:500ms"; once, or a list."""
    seed: int | None = Field(default=None, ge=0)
    """Of all randomness of the model."""

    @field_validator("service_time", "stall", mode="before")
    @classmethod
    def _one(cls, value: object) -> object:
        """One text needs no brackets."""
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _possible(self) -> NfsParameters:
        """What belongs to the embedded server is no setting of another one."""
        if self.unsafe_async_names and (self.server, self.store) != (EMBEDDED, "directory"):
            raise ValueError("unsafe_async_names goes with the embedded server on a folder")
        if self.store == "null" and self.client != "none":
            raise ValueError('store = "null" goes with client = "none": it has no folders')
        if self.server == EMBEDDED:
            if self.server_durability is not None:
                raise ValueError("server_durability is for HOST:/EXPORT: the embedded one is known")
            if self.size is not None and self.store == "directory":
                raise ValueError('size goes with store = "memory"')
            return self
        if self.server != GANESHA and ":/" not in self.server:
            known = '"embedded", "ganesha" or HOST:/EXPORT'
            raise ValueError(f"server is {known}, not {self.server!r}")
        names = [name for name in MODEL if name != "threads" or self.server != GANESHA]
        given = [name for name in (*names, "size") if getattr(self, name) is not None]
        given += [name for name in ("service_time", "stall") if getattr(self, name)]
        if self.store != "directory":
            given.append("store")
        if given:
            raise ValueError(f"{', '.join(given)}: settings of the embedded server only")
        if self.server == GANESHA and self.threads == 1:
            raise ValueError("threads: NFS-Ganesha does not start with fewer than 2")
        return self

    def options(self) -> list[str]:
        """The mount options asked for, one an entry."""
        named = ((name, getattr(self, name)) for name in OPTIONS)
        asked = [f"{name}={value}" for name, value in named if value is not None]
        for yes, no in FLAGS:
            if (flag := getattr(self, yes)) is not None:
                asked.append(yes if flag else no)
        return asked + self.mount_options

    def serve_arguments(self, folder: Path) -> list[str]:
        """Arguments of `nfslab serve`."""
        arguments = [str(folder)] if self.store == "directory" else [f"--{self.store}"]
        if self.unsafe_async_names:
            arguments.append("--unsafe-async-names")
        for name in ("size", *MODEL):
            if (value := getattr(self, name)) is not None and (name, value) != ("nvram", 0):
                arguments += [f"--{name}", str(value)]
        for option, values in (("--service-time", self.service_time), ("--stall", self.stall)):
            for value in values:
                arguments += [option, value]
        return arguments


class _Up:
    """What was brought up for one place."""

    def __init__(self, folder: Entry) -> None:
        self.folder = folder
        self.server: EmbeddedServer | GaneshaServer | None = None
        self.mounted: tuple[Entry, Mount] | None = None
        self.export: NfsExport | None = None
        """For a workload that is the client itself."""

    def undo(self) -> None:
        """Unmount, end the server, remove the folder: as much as was made."""
        if self.mounted is not None:
            entry, mount = self.mounted
            self.mounted = None
            try:
                mount.unmount()
            except Exception:
                # Kept busy by a stray process, or a dead server holds its users: they get errors.
                with contextlib.suppress(Exception):
                    mount.unmount("force")
            entry.undo()
        if self.server is not None:
            self.server.stop()
            self.server = None
        self.folder.undo()


class NfsTarget(Target):
    """An export mounted through FUSE, on a server of our own or any other."""

    kind = "nfs"
    summary = "NFSv3 without the kernel: our client (FUSE) on the embedded server or HOST:/EXPORT"
    Parameters = NfsParameters
    parameters: NfsParameters

    def __init__(self, name: str, parameters: TargetParameters) -> None:
        super().__init__(name, parameters)
        self._up: dict[Path, _Up] = {}

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

    def check(self) -> Availability:
        """FUSE, and room for folders; options are read when it is mounted."""
        needs_fuse = self.parameters.client == "user"
        usable = self.available() if needs_fuse else Availability(True)
        if usable.ok and self.parameters.server == GANESHA:
            usable = ganesha.available()
        return usable_folder(self._directory) if usable.ok else usable

    @property
    def _directory(self) -> Path:
        return Path(self.parameters.directory).expanduser().absolute()

    def free_bytes(self) -> int | None:
        """Of the embedded server's store; None of another's."""
        if self.parameters.server not in OURS:
            return None
        if self.parameters.store == "null":
            return None
        if self.parameters.store == "memory":
            return self.parameters.size or 1 << 30
        return free_bytes_of(self._directory)

    def up(self, resources: Resources, *, owner: int | None = None) -> Place:
        """Start the server, mount its export, make an empty folder on it; RunFailed."""
        self.require()
        made = _Up(own_folder(self, self._directory, resources, owner))
        try:
            place = self._made(made, resources, owner)
        except BaseException:
            # What cannot be undone now stays in the journal; the first error matters.
            with contextlib.suppress(Exception):
                made.undo()
            raise
        self._up[place.path] = made
        return place

    def down(self, place: Place) -> None:
        """Unmount, end the server, remove the folders."""
        if (made := self._up.pop(place.path, None)) is not None:
            made.undo()

    def client_of(self, place: Place) -> Mount | None:
        """The mount behind a place that is up: its client's counters and records."""
        made = self._up.get(place.path)
        return None if made is None or made.mounted is None else made.mounted[1]

    def sources(self, place: Place) -> dict[str, Any]:
        """The mount's client for the collector `rpc`, an embedded server for `nfs_server`."""
        found: dict[str, Any] = {}
        if (mount := self.client_of(place)) is not None:
            found["rpc_recorders"] = mount.recorder()
        if isinstance(server := self.server_of(place), embedded_server.EmbeddedServer):
            found["nfs_servers"] = server
        if (made := self._up.get(place.path)) is not None and made.export is not None:
            found["nfs_exports"] = made.export
        return found

    def server_of(self, place: Place) -> EmbeddedServer | GaneshaServer | None:
        """The server of ours behind a place that is up."""
        made = self._up.get(place.path)
        return None if made is None else made.server

    def _made(self, made: _Up, resources: Resources, owner: int | None) -> Place:
        wanted, base = self.parameters, made.folder.path
        options, source = wanted.options(), wanted.server
        if wanted.server in OURS:
            export = base / "export"
            export.mkdir(mode=0o755)
            made.server = server = self._serve(export, base, resources)
            ports = [f"port={server.port}", f"mountport={server.mount_port}"]
            source, options = server.source, [*ports, *options]
        if wanted.client == "none":
            made.export = NfsExport(source, options, wanted.store == "null")
            return self._not_mounted(made, base)
        point = base / "mount"
        point.mkdir(mode=0o755)
        mount = self._mount(made, resources, source, point, options)
        if made.server is not None:
            path = point / "data"
            path.mkdir(mode=0o700)
            if owner is not None and owner != os.geteuid():
                os.chown(path, owner, primary_group(owner))
        else:
            path = own_folder(self, point, resources, owner).path
        effective = dict(mount.effective_options())
        facts: dict[str, Any] = {
            "nfs": {
                "client": wanted.client,
                "server": wanted.server,
                "options": effective,
                "options_reported": _in_effect(mount),
                "adjustments": mount.adjustments(),
                "transports": int(effective.get("nconnect", "1")),
                "transport_protocols": [effective["proto"]],
            }
        }
        if made.server is not None:
            facts["nfs"]["served"] = made.server.model
        place = describe(self, path, stated=wanted.server_durability, facts=facts)
        if wanted.server == EMBEDDED:
            place.durability = self._durability(base)
        return place

    def _not_mounted(self, made: _Up, base: Path) -> Place:
        """The place of an export that only the workload knows: our folder stands for it."""
        wanted = self.parameters
        facts: dict[str, Any] = {"nfs": {"client": wanted.client, "server": wanted.server}}
        ours = made.server is not None
        if made.server is not None:
            facts["nfs"]["served"] = made.server.model
        on_folder = ours and wanted.store == "directory"
        if not on_folder:
            facts[SPACE_ELSEWHERE] = True
        path = base / "export" if on_folder else base
        place = describe(self, path, stated=wanted.server_durability, facts=facts)
        if wanted.server == EMBEDDED:
            place.durability = self._durability(base)
        elif not ours and wanted.server_durability is None:
            reason = "nobody said what that server keeps (server_durability)"
            place.durability = DurabilityRecord(level="unknown", reasons=[reason])
        return place

    def _serve(
        self, export: Path, base: Path, resources: Resources
    ) -> EmbeddedServer | GaneshaServer:
        """The server of this run, serving `export`."""
        wanted = self.parameters
        if wanted.server == GANESHA:
            return ganesha.start(export, base, resources, wanted.threads)
        return embedded_server.start(wanted.serve_arguments(export), base, resources)

    def _mount(
        self, made: _Up, resources: Resources, source: str, point: Path, options: list[str]
    ) -> Mount:
        """The export mounted at `point`; what the client says is wrong, as our errors."""
        from nfslab._core import CoreError, Mount

        entry = resources.mount(point)
        try:
            mount = Mount(source, point, ",".join(options))
        except CoreError as error:
            kind = UsageError if error.kind in ("option", "source") else RunFailed
            raise kind(
                f"target {self.name!r}: {error.what}", why=error.why, fix=error.fix
            ) from error
        made.mounted = (entry, mount)
        return mount

    def _durability(self, base: Path) -> DurabilityRecord:
        """Of the embedded server: of its folder, unless its store or model is less."""
        wanted = self.parameters
        if wanted.store != "directory":
            reason = f"the embedded server's store is {wanted.store}: gone with it"
            return DurabilityRecord(level="volatile", reasons=[reason])
        mount = mount_of(base)
        lost = []
        if wanted.unsafe_async_names:
            lost.append("unsafe_async_names: names are confirmed before the disk has them")
        if wanted.nvram:
            lost.append("the modelled NVRAM confirms before the disk has it")
        below = durability_of(mount, block_devices_of(mount))
        if not lost:
            return below
        return weakest([below, DurabilityRecord(level="volatile", reasons=lost)])


def _in_effect(mount: Mount) -> str:
    """Options as nfs(5) spells them, without the port that differs from run to run."""
    spelled = (
        name if value == "" else f"{name}={value}"
        for name, value in mount.effective_options()
        if name not in ("port", "mountport")
    )
    return ",".join(spelled)
