"""A target on an NFS export: a server (`nfslab.servers`) and a mount of it (`nfslab.mounts`).

    the server: nfslab serve | Ganesha | Linux's nfsd | HOST:/EXPORT
       <──NFS──  the mount: ours in FUSE | the Linux kernel's | none

Servers of our own are started, given their store and settings, and ended for each run; a server
elsewhere is only mounted. The parameters of the target are those of all servers and mounts
together, hence axes; one that the chosen server and mount do not have is refused. Mount options
in effect are read back and recorded.

The server runs on the host for servers; it is mounted on the host where the files are used, and
what they say goes over the link between the two. For several client hosts it is started here and
mounted by each of them (`ServedElsewhere` is what they see of it).
"""

from __future__ import annotations

import contextlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import ValidationError, create_model, model_validator

from nfslab.machine.availability import Availability
from nfslab.machine.mounts import answers
from nfslab.machine.users import primary_group
from nfslab.mounts.base import MountParameters
from nfslab.mounts.registry import MOUNTS, mount_class
from nfslab.results.records import DurabilityRecord
from nfslab.servers.base import ServedElsewhere, check_together
from nfslab.servers.registry import SERVERS, server_class, server_kind
from nfslab.targets.base import (
    SPACE_ELSEWHERE,
    Place,
    Target,
    TargetParameters,
    describe,
    own_folder,
    require_our_files,
    usable_folder,
)

if TYPE_CHECKING:
    from nfslab.context import Services
    from nfslab.hosts.base import Hosts
    from nfslab.machine.resources import Entry, Resources
    from nfslab.mounts.base import Mounting
    from nfslab.servers.base import Server


class NfsParameters(TargetParameters):
    """Which server, which mount; `nfs_parameters` adds what those that exist can be given."""

    server: str = "embedded"
    """"embedded", "ganesha" (NFS-Ganesha on a folder), "knfsd" (the Linux kernel's server on a
    folder), or an export that is there: HOST:/EXPORT."""
    client: str = "user"
    """"user": ours, through FUSE; "kernel": the Linux kernel's; "none": not mounted, for a workload
    that speaks NFS itself."""
    directory: str = "/var/tmp"
    """Where folders are made: the mount point, and the data of servers of our own."""

    @model_validator(mode="after")
    def _possible(self) -> NfsParameters:
        """What belongs to one server or mount is no setting of another one."""
        server, mount = self._make_server(), self._make_mount("")
        check_together(server, self.client)
        known = {*NfsParameters.model_fields, *type(server.parameters).model_fields}
        known |= set(type(mount.parameters).model_fields)
        if wrong := [name for name in self._given() if name not in known]:
            raise ValueError(f"{', '.join(wrong)}: settings of {_owners(wrong[0])} only")
        return self

    def _given(self) -> list[str]:
        """Parameters with another value than their default."""
        fields = type(self).model_fields
        return [
            name
            for name, info in fields.items()
            if getattr(self, name) != info.get_default(call_default_factory=True)
        ]

    def _part(self, model: type[Any]) -> Any:
        """The parameters that belong to a server or a mount; ValueError."""
        given = {name: getattr(self, name) for name in self._given() if name in model.model_fields}
        try:
            return model.model_validate(given)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            said = first["msg"].removeprefix("Value error, ")
            raise ValueError(f"{where}: {said}" if where else said) from None

    def _make_server(self) -> Server:
        kind = server_kind(self.server)
        if kind not in SERVERS or (kind == "external" and ":/" not in self.server):
            known = ", ".join(f'"{name}"' for name in SERVERS if name != "external")
            raise ValueError(f"server is {known} or HOST:/EXPORT, not {self.server!r}")
        chosen = server_class(kind)
        return chosen(self._part(chosen.Parameters), self.server)

    def _make_mount(self, target: str) -> Mounting:
        if self.client not in MOUNTS:
            known = ", ".join(f'"{name}"' for name in MOUNTS)
            raise ValueError(f"client is {known}, not {self.client!r}")
        chosen = mount_class(self.client)
        return chosen(self._part(chosen.Parameters), target)

    def parts(self, target: str) -> tuple[Server, Mounting]:
        """A server and a mount for one run."""
        return self._make_server(), self._make_mount(target)


def _owners(name: str) -> str:
    """Who has such a parameter, in words."""
    servers = sorted(kind for kind in SERVERS if name in server_class(kind).Parameters.model_fields)
    if servers:
        return f"the {', '.join(servers)} server"
    mounts = sorted(kind for kind in MOUNTS if name in mount_class(kind).Parameters.model_fields)
    return " or ".join(f'client = "{kind}"' for kind in mounts)


def nfs_parameters() -> type[NfsParameters]:
    """The parameters of the target, with those of every server and mount that is registered."""
    return _with_parameters_of(tuple(SERVERS.items()), tuple(MOUNTS.items()))


@cache
def _with_parameters_of(
    servers: tuple[tuple[str, str], ...], mounts: tuple[tuple[str, str], ...]
) -> type[NfsParameters]:
    """By what the registries hold: they may be added to."""
    fields: dict[str, Any] = {}
    models: list[type[Any]] = [server_class(kind).Parameters for kind, _ in servers]
    for model in [*models, *(mount_class(kind).Parameters for kind, _ in mounts)]:
        for name, info in model.model_fields.items():
            # What two of them have is checked by the one that is chosen.
            fields.setdefault(name, (info.annotation, info))
    return create_model("NfsTargetParameters", __base__=NfsParameters, **fields)


class _Composed:
    """`NfsTarget.Parameters`: made when it is asked for."""

    def __get__(self, _instance: object, _owner: type) -> type[NfsParameters]:
        return nfs_parameters()


class _Up:
    """What was brought up for one place."""

    def __init__(self, folder: Entry, server: Server, mount: Mounting) -> None:
        self.folder, self.server, self.mount = folder, server, mount
        self.on_export: Entry | None = None
        """Our folder on somebody else's export."""

    def undo(self) -> None:
        """Unmount, end the server, remove the folders: as much as was made."""
        if self.on_export is not None and answers(self.on_export.path):
            self.on_export.undo()
        self.mount.down()
        self.server.stop()
        self.folder.undo()


class NfsTarget(Target):
    """An export of a server of our own, or any other, mounted or not."""

    kind = "nfs"
    summary = "NFS: our client (FUSE) or the kernel's, on a server of the run or HOST:/EXPORT"
    Parameters = _Composed()
    fill_bytes_per_s: ClassVar[float] = 1e8
    parameters: NfsParameters

    def __init__(self, name: str, parameters: TargetParameters) -> None:
        super().__init__(name, parameters)
        self._up: dict[Path, _Up] = {}
        self._is_for_others = False
        self._elsewhere: dict[str, Any] | None = None

    @classmethod
    def available(cls) -> Availability:
        """Whether ours can mount; what needs no mount always works."""
        return mount_class("user").available()

    def check(self) -> Availability:
        """The server, the mount, their options, and room for folders."""
        for part in self._parts():
            if not (usable := part.check()).ok:
                return usable
        return usable_folder(self._directory)

    def sound(self) -> Availability:
        """Programs and parameters of its server and its mount."""
        answers = [part.sound() for part in self._parts()]
        return next((one for one in answers if not one.ok), Availability(True))

    def needs(self) -> tuple[str, ...]:
        """What its server and its mount need."""
        return tuple(word for part in self.parameters.parts(self.name) for word in part.needs)

    def is_export(self) -> bool:
        """Nothing mounts it."""
        return self.parameters.client == "none"

    def for_others(self) -> bool:
        """A server of the run is started here, and mounted by them."""
        server, _ = self.parameters.parts(self.name)
        self._is_for_others = server.is_ours
        return self._is_for_others

    def endpoint(self, place: Place) -> dict[str, Any]:
        """Where it is, its ports, its model, and what it keeps."""
        server = self._up[place.path].server
        return {
            "source": server.source,
            "options": server.options,
            "model": server.model,
            "has_folders": server.has_folders,
            "durability": place.durability.model_dump(mode="json"),
        }

    def connect_to(self, endpoint: dict[str, Any]) -> None:
        """It is mounted here, and served there."""
        self._elsewhere = endpoint or None

    def _parts(self) -> tuple[Server, Mounting]:
        """The server and the mount of this host."""
        server, mount = self.parameters.parts(self.name)
        if self._is_for_others and mount.has_files:
            mount = mount_class("none")(MountParameters(), self.name)
        if self._elsewhere is not None:
            server = ServedElsewhere(self._elsewhere, self.parameters.server)
        return server, mount

    @property
    def _directory(self) -> Path:
        return Path(self.parameters.directory).expanduser().absolute()

    def free_bytes(self) -> int | None:
        """Of the server's store; None of another's."""
        server, _ = self.parameters.parts(self.name)
        return server.free_bytes(self._directory)

    def up(self, resources: Resources, hosts: Hosts, *, owner: int | None = None) -> Place:
        """Start the server, mount its export, make an empty folder on it; RunFailed."""
        self.require()
        require_our_files(self, hosts.files)
        server, mount = self._parts()
        made = _Up(own_folder(self, self._directory, resources, owner), server, mount)
        try:
            place = self._made(made, resources, hosts, owner)
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

    def offer(self, place: Place, services: Services) -> None:
        """The mount's client for the collector `rpc`, an embedded server for `nfs_server`."""
        if (made := self._up.get(place.path)) is not None:
            made.mount.offer(self.name, services)
            made.server.offer(self.name, services)
            if made.server.is_ours and self._elsewhere is None:
                services.nfs_served.append((made.server.source, list(made.server.options)))

    def server_of(self, place: Place) -> Server | None:
        """The server behind a place that is up."""
        made = self._up.get(place.path)
        return None if made is None else made.server

    def _made(self, made: _Up, resources: Resources, hosts: Hosts, owner: int | None) -> Place:
        wanted, base, server, mount = self.parameters, made.folder.path, made.server, made.mount
        server.start(base, resources, host=hosts.servers, link=hosts.files.link)
        point = base / "mount"
        if mount.has_files:
            point.mkdir(mode=0o755)
        mount.up(
            server.source, server.options, point, resources,
            host=hosts.files, is_calibration=not server.has_folders,
        )  # fmt: skip
        nfs: dict[str, Any] = {"client": mount.kind, "server": wanted.server} | mount.facts()
        if server.model is not None:
            nfs["served"] = server.model
        facts: dict[str, Any] = {"nfs": nfs}
        if mount.has_files:
            path = self._folder_on(point, made, resources, owner)
        else:
            # Our folder stands for an export that only the workload knows.
            path = server.data_folder(base) or base
            if server.data_folder(base) is None:
                facts[SPACE_ELSEWHERE] = True
        place = describe(self, path, stated=server.stated_durability, facts=facts)
        if (known := server.durability(base)) is not None:
            place.durability = known
        elif not (mount.has_files or server.is_ours or server.stated_durability):
            reason = "nobody said what that server keeps (server_durability)"
            place.durability = DurabilityRecord(level="unknown", reasons=[reason])
        return place

    def _folder_on(self, point: Path, made: _Up, resources: Resources, owner: int | None) -> Path:
        """The run's own folder on the mounted export."""
        if not made.server.is_ours:
            made.on_export = own_folder(self, point, resources, owner)
            return made.on_export.path
        path = point / "data"
        # Of several client hosts, the first makes it for all.
        path.mkdir(mode=0o700, exist_ok=self._elsewhere is not None)
        if owner is not None and owner != os.geteuid():
            os.chown(path, owner, primary_group(owner))
        return path
