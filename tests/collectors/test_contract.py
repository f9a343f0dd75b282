"""What every registered collector has to do: the contract of `nfslab.evidence.collector`."""

from __future__ import annotations

import inspect
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nfslab.evidence.collector import Collector, CollectorParameters
from nfslab.evidence.registry import COLLECTORS, collector_class
from nfslab.machine.availability import Availability
from nfslab.workloads.base import Workload
from nfslab.workloads.command import CommandParameters, CommandWorkload
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from nfslab.workloads.tpcb.parameters import TpcbParameters
from nfslab.workloads.tpcb.workload import TpcbWorkload
from pydantic import ValidationError

from tests.collectors.loopback_nfs import LOOPBACK, converse, exchange
from tests.collectors.planted_mountstats import Planted as Mountstats
from tests.collectors.planted_nfs_server import Answering
from tests.collectors.planted_nfsd import KERNELS
from tests.collectors.planted_nfsd import Planted as Nfsd
from tests.collectors.planted_rpc import Live
from tests.workloads.run_context import Run, run_of, scratch_folder

every_collector = pytest.mark.parametrize("kind", list(COLLECTORS))


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


def load_for(kind: str) -> Workload:
    """Something to watch: PostgreSQL for every collector but those of another engine, whose load
    has an end by time and may have no processor for a part of it."""
    if kind == "mariadb":
        return TpcbWorkload(TpcbParameters(data="disk", engine=kind, duration=3, clients=2))
    return PgbenchWorkload(PgbenchParameters(data="disk", transactions=30, clients=2))


@pytest.fixture
def loaded(root: Path, kind: str) -> Iterator[tuple[Workload, Run]]:
    """A run whose database is up."""
    work = load_for(kind)
    if not work.check().ok:
        pytest.skip(work.check().reason)
    name = f"watched-{uuid.uuid4().hex[:8]}"
    with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as run:
        work.prepare(run.context)
        # What a target that mounts with nfslab's own client leaves there.
        run.context.services.rpc_recorders = {"data": Live()}
        run.context.services.nfs_servers = {"data": Answering()}
        yield work, run


WATCHING = {
    "capture": {"interface": "lo", "filter": "port 2049"},
    "profile": {"frequency": 1999},  # the timed part is a fraction of a second
}
"""What a collector has to be told to watch a run that is not its own: no NFS is here."""


PREFIXES = {"fsync": "syscall_", "syscalls": "syscall_"}
"""What tables' names begin with, where it is not the collector's own name."""


MAY_BE_EARLY = ("syscall_files", "syscall_names")
"""A file is seen when it is used first, names change when they do: perhaps not in a short load."""


def make(kind: str, watching: bool = False) -> Collector:
    cls = collector_class(kind)
    if watching and not cls.available().ok:
        pytest.skip(f"{kind}: {cls.available().reason}")
    return cls(cls.Parameters(**WATCHING.get(kind, {}) if watching else {}))


@pytest.fixture
def served(loaded: tuple[Workload, Run]) -> Iterator[int]:
    """A server of the run, of NFS over loopback; its port."""
    _, run = loaded
    with exchange("udp") as port:
        options = [f"port={port}", f"mountport={port}"]
        run.context.services.nfs_served.append((f"{LOOPBACK}:/export", options))
        yield port


def plant(
    kind: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int
) -> Callable[[], None]:
    """What this machine's kernel does not count: what is returned counts something more."""
    if kind == "mountstats":
        mount = Mountstats(tmp_path / "mountstats", run.context.places["data"], monkeypatch)
        return lambda: mount.say(11, READ=[1] * 9)
    if kind == "nfsd":
        server = Nfsd(tmp_path / "nfsd", monkeypatch)
        server.say(KERNELS[0], "start")
        return lambda: server.say(KERNELS[0], "end")
    if kind == "capture_server":
        return lambda: converse(port, "udp")
    return lambda: None


@every_collector
def test_the_class_says_what_it_is(kind: str) -> None:
    cls = collector_class(kind)
    assert issubclass(cls, Collector)
    assert not inspect.isabstract(cls)
    assert cls.kind == kind
    assert cls.summary
    assert "\n" not in cls.summary
    answer = cls.available()
    assert isinstance(answer, Availability)
    assert answer.ok or answer.reason
    assert issubclass(cls.Parameters, CollectorParameters)
    assert cls.Parameters().required is False
    with pytest.raises(ValidationError):
        cls.Parameters(no_such_parameter=1)
    dumped = cls.Parameters(required=True).model_dump(mode="json")
    assert cls.Parameters(**json.loads(json.dumps(dumped))) == cls.Parameters(required=True)


@every_collector
def test_it_watches_a_run_and_says_what_that_cost(
    kind: str,
    loaded: tuple[Workload, Run],
    served: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work, run = loaded
    count_more = plant(kind, run, tmp_path, monkeypatch, served)
    collector = make(kind, watching=True)
    assert collector.applies(run.context).ok
    threads = threading.active_count()
    collector.start(run.context)
    outcome = work.measure(run.context)
    count_more()
    evidence = collector.stop()
    transactions = outcome.metrics["transactions"].value
    assert transactions == 60 if work.kind == "pgbench" else transactions > 0
    assert threading.active_count() == threads, "its thread has ended"
    assert evidence.tables
    for name, table in evidence.tables.items():
        assert name.startswith(PREFIXES.get(kind, f"{kind}_"))
        assert table.num_rows > 0, name
        assert str(table.schema.field("t_ns").type) == "int64"
        times = table["t_ns"].to_pylist()
        assert times == sorted(times), name
        # t = 0 is the start of the timed part; watching began before and ended after.
        assert times[-1] > 0 or name in MAY_BE_EARLY
    json.dumps(evidence.summary, allow_nan=False)
    assert evidence.wall_s is not None
    assert evidence.wall_s > 0.01
    assert evidence.cpu_s is not None
    assert 0 < evidence.cpu_s < evidence.wall_s


@every_collector
def test_it_says_what_is_missing(kind: str, root: Path) -> None:
    """A run of another workload: the collector watches it, or says why not."""
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    name = f"other-{uuid.uuid4().hex[:8]}"
    with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as run:
        collector = make(kind)
        answer = collector.applies(run.context)
        assert answer.ok or (answer.reason and answer.fix)


@every_collector
def test_stopping_without_a_start_is_harmless(kind: str) -> None:
    collector = make(kind)
    assert "incomplete" in collector.stop().summary


@every_collector
def test_it_can_be_stopped_after_what_it_watched_is_gone(
    kind: str,
    loaded: tuple[Workload, Run],
    served: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work, run = loaded
    plant(kind, run, tmp_path, monkeypatch, served)
    collector = make(kind, watching=True)
    collector.start(run.context)
    work.finish(run.context)
    evidence = collector.stop()
    json.dumps(evidence.summary, allow_nan=False)
    if kind == "mariadb":
        assert evidence.summary["incomplete"]
        assert evidence.summary["status"] == {}
    if kind == "postgres":
        assert evidence.summary["complete"] is False
        assert evidence.summary["incomplete"]
        assert evidence.summary["deltas"] == {}
