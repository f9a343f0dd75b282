"""What every collector (a source of evidence) has to be able to do.

Collectors are told before the workload is prepared (`ready`), started after that, and stopped
when its timed part ends. Each says what its watching cost. One that cannot work here says why:
fatal only when the experiment marks it `required`, otherwise recorded as unavailable.

A new collector is one file in its kind's folder, one line in `registry.py`, one test file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    import pyarrow as pa

    from nfslab.machine.availability import Availability
    from nfslab.workloads.base import RunContext, Workload


Side = Literal["client", "server", "files"]
""""files": where the places' files are used, on one or the other."""


class CollectorParameters(BaseModel):
    """Base of a collector's parameters: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    required: bool = False
    """Fail the run when this collector cannot work (otherwise: noted as unavailable)."""


@dataclass(slots=True)
class Evidence:
    """What a collector saw during one run."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    """Table name -> rows in time order; written to evidence/<name>.parquet. Time columns
    are `t_ns`: nanoseconds since the start of the timed part (may be negative)."""
    summary: dict[str, Any] = field(default_factory=dict)
    """Numbers a report shows without opening the tables (JSON)."""
    cpu_s: float | None = None
    wall_s: float | None = None

    @property
    def incomplete(self) -> str:
        """Why it is not whole; without a row in any table it is nothing."""
        return str(self.summary.get("incomplete", ""))


class Watch(Protocol):
    """One run's watching."""

    def end(self) -> Evidence:
        """What was seen. RunFailed."""


class Collector(ABC):
    """A source of evidence."""

    kind: ClassVar[str]
    summary: ClassVar[str]
    Parameters: ClassVar[type[CollectorParameters]]
    side: ClassVar[Side] = "client"
    """On which of the run's hosts it watches: whose clock its tables have."""
    of_machine: ClassVar[bool] = False
    """It watches a whole machine: of several hosts, each of them."""

    parameters: CollectorParameters
    _watch: Watch | None = None
    """Made by `start`."""

    def __init__(self, parameters: CollectorParameters) -> None:
        self.parameters = parameters

    @classmethod
    @abstractmethod
    def available(cls) -> Availability:
        """Can this collector work on this machine at all?"""

    def applies(self, context: RunContext) -> Availability:
        """Can it watch this run (is there a PostgreSQL to sample)?"""
        return self.available()

    def expected(self, workload: Workload) -> Availability:
        """The same for runs of this workload, before there is one."""
        return self.available()

    def ready(self, context: RunContext) -> None:
        """Called before the workload is prepared: what has to be there when its server starts."""
        return

    def abandon(self) -> None:
        """It was made ready, and will not be started: undo that."""
        return

    @abstractmethod
    def start(self, context: RunContext) -> None:
        """Begin to watch, where `applies` says yes; returns at once. RunFailed."""

    def stop(self) -> Evidence:
        """End watching and hand over what was seen, t = 0 at the start of the timed part.

        Called once, also after an error.
        """
        watch, self._watch = self._watch, None
        if watch is None:
            return Evidence(summary={"incomplete": "it was never started"})
        return watch.end()
