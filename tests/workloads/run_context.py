"""A run's surroundings for tests: real host, real journal, places in scratch folders."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from unittest import mock

from nfslab import clock
from nfslab._core import Server
from nfslab.context import TimedPart
from nfslab.databases.base import Database
from nfslab.errors import RunFailed
from nfslab.hosts.local import LocalHost
from nfslab.machine.mounts import mount_of
from nfslab.machine.resources import Resources
from nfslab.machine.users import primary_group
from nfslab.mounts.none import NfsExport
from nfslab.results.records import CheckRecord, DurabilityRecord
from nfslab.targets.base import Place
from nfslab.workloads.base import Outcome, RunContext, Workload
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.disk import DISK

RUN_LIMIT_S = 1200.0
ROOM_BYTES = 2 << 30


class Run:
    """One run: `prepare`, `measure` ... as the runner calls them, and what they left."""

    def __init__(self, context: RunContext, root: Path) -> None:
        self.context = context
        self.root = root
        self.phases: list[str] = []
        self.said: list[str] = []
        self.deadline = clock.monotonic() + RUN_LIMIT_S
        self.on_remaining: list[object] = []


def _made_folder(*, in_memory: bool = True) -> Path:
    """In memory where there is room: these tests ask what is true, not how fast a disk is."""
    memory = Path("/dev/shm")
    roomy = in_memory and memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES
    root = Path(tempfile.mkdtemp(prefix="nfslab-test-", dir=memory if roomy else DISK))
    root.chmod(0o755)
    return root


@lru_cache(maxsize=1)
def shared_cache() -> Path:
    """Returns where this process keeps loaded databases, so that each is loaded once."""
    root = _made_folder()
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return root


@contextmanager
def scratch_folder(*, in_memory: bool = True) -> Iterator[Path]:
    """A folder that every user can enter (pytest's own are private to their owner)."""
    root = _made_folder(in_memory=in_memory)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def make_place(path: Path, target: str, owner: int | None) -> Place:
    path.mkdir(parents=True)
    if owner is not None:
        os.chown(path, owner, primary_group(owner))
    mount = mount_of(path)
    return Place(
        target=target,
        kind="local",
        path=path,
        filesystem=mount.filesystem,
        source=mount.source,
        mount_point=mount.mount_point,
        mount_options=mount.options,
        devices=[],
        durability=DurabilityRecord(level="stable"),
    )


@contextmanager
def _exported(workload: Workload, context: RunContext) -> Iterator[None]:
    """An export at each place, for a workload that speaks NFS itself and finds none."""
    if workload.kind != "sfs":
        yield
        return
    # 20 ms for a reply: how late a generator on a busy machine is, is little beside that.
    with Server('{"store": "memory", "model": {"delay_ns": 20000000}}') as server:
        ports = [f"port={server.port}", f"mountport={server.port}"]
        export = NfsExport("127.0.0.1:/export", ports)
        targets = [place.target for place in context.places.values()]
        context.services.nfs_exports = dict.fromkeys(targets, export)
        yield


@contextmanager
def run_of(
    workload: Workload,
    root: Path,
    *,
    name: str = "run",
    places: dict[str, Path] | None = None,
    seed: int = 7,
    cache: Path | None = None,
) -> Iterator[Run]:
    """Everything one run needs; afterwards all of it must be gone without being undone."""
    folder = root / name
    (folder / "logs").mkdir(parents=True)
    owner = workload.owner()
    wanted = places or {role: root / f"{name}-{role}" for role in workload.roles}
    made: dict[Path, Place] = {}
    for role, path in wanted.items():
        made.setdefault(path, make_place(path, f"the-{role}", owner))
    (root / "state").mkdir(exist_ok=True)
    resources = Resources(name, state=root / "state")

    @contextmanager
    def phase(phase_name: str) -> Iterator[None]:
        run.phases.append(phase_name)
        yield

    def remaining_s() -> float:
        left = run.deadline - clock.monotonic()
        if left <= 0:
            raise RunFailed("the run's time is over")
        return left

    context = RunContext(
        folder=folder,
        cache=cache or shared_cache(),
        places={role: made[path] for role, path in wanted.items()},
        server_host=LocalHost(),
        client_host=LocalHost(),
        resources=resources,
        seed=seed,
        phase=phase,
        say=lambda text: run.said.append(text),
        remaining_s=remaining_s,
        timed=TimedPart(clock.monotonic_ns),
    )
    run = Run(context, root)
    try:
        with _exported(workload, context):
            yield run
    finally:
        try:
            workload.finish(context)
        finally:
            left = resources.close()
            for path in made:
                shutil.rmtree(path, ignore_errors=True)
    # Not in `finally`: what failed before is the cause to be told.
    assert left == [], "finish left something behind"


def unique_name() -> str:
    """Returns a name that no run had."""
    return f"run-{uuid.uuid4().hex[:8]}"


def carry_out(work: Workload, run: Run) -> tuple[Outcome, dict[str, CheckRecord]]:
    """Returns what a whole run yields, and its checks by their names."""
    work.prepare(run.context)
    outcome = work.measure(run.context)
    checks = outcome.checks + work.verify(run.context, outcome)
    return outcome, {check.name: check for check in checks}


@contextmanager
def kept_up(database: Database, context: RunContext) -> Iterator[None]:
    """Other runs may use this database while it is up, as the one before left it.

    They are told of it as of one that was brought up for them, and do not end it.
    """
    ours = context.services

    def bring_up(other: RunContext, _tables: object) -> None:
        theirs = other.services
        theirs.engine, theirs.database, theirs.postgres = ours.engine, ours.database, ours.postgres
        for role, place in other.places.items():
            place.facts.update(context.places[role].facts)

    def stop(*, hurry: bool) -> None:
        """Nothing: it is needed."""

    with (
        mock.patch.object(database, "bring_up", bring_up),
        mock.patch.object(database, "stop", stop),
    ):
        yield


@contextmanager
def command_run() -> Iterator[RunContext]:
    """A run of `true` with a place "data", for what a collector watches beside it."""
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    name = unique_name()
    with (
        scratch_folder() as root,
        run_of(work, root, name=name, places={"data": root / "data"}) as run,
    ):
        yield run.context
