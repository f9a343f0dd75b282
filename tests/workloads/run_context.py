"""A run's surroundings for tests: real host, real journal, places in scratch folders."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nfslab._core import Server
from nfslab.context import TimedPart
from nfslab.errors import RunFailed
from nfslab.hosts.local import LocalHost
from nfslab.machine.mounts import mount_of
from nfslab.machine.resources import Resources
from nfslab.machine.users import primary_group
from nfslab.mounts.none import NfsExport
from nfslab.results.records import DurabilityRecord
from nfslab.targets.base import Place
from nfslab.workloads.base import RunContext, Workload
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
        self.deadline = time.monotonic() + RUN_LIMIT_S
        self.on_remaining: list[object] = []


@contextmanager
def scratch_folder(*, in_memory: bool = True) -> Iterator[Path]:
    """A folder that every user can enter (pytest's own are private to their owner).

    In memory where there is room: these tests ask what is true, not how fast a disk is.
    """
    memory = Path("/dev/shm")
    roomy = in_memory and memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES
    root = Path(tempfile.mkdtemp(prefix="nfslab-test-", dir=memory if roomy else DISK))
    root.chmod(0o755)
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
) -> Iterator[Run]:
    """Everything one run needs; afterwards all of it must be gone without being undone."""
    folder = root / name
    (folder / "logs").mkdir(parents=True)
    cache = root / "cache"
    cache.mkdir(exist_ok=True)
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
        left = run.deadline - time.monotonic()
        if left <= 0:
            raise RunFailed("the run's time is over")
        return left

    context = RunContext(
        folder=folder,
        cache=cache,
        places={role: made[path] for role, path in wanted.items()},
        server_host=LocalHost(),
        client_host=LocalHost(),
        resources=resources,
        seed=seed,
        phase=phase,
        say=lambda text: run.said.append(text),
        remaining_s=remaining_s,
        timed=TimedPart(time.monotonic_ns),
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


@contextmanager
def command_run() -> Iterator[RunContext]:
    """A run of `true` with a place "data", for what a collector watches beside it."""
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    name = f"watched-{uuid.uuid4().hex[:8]}"
    with (
        scratch_folder() as root,
        run_of(work, root, name=name, places={"data": root / "data"}) as run,
    ):
        yield run.context
