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

import base64
import contextlib
import json
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from nfslab.context import WHOLE, Services, Share, TimedPart
from nfslab.errors import RunFailed
from nfslab.machine.availability import Availability, measuring_core
from nfslab.machine.own_command import PROGRESS, failure_said, importing_us, of_changes
from nfslab.results.core_tables import typed_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from nfslab.context import HostPart
    from nfslab.hosts.base import Host
    from nfslab.machine.handed import HandedOver
    from nfslab.machine.resources import Resources
    from nfslab.machine.watched_launch import LaunchWatcher
    from nfslab.results.records import CheckRecord, LoadShape, Metric
    from nfslab.targets.base import Place


RUN_LIMIT_S = 7 * 86400.0


class WorkloadParameters(BaseModel):
    """Base of a workload's parameters: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DefinedParameters(WorkloadParameters):
    """Belongs to a workload whose data or scripts are its own: another definition is another
    experiment."""

    definition: str = ""
    """SHA-256 of what makes them; filled in."""

    @classmethod
    @abstractmethod
    def defined(cls) -> str:
        """Returns the definition that this nfslab has."""

    @classmethod
    def defined_for(cls, given: Mapping[str, Any]) -> str:
        """Returns the same where it is another one for other parameters."""
        return cls.defined()

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("definition"):
            return value
        return {**value, "definition": cls.defined_for(value)}

    def check_defined(self) -> Availability:
        """Is the experiment's the one that this nfslab has?"""
        if self.definition == self.defined_for(self.model_dump()):
            return Availability(True)
        return Availability(
            False,
            "the workload's own data or scripts are others than those of this experiment",
            "start a new experiment, or take the nfslab that began it",
        )


@dataclass(slots=True)
class RunContext:
    """Holds what a workload and the collectors of one run share."""

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
    say: Callable[[str], None]
    """How far a long phase is, for the progress shown: `context.say("loaded 3 of 10")`."""
    remaining_s: Callable[[], float]
    """Seconds until the run's time limit; raises RunFailed when it is over, and
    Interrupted when the person asked to stop: call it in every waiting loop."""
    timed: TimedPart
    """`with context.timed() as part:` around what is timed."""
    services: Services = field(default_factory=Services)
    """What is up: the workload adds its own for the collectors."""
    files_on: Literal["client", "server"] = "client"
    """On which of the two hosts the places' files are used, and their NFS mounted."""
    share: Share = WHOLE
    """Which part of the load is made here; that of a run on one host is all of it."""
    is_part: bool = False
    """Other hosts wait for this one, and its outcome is merged with theirs."""
    notes: list[str] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)

    @property
    def logs(self) -> Path:
        """Returns the run's folder for what programs say; made when first asked for."""
        folder = self.folder / "logs"
        folder.mkdir(exist_ok=True)
        return folder

    @property
    def files_host(self) -> Host:
        """Returns the host where the places' files are used."""
        return self.server_host if self.files_on == "server" else self.client_host


@dataclass(frozen=True)
class Completions:
    """Counts operations completed in each of some bins that follow each other."""

    begin_ns: int
    """Of the first bin, from the run's start."""
    width_ns: int
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class HostFigures:
    """Tells what one of several client hosts did in the timed part."""

    operations: float
    """Or whatever the workload counts."""
    mean_latency_ns: float | None = None
    planned_share: float | None = None
    """Of the whole load; None: as much as any other."""


@dataclass(slots=True)
class Outcome:
    """Holds what the timed part yielded."""

    metrics: dict[str, Metric]
    samples: dict[str, pa.Table] = field(default_factory=dict)
    """Table name -> raw samples in order; written to samples/<name>.parquet."""
    operations: str = ""
    """Which of them has one row an operation: t_ns (completed), latency_ns, status, lag_ns."""
    sampled_share: float = 1.0
    """Of the operations, how many have a row there."""
    completions: Sequence[Completions] = ()
    """Of runs that keep no row an operation: stretches of the timed part with their counts."""
    by_host: dict[str, HostFigures] = field(default_factory=dict)
    """Of several client hosts: what each of them did."""
    handed: Sequence[HandedOver] = ()
    """Of one of them: what its processes did, for `merge`."""
    checks: list[CheckRecord] = field(default_factory=list)


class Workload(ABC):
    """Loads a target."""

    kind: ClassVar[str]
    summary: ClassVar[str]
    Parameters: ClassVar[type[WorkloadParameters]]
    roles: ClassVar[tuple[str, ...]]
    """Names of the parameters that hold a target's name."""
    files_on: ClassVar[Literal["client", "server"]] = "client"
    """On which host the targets' files are used: where they have to be mounted."""
    engine: str = ""
    """Of the database server that it starts, if it starts one (`databases/registry.py`)."""
    others_serve: ClassVar[bool] = False
    """May programs that it does not start work for it, such as a server that is there?"""
    has_server: ClassVar[bool] = False
    """It brings up a server of its own. For several client hosts the prime, or the server's host,
    prepares and verifies it, on targets there; they are told how to reach it, and make the load.
    What is told (`endpoint`, `account`) is JSON."""

    def __init__(self, parameters: WorkloadParameters) -> None:
        self.parameters = parameters
        self.server_spent_s: float | None = None
        """CPU time of its own server during the timed part, as far as it is known."""

    @classmethod
    def of(cls, parameters: WorkloadParameters) -> Workload:
        """Returns the workload that does it, of whatever class these parameters ask for."""
        return cls(parameters)

    @classmethod
    @abstractmethod
    def available(cls) -> Availability:
        """Can this workload run here at all?"""

    def check(self) -> Availability:
        """Can it run with these parameters? Called before the first run."""
        return self.available()

    def check_exports(self, others: Sequence[str]) -> Availability:
        """Can it use targets of which these are no exports, or are mounted?"""
        return Availability(True)

    def check_host(self, kind: str) -> Availability:
        """Can its client run on this kind of host? Called before the first run."""
        return Availability(True)

    def check_hosts(self, hosts: int, processes: int) -> Availability:
        """Can so many client hosts make its load together, with so many processes on each?

        One that can splits it by `context.share`, in `prepare` and `measure` on each host, and puts
        it together in `merge`.
        """
        return Availability(
            False,
            f"the workload {self.kind} runs on one client host",
            "leave client.hosts out, or take another workload",
        )

    def check_server(self, *, has_our_files: bool) -> Availability:
        """Can its own server be on a host of its own, which sees this machine's files or not?"""
        return Availability(
            False,
            f"the workload {self.kind} brings up a server of its own, on this machine",
            "leave out [server]",
        )

    def connections(self, processes: int) -> int:
        """Returns the ports that each of several client hosts with so many processes takes."""
        return processes

    def endpoint(self) -> dict[str, Any]:
        """Returns what `connect_to` of client hosts needs to load what `prepare` brought up."""
        return {}

    def connect_to(self, endpoint: dict[str, Any]) -> None:  # noqa: B027
        """Uses the server that has this `endpoint`; called before `check`. From then on `prepare`
        and `measure` are of this host's part of the load alone, and nothing is verified."""

    def server_cpu_s(self) -> float | None:
        """Returns the CPU time that its own server has used so far; None where nobody knows."""
        return None

    def require_up(self, within_s: float = 0.0) -> None:  # noqa: B027
        """Raises RunFailed where what it brought up is gone, or goes so soon."""

    def account(self) -> dict[str, Any]:
        """Returns what client hosts did, behind `merge`, for `verify` where its server is."""
        return {}

    def add_account(self, account: dict[str, Any]) -> None:  # noqa: B027
        """Verifies with this `account` of client hosts."""

    def merge(self, context: RunContext, parts: Sequence[HostPart]) -> Outcome:
        """Returns the outcome of the whole load; `parts` are of all hosts, in order. RunFailed."""
        raise NotImplementedError(f"{self.kind} says that it runs on several hosts")

    def load_shape(self) -> LoadShape | None:
        """Says how it offers its load; None for a program of which that is not known."""
        return None

    def owner(self) -> int | None:
        """Returns the user id that must be able to write on the places; None for the caller's."""
        return None

    @abstractmethod
    def estimate_s(self) -> float:
        """Returns rough seconds of one run (all phases), for the plan."""

    @abstractmethod
    def estimate_bytes(self) -> dict[str, int]:
        """Returns rough bytes needed by each role, for the plan and the check of space."""

    @abstractmethod
    def prepare(self, context: RunContext) -> None:
        """Make everything ready that must not be timed."""

    @abstractmethod
    def measure(self, context: RunContext) -> Outcome:
        """Does what is timed."""

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        """Is what was measured true? A check with verdict "violation" fails the run.

        Nothing is left to be checked where `measure` did it all.
        """
        return []

    @abstractmethod
    def finish(self, context: RunContext) -> None:
        """Stop what was started; called always, also after an error; must not raise
        because something was never started."""


class OwnCommand(Workload):
    """Runs a program of ours, in a process of its own.

    So a memory limit and the CPU account apply to it alone, and a person can repeat by hand what
    the run's record shows.
    """

    @classmethod
    def available(cls) -> Availability:
        """Is the Rust core there, and fit for publishing figures?"""
        return measuring_core()

    def finish(self, context: RunContext) -> None:
        """The program has ended, and has removed what it made, unless that is to stay."""

    def printed(
        self,
        context: RunContext,
        module: str,
        asked: dict[str, Any],
        phase: str,
        watcher: LaunchWatcher | None = None,
    ) -> str:
        """Returns what the program of a module printed, asked for this; RunFailed in its own words.

        Behind a failure, what it had measured is in the logs.
        """
        name, tell = phase.replace(" ", "_"), of_changes(context.say)
        path = context.logs / f"{name}_asked.json"
        path.write_text(json.dumps(asked), encoding="utf-8")
        argv = [sys.executable, "-m", module, str(path)]
        context.commands.append(argv)

        def look() -> float:
            with contextlib.suppress(OSError):
                tell(path.with_name(PROGRESS).read_text(encoding="utf-8"))
            return context.remaining_s()

        with context.phase(phase):
            done = context.client_host.run(
                argv,
                resources=context.resources,
                timeout_s=RUN_LIMIT_S,
                check=False,
                env=importing_us(),
                cwd=Path("/"),
                cancelled=look,
                watcher=watcher,
            )
        path.with_name(PROGRESS).unlink(missing_ok=True)
        path.with_name(f"{name}.log").write_text(done.stderr, encoding="utf-8")
        if done.returncode != 0:
            if done.stdout:
                path.with_name(f"{self.kind}.json").write_text(done.stdout, encoding="utf-8")
            raise failure_said(f"the load of {self.kind}", done.returncode, done.stderr)
        return done.stdout


def spent(before_s: float | None, after_s: float | None) -> float | None:
    """Returns the CPU time between two readings, as far as both are known."""
    return None if before_s is None or after_s is None else after_s - before_s


def refuse_debug_build(flags: list[str]) -> None:
    """Raises RunFailed when these flags of a result say that the core is a debug build."""
    if "debug_build" in flags:
        raise RunFailed(
            "the Rust core is a debug build: its figures mean nothing",
            fix="nfslab --set-up-only builds it for use",
        )


def buckets_table(histograms: Iterable[tuple[str, str]]) -> pa.Table:
    """Makes a table of buckets of histograms: (phase, HdrHistogram V2 as base64)."""
    import pyarrow as pa

    from nfslab._core import Histogram

    rows: list[tuple[str, int, int, int]] = []
    for phase, text in histograms:
        rows += [(phase, *b) for b in Histogram.from_v2(base64.b64decode(text)).buckets()]
    types = {"phase": pa.string(), "low_ns": pa.int64(), "high_ns": pa.int64()}
    return typed_table(rows, types | {"count": pa.int64()})
