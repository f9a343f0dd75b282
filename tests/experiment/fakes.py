"""Plug-ins that follow the base classes and do what a test tells them to.

`register()` puts them into the registries (also in a child process: see `launcher.py`),
so that the whole way from the file to the sealed run can be walked without a database.
The workload's "measurement" is a formula of its parameters: what comes out is known.
"""

from __future__ import annotations

import errno
import math
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa
from nfslab import clock
from nfslab.cluster.base import Patience
from nfslab.errors import RunFailed
from nfslab.evidence.collector import Collector, CollectorParameters, Evidence
from nfslab.evidence.registry import COLLECTORS
from nfslab.machine.availability import Availability
from nfslab.quantities import Size
from nfslab.results.records import CheckRecord, DurabilityRecord, Metric
from nfslab.targets.base import Place, Target, TargetParameters
from nfslab.targets.registry import TARGETS
from nfslab.workloads.base import HostFigures, Outcome, RunContext, Workload, WorkloadParameters
from nfslab.workloads.registry import WORKLOADS
from pydantic import Field, model_validator

from tests.waiting import NO_LIMIT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab.context import HostPart, Met
    from nfslab.hosts.base import Hosts
    from nfslab.machine.resources import Resources

EVENTS: list[str] = []
"""What was called, in order (in this process)."""
MET: list[Met] = []
"""Where client hosts met (in this process)."""
SERVERS_DIE: list[str] = []
"""Where the workload's own server is, "here" or "apart": there it is dead."""
UNHURRIED = Patience(ready_s=NO_LIMIT_S, busy_s=NO_LIMIT_S, load_s=NO_LIMIT_S, start_s=2.0)
"""Of hosts of tests: one whose processes get no processor for some seconds is not lost, and it
hears in time when to begin."""


class FolderParameters(TargetParameters):
    path: str = "/var/tmp"
    chunk: Size = 4096
    level: Literal["stable", "volatile", "unknown"] = "unknown"
    cannot: str = ""
    """Why it cannot run here, when a test wants so."""
    free: Size | None = None
    down_fails: bool = False
    shared: bool = False
    """One for all client hosts, made where the server is."""


class FolderTarget(Target):
    kind: ClassVar[str] = "folder"
    summary: ClassVar[str] = "a folder, for tests"
    Parameters: ClassVar[type[TargetParameters]] = FolderParameters
    parameters: FolderParameters

    def __init__(self, name: str, parameters: TargetParameters) -> None:
        super().__init__(name, parameters)
        self.told: dict[str, Any] = {}
        """What was said of it where it is up."""

    @classmethod
    def available(cls) -> Availability:
        return Availability(True)

    def check(self) -> Availability:
        if self.parameters.cannot:
            return Availability(False, self.parameters.cannot, "buy one")
        return Availability(True)

    def free_bytes(self) -> int | None:
        if self.parameters.free is not None:
            return self.parameters.free
        facts = os.statvfs(self.parameters.path)
        return facts.f_bavail * facts.f_frsize

    def up(self, resources: Resources, hosts: Hosts, *, owner: int | None = None) -> Place:
        EVENTS.append(f"up {self.name}")
        path = Path(self.parameters.path) / f"{resources.name}-{self.name}"
        if self.told:
            path = Path(self.told["path"]) / resources.token
        self._entry = resources.make_directory(path, owner=owner)
        return Place(
            target=self.name,
            kind=self.kind,
            path=path,
            filesystem="ext4",
            source="/dev/fake",
            mount_point=Path("/"),
            mount_options="rw",
            devices=[],
            durability=DurabilityRecord(level=self.parameters.level),
        )

    def for_others(self) -> bool:
        return self.parameters.shared

    def endpoint(self, place: Place) -> dict[str, Any]:
        return {"path": str(place.path)}

    def connect_to(self, endpoint: dict[str, Any]) -> None:
        self.told = endpoint

    def down(self, place: Place) -> None:
        EVENTS.append(f"down {self.name}")
        if self.parameters.down_fails:
            raise RunFailed("the fake target does not go down")
        self._entry.undo()


class FormulaParameters(WorkloadParameters):
    data: str
    log: str | None = None
    clients: int = Field(default=1, ge=1, le=64)
    size: Size = 1 << 20
    style: Literal["plain", "fancy"] = "plain"
    settings: dict[str, str | int | float | bool] = Field(default_factory=dict)
    fail: Literal[
        "", "prepare", "measure", "verify", "enospc", "defect", "finish", "block", "hang", "violate"
    ] = ""
    fail_in_blocks: list[int] = Field(default_factory=list)
    child: bool = False
    """Start a process that sleeps through the run, as a server would."""
    measure_s: float = 0.0
    passes: str = ""
    """A folder of files: each measurement takes one away, and waits while there is none."""
    spread: float = 0.0
    """Standard deviation of the log of the rate, drawn for each block and point."""
    estimate: float = 1.0
    serves: bool = False
    """It has a server of its own, which counts what its clients tell it."""
    gates: list[str] = Field(default_factory=list)
    """Where client hosts wait for each other in the timed part."""
    fails_on: int | None = None
    """The client host on which `fail` is meant; all of them without."""

    @model_validator(mode="after")
    def _fancy_needs_clients(self) -> FormulaParameters:
        if self.style == "fancy" and self.clients < 2:
            raise ValueError("style fancy needs at least 2 clients")
        return self


class FormulaWorkload(Workload):
    kind: ClassVar[str] = "formula"
    summary: ClassVar[str] = "a formula, for tests"
    Parameters: ClassVar[type[WorkloadParameters]] = FormulaParameters
    roles: ClassVar[tuple[str, ...]] = ("data", "log")
    parameters: FormulaParameters

    def __init__(self, parameters: WorkloadParameters) -> None:
        super().__init__(parameters)
        self.process: Any = None
        self.has_server = self.parameters.serves  # type: ignore[misc]
        self.is_up = False
        """Its server is here."""
        self.served: dict[str, Any] = {}
        """What was said of its server, where that is another host's."""
        self.done: float | None = None
        """What all hosts did, where its server is."""

    @classmethod
    def available(cls) -> Availability:
        return Availability(True)

    def estimate_s(self) -> float:
        return self.parameters.estimate

    def estimate_bytes(self) -> dict[str, int]:
        return {"data": self.parameters.size, "log": self.parameters.size // 2}

    def check_hosts(self, hosts: int, processes: int) -> Availability:
        return Availability(True)

    def check_server(self, *, has_our_files: bool) -> Availability:
        return Availability(True)

    def endpoint(self) -> dict[str, Any]:
        return {"port": 2049}

    def connect_to(self, endpoint: dict[str, Any]) -> None:
        self.served = endpoint

    def require_up(self, within_s: float = 0.0) -> None:
        if SERVERS_DIE and self.is_up:
            raise RunFailed("the fake server died")

    def account(self) -> dict[str, Any]:
        return {"done": self.done}

    def add_account(self, account: dict[str, Any]) -> None:
        self.done = account["done"]

    def merge(self, context: RunContext, parts: Sequence[HostPart]) -> Outcome:
        rates = {one.name: one.record.metrics["rate_per_s"].value for one in parts}
        self.done = sum(rates.values())
        return Outcome(
            metrics={
                "rate_per_s": Metric(value=self.done, unit="1/s", better="higher", primary=True)
            },
            by_host={name: HostFigures(rate, 1e6) for name, rate in rates.items()},
        )

    def _fails(self, context: RunContext) -> str:
        """What is to fail here."""
        is_meant = self.parameters.fails_on in (None, context.share.host)
        return self.parameters.fail if is_meant else ""

    def prepare(self, context: RunContext) -> None:
        EVENTS.append("prepare")
        p, fail = self.parameters, self._fails(context)
        self.is_up = self.has_server and not self.served
        if p.child:
            self.process = context.server_host.spawn(
                [sys.executable, "-c", "import time; time.sleep(3600)"],
                resources=context.resources,
                log=context.folder / "logs" / "server.log",
            )
        with context.phase("load"):
            for role, place in context.places.items():
                (place.path / f"{role}.dat").write_bytes(b"x" * 4096)
        context.notes.append("a formula stood in for a measurement")
        context.commands.append(["formula", str(p.clients)])
        if fail == "prepare":
            raise RunFailed("the fake server does not start", why="planted", fix="unplant it")
        if fail == "enospc":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/planted")

    def measure(self, context: RunContext) -> Outcome:
        EVENTS.append("measure")
        p, fail = self.parameters, self._fails(context)
        if fail == "measure":
            raise RunFailed("the connection was lost", why="planted")
        if fail == "defect":
            raise ZeroDivisionError("planted")
        if fail == "block":
            clock.sleep(3600)  # deaf: never asks whether it should stop
        while p.passes and not take_pass(Path(p.passes)):
            clock.sleep(min(0.01, context.remaining_s()))
        with context.timed() as part:
            for gate in p.gates:
                clock.sleep(0.3 * (1 + context.share.host))
                MET.append(part.meet(gate, {"host": context.share.host}))
            until = clock.Deadline(3600 if fail == "hang" else p.measure_s)
            while not until.passed():
                clock.sleep(min(0.1, until.left_s(), context.remaining_s()))
        noise = random.Random(f"{context.seed} {p.data} {p.clients}").gauss(0.0, p.spread)
        value = 100.0 * p.clients * math.exp(noise)
        value += context.share.host
        return Outcome(
            metrics={
                "rate_per_s": Metric(value=value, unit="1/s", better="higher", primary=True),
                "seed": Metric(value=float(context.seed % 1000), unit=""),
            },
            samples={"operations": pa.table({"t_ns": pa.array([1, 2, 3], pa.int64())})},
        )

    def verify(self, context: RunContext, outcome: Outcome) -> list[CheckRecord]:
        EVENTS.append("verify")
        fail = self._fails(context)
        if fail == "verify":
            raise RunFailed("cannot verify")
        bad = fail == "violate"
        if self.is_up:
            return [CheckRecord(name="server", verdict="ok", message=f"served {self.done:g}")]
        return [
            CheckRecord(
                name="sum",
                verdict="violation" if bad else "ok",
                message="the sums differ" if bad else "the sums agree",
            )
        ]

    def finish(self, context: RunContext) -> None:
        EVENTS.append("finish")
        if self.process is not None:
            self.process.stop()
        if self.parameters.fail == "finish":
            raise RunFailed("the fake server does not stop")


def take_pass(folder: Path) -> bool:
    """One of the files is gone."""
    for file in folder.iterdir():
        file.unlink()
        return True
    return False


def give_passes(folder: Path, count: int) -> None:
    """So many are in it now."""
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink(missing_ok=True)
    for number in range(count):
        (folder / str(number)).touch()


class WatcherParameters(CollectorParameters):
    interval: float = 0.1
    absent: bool = False
    fails: Literal["", "start", "stop", "silently", "partly"] = ""


class WatcherCollector(Collector):
    kind: ClassVar[str] = "watcher"
    summary: ClassVar[str] = "a collector for tests"
    Parameters: ClassVar[type[CollectorParameters]] = WatcherParameters
    parameters: WatcherParameters

    @classmethod
    def available(cls) -> Availability:
        return Availability(True)

    def applies(self, context: RunContext) -> Availability:
        if self.parameters.absent:
            return Availability(False, "nothing to watch here")
        return Availability(True)

    def start(self, context: RunContext) -> None:
        EVENTS.append("watch")
        if self.parameters.fails == "start":
            raise RunFailed("the watcher does not start")

    def stop(self) -> Evidence:
        EVENTS.append("unwatch")
        if self.parameters.fails == "stop":
            raise RunFailed("the watcher does not stop")
        if self.parameters.fails == "silently":
            return Evidence(summary={"incomplete": "nothing came"}, wall_s=1.0)
        return Evidence(
            tables={"watched": pa.table({"t_ns": pa.array([0, 1], pa.int64())})},
            summary={"seen": 2}
            | ({"incomplete": "a part came"} if self.parameters.fails == "partly" else {}),
            cpu_s=0.0,
            wall_s=1.0,
        )


def register() -> None:
    """Put the fakes into the registries of this process."""
    module = __name__
    TARGETS["folder"] = f"{module}:FolderTarget"
    WORKLOADS["formula"] = f"{module}:FormulaWorkload"
    COLLECTORS["watcher"] = f"{module}:WatcherCollector"
