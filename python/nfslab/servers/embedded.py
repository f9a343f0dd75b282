"""The embedded server on a folder, in memory, or of nothing, as slow as its model says.

Durability: on a folder it is as durable as that folder (it answers a COMMIT after fsync); memory
is volatile, and so are what a modelled NVRAM confirmed and names that are not synced.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, create_model, model_validator

from nfslab.errors import UsageError
from nfslab.machine.availability import Availability
from nfslab.machine.mounts import block_devices_of, mount_of
from nfslab.results.records import DurabilityRecord
from nfslab.servers import embedded_process
from nfslab.servers.base import Server, ServerParameters
from nfslab.servers.embedded_options import IN_EXPERIMENT, OPTIONS, Option, model
from nfslab.storage.durability import durability_of, weakest
from nfslab.storage.space import free_bytes_of

if TYPE_CHECKING:
    from pathlib import Path

    from nfslab.context import Services
    from nfslab.hosts.base import Host, Link
    from nfslab.machine.resources import Resources
    from nfslab.servers.embedded_process import EmbeddedServer

MEMORY_BYTES = 1 << 30
"""Of the memory store, unless said otherwise."""


def _one(value: object) -> object:
    """One text needs no brackets."""
    return [value] if isinstance(value, str) else value


class _Store(ServerParameters):
    """Which store; the options of its model come from their table."""

    store: Literal["directory", "memory", "null"] = "directory"
    """Embedded: a folder of `directory`, memory, or (not mounted) nothing: every name is a file."""

    @model_validator(mode="after")
    def _possible(self) -> _Store:
        if self.store == "directory" and self.given("size"):
            raise ValueError('size goes with store = "memory"')
        if self.store != "directory" and self.given("unsafe_async_names"):
            raise ValueError("unsafe_async_names goes with the embedded server on a folder")
        for option in IN_EXPERIMENT:
            # What the server would refuse at its start is refused in the file.
            value = self.given(option.parameter)
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str) and text != option.means_none:
                    _readable(option, text)
        return self

    def given(self, name: str) -> Any:
        """The value of an option of the table."""
        return getattr(self, name)


def _readable(option: Option, text: str) -> None:
    """ValueError where the server would not read it."""
    try:
        option.read(text)
    except ValueError as error:
        raise ValueError(f"{option.parameter}: {error}") from error


def _field(option: Option) -> tuple[Any, Any]:
    """An option of the table as a parameter."""
    if option.is_flag:
        return bool, Field(default=False, description=option.help)
    if option.most_times > 1:
        many = Annotated[list[str], BeforeValidator(_one)]
        return many, Field(
            default_factory=list, max_length=option.most_times, description=option.help
        )
    limits: dict[str, Any] = (
        {} if option.bounds is None else dict(zip(("ge", "le"), option.bounds, strict=True))
    )
    return option.annotation | None, Field(default=None, description=option.help, **limits)


_FIELDS: dict[str, Any] = {option.parameter: _field(option) for option in IN_EXPERIMENT}
EmbeddedParameters: type[_Store] = create_model("EmbeddedParameters", __base__=_Store, **_FIELDS)


class EmbeddedNfsServer(Server):
    """`nfslab serve` as a process of the run."""

    kind: ClassVar[str] = "embedded"
    summary: ClassVar[str] = "nfslab's own server: a folder, memory or nothing, with a model"
    Parameters: ClassVar[type[ServerParameters]] = EmbeddedParameters
    parameters: _Store

    def __init__(self, parameters: ServerParameters, named: str) -> None:
        super().__init__(parameters, named)
        self.running: EmbeddedServer | None = None

    def sound(self) -> Availability:
        """Does the service model make sense?"""
        from nfslab._core import CoreError, check_service_model

        read: dict[str, Any] = {
            one.parameter: [] if one.most_times > 1 else None for one in OPTIONS
        }
        for option in IN_EXPERIMENT:
            for text in option.arguments(self.parameters.given(option.parameter))[1::2]:
                value = option.read(text)
                old = read[option.parameter]
                read[option.parameter] = [*old, value] if option.most_times > 1 else value
        try:
            if planted := model(read):
                check_service_model(json.dumps(planted))
        except UsageError as error:
            return Availability(False, error.in_a_line(), error.fix)
        except CoreError as error:
            return Availability(False, error.why, error.fix)
        return Availability(True)

    def arguments(self, export: Path) -> list[str]:
        """Arguments of `nfslab serve`."""
        wanted = self.parameters
        arguments = [str(export)] if wanted.store == "directory" else [f"--{wanted.store}"]
        for option in IN_EXPERIMENT:
            arguments += option.arguments(wanted.given(option.parameter))
        return arguments

    def start(self, folder: Path, resources: Resources, *, host: Host, link: Link) -> None:
        """Its process, on a port that the kernel gives."""
        export = folder / "export"
        export.mkdir(mode=0o755)
        self.running = running = embedded_process.start(
            self.arguments(export), folder, resources, host=host, link=link
        )
        self.source, self.model, self.process = running.source, running.model, running.process
        self.options = [f"port={running.port}", f"mountport={running.mount_port}"]

    def stop(self) -> None:
        """End it."""
        running, self.running = self.running, None
        if running is not None:
            running.stop()

    def free_bytes(self, directory: Path) -> int | None:
        """Of its folder or memory."""
        if self.parameters.store == "directory":
            return free_bytes_of(directory)
        if self.parameters.store == "null":
            return None
        size: int | None = self.parameters.given("size")
        return size or MEMORY_BYTES

    def data_folder(self, folder: Path) -> Path | None:
        """Its export, when that is a folder."""
        return folder / "export" if self.parameters.store == "directory" else None

    @property
    def has_folders(self) -> bool:
        """The null store has names only."""
        return self.parameters.store != "null"

    def durability(self, folder: Path) -> DurabilityRecord | None:
        """Of its folder, unless its store or model is less."""
        wanted = self.parameters
        if wanted.store != "directory":
            reason = f"the embedded server's store is {wanted.store}: gone with it"
            return DurabilityRecord(level="volatile", reasons=[reason])
        lost = []
        if wanted.given("unsafe_async_names"):
            lost.append("unsafe_async_names: names are confirmed before the disk has them")
        if wanted.given("nvram"):
            lost.append("the modelled NVRAM confirms before the disk has it")
        mount = mount_of(folder)
        below = durability_of(mount, block_devices_of(mount))
        if not lost:
            return below
        return weakest([below, DurabilityRecord(level="volatile", reasons=lost)])

    def offer(self, target: str, services: Services) -> None:
        """Its records of calls."""
        if self.running is not None:
            services.nfs_servers[target] = self.running
