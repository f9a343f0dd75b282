"""What every workload (what loads a target) has to be able to do.

The runner calls, in this order: `prepare` (load the data, start the server), then the
collectors start, `measure` (with the timed part in it), the collectors stop, `verify` (is what we
measured true: invariants, content), and always `finish` (stop what was started), also
after an error. A workload never loops in Python in its timed part: it starts a program
or calls the core.

Roles name the targets that a workload uses: pgbench has `data` and `wal`, files has
`data`. In the experiment file a role is a parameter whose value is a target's name.

A new workload is one file (or one folder with `workload.py`), one line in `registry.py`,
one test file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import BaseModel, ConfigDict

from nfslab.context import Services, TimedPart
from nfslab.machine.availability import Availability

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    import pyarrow as pa

    from nfslab.hosts.base import Host
    from nfslab.machine.resources import Resources
    from nfslab.results.records import CheckRecord, LoadShape, Metric
    from nfslab.targets.base import Place


class WorkloadParameters(BaseModel):
    """Base of a workload's parameters: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(slots=True)
class RunContext:
    """What a workload and the collectors of one run share."""

    folder: Path
    """The run's folder while it is being made; write below samples/, evidence/, logs/."""
    cache: Path
    """A folder of this experiment for what several runs may share (a loaded cluster)."""
    places: dict[str, Place]
    """Role -> place that is up."""
    server_host: Host
    """Where the servers of the workload run (a database): starts processes."""
    client_host: Host
    """Where the client of the workload runs (`client.host`)."""
    resources: Resources
    """Journalled: processes, mounts, directories that must not outlive the run."""
    seed: int
    """This run's own seed, derived from the experiment's."""
    phase: Callable[[str], AbstractContextManager[None]]
    """`with context.phase("load"):` times a phase and shows it in the progress."""
    remaining_s: Callable[[], float]
    """Seconds until the run's time limit; raises RunFailed when it is over, and
    Interrupted when the person asked to stop: call it in every waiting loop."""
    timed: TimedPart
    """`with context.timed() as part:` around what is timed."""
    services: Services = field(default_factory=Services)
    """What is up: the workload adds its own for the collectors."""
    files_on: Literal["client", "server"] = "client"
    """On which of the two hosts the places' files are used, and their NFS mounted."""
    notes: list[str] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)

    @property
    def files_host(self) -> Host:
        """Where the places' files are used."""
        return self.server_host if self.files_on == "server" else self.client_host


@dataclass(slots=True)
class Outcome:
    """What the timed part yielded."""

    metrics: dict[str, Metric]
    samples: dict[str, pa.Table] = field(default_factory=dict)
    """Table name -> raw samples in order; written to samples/<name>.parquet."""
    operations: str = ""
    """Which of them has one row an operation: t_ns (completed), latency_ns, status, lag_ns."""
    sampled_share: float = 1.0
    """Of the operations, how many have a row there."""
    checks: list[CheckRecord] = field(default_factory=list)


class Workload(ABC):
    """What loads a target."""

    kind: ClassVar[str]
    summary: ClassVar[str]
    Parameters: ClassVar[type[WorkloadParameters]]
    roles: ClassVar[tuple[str, ...]]
    """Names of the parameters that hold a target's name."""
    files_on: ClassVar[Literal["client", "server"]] = "client"
    """On which host the targets' files are used: where they have to be mounted."""

    def __init__(self, parameters: WorkloadParameters) -> None:
        self.parameters = parameters

    @classmethod
    @abstractmethod
    def available(cls) -> Availability:
        """Can this workload run here at all?"""

    def check(self) -> Availability:
        """Can it run with these parameters? Called before the first run."""
        return self.available()

    def check_host(self, kind: str) -> Availability:
        """Can its client run on this kind of host? Called before the first run."""
        return Availability(True)

    def load_shape(self) -> LoadShape | None:
        """How it offers its load; None for a program of which that is not known."""
        return None

    def owner(self) -> int | None:
        """User id that must be able to write on the places; None for the caller's."""
        return None

    @abstractmethod
    def estimate_s(self) -> float:
        """Rough seconds of one run (all phases), for the plan."""

    @abstractmethod
    def estimate_bytes(self) -> dict[str, int]:
        """Role -> rough bytes needed there, for the plan and the check of space."""

    @abstractmethod
    def prepare(self, context: RunContext) -> None:
        """Make everything ready that must not be timed."""

    @abstractmethod
    def measure(self, context: RunContext) -> Outcome:
        """The timed part."""

    @abstractmethod
    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Is what was measured true? A check with verdict "violation" fails the run."""

    @abstractmethod
    def finish(self, context: RunContext) -> None:
        """Stop what was started; called always, also after an error; must not raise
        because something was never started."""
