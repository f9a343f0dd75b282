"""What every target (a place that data can live on) has to be able to do.

A target is made from its section of the experiment file, brought *up* before a run and
taken *down* after it. Coming up yields a `Place`: an empty directory of its own for this
run, with the options in effect and the durability read back from the kernel (what was
asked for is no evidence). Everything it makes outside its directory (a mount, a loop
device) is entered into the run's `Resources` *before* it is made, so that a kill at any
instant leaves nothing that the next start does not find.

A new target is one file in this folder, one line in `registry.py`, one test file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

from nfslab.results.records import DurabilityRecord, PlaceRecord

if TYPE_CHECKING:
    from nfslab.machine.availability import Availability
    from nfslab.machine.resources import Resources


class TargetParameters(BaseModel):
    """Base of a target's parameters: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(slots=True)
class Place:
    """A target that is up: an empty directory for one run, and what is known of it."""

    target: str
    kind: str
    path: Path
    """The run's own empty directory, writable by `owner` when one was given."""
    filesystem: str
    source: str
    mount_point: Path
    mount_options: str
    devices: list[str]
    durability: DurabilityRecord
    facts: dict[str, Any] = field(default_factory=dict)

    def record(self) -> PlaceRecord:
        """The same for the run's record."""
        return PlaceRecord(
            target=self.target,
            kind=self.kind,
            path=str(self.path),
            filesystem=self.filesystem,
            source=self.source,
            mount_point=str(self.mount_point),
            mount_options=self.mount_options,
            devices=self.devices,
            durability=self.durability,
            facts=self.facts,
        )


class Target(ABC):
    """A place that data can live on."""

    kind: ClassVar[str]
    summary: ClassVar[str]
    """One line for `nfslab doctor` and the documentation."""
    Parameters: ClassVar[type[TargetParameters]]

    def __init__(self, name: str, parameters: TargetParameters) -> None:
        self.name = name
        self.parameters = parameters

    @classmethod
    @abstractmethod
    def available(cls) -> Availability:
        """Can targets of this kind be made on this machine by this user at all?"""

    def check(self) -> Availability:
        """Can *this* target be made, with its parameters? Called before the first run."""
        return self.available()

    @abstractmethod
    def free_bytes(self) -> int | None:
        """Space that a run can use, for the plan's estimate; None when not known yet."""

    @abstractmethod
    def up(self, resources: Resources, *, owner: int | None = None) -> Place:
        """Make it ready: an empty directory of its own for one run.

        `owner` is the user id that has to be able to write there (a database server that
        does not run as root). Raises `RunFailed` or `Unavailable`.
        """

    @abstractmethod
    def down(self, place: Place) -> None:
        """Remove what `up` made. Must work on a place that has failed half way."""
