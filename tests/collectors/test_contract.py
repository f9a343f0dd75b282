"""What every registered collector has to do: the contract of `nfslab.evidence.collector`."""

from __future__ import annotations

import inspect
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from nfslab.evidence.collector import Collector, CollectorParameters
from nfslab.evidence.registry import COLLECTORS, collector_class
from nfslab.machine.availability import Availability
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
from tests.workloads.run_context import Run, kept_up, run_of, scratch_folder

every_collector = pytest.mark.parametrize("kind", list(COLLECTORS))
Load = PgbenchWorkload | TpcbWorkload


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


def load_for(kind: str) -> Load:
    """Something to watch: PostgreSQL for every collector but those of another engine."""
    if kind == "mariadb":
        return TpcbWorkload(TpcbParameters(data="disk", engine=kind, duration=1, clients=2))
    return PgbenchWorkload(PgbenchParameters(data="disk", transactions=30, clients=2))


@contextmanager
def prepared(work: Load, root: Path) -> Iterator[Run]:
    name = f"watched-{uuid.uuid4().hex[:8]}"
    with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as run:
        work.prepare(run.context)
        yield run


@pytest.fixture(scope="module")
def postgres(root: Path) -> Iterator[PgbenchWorkload]:
    """One server for all who watch it."""
    work = load_for("postgres")
    assert isinstance(work, PgbenchWorkload)
    if not work.check().ok:
        pytest.skip(work.check().reason)
    with prepared(work, root) as run, kept_up(work.database, run.context):
        yield work


@contextmanager
def loaded(kind: str, root: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Load, Run]]:
    """A run whose database is up."""
    work = load_for(kind)
    if not work.check().ok:
        pytest.skip(work.check().reason)
    if kind != "mariadb":
        work.__dict__["database"] = request.getfixturevalue("postgres").database
    with prepared(work, root) as run:
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


@contextmanager
def plant(
    kind: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], None]]:
    """What this machine's kernel does not count: what is yielded counts something more."""
    if kind == "mountstats":
        mount = Mountstats(tmp_path / "mountstats", run.context.places["data"], monkeypatch)
        yield lambda: mount.say(11, READ=[1] * 9)
    elif kind == "nfsd":
        server = Nfsd(tmp_path / "nfsd", monkeypatch)
        server.say(KERNELS[0], "start")
        yield lambda: server.say(KERNELS[0], "end")
    elif kind == "capture_server":
        with exchange("udp") as port:
            options = [f"port={port}", f"mountport={port}"]
            run.context.services.nfs_served.append((f"{LOOPBACK}:/export", options))
            yield lambda: converse(port, "udp")
    else:
        yield lambda: None


@every_collector
def test_the_class_says_what_it_is(kind: str) -> None:
    cls = collector_class(kind)
    assert issubclass(cls, Collector)
    assert not inspect.isabstract(cls)
    assert cls.kind == kind
    assert cls.summary
    assert "\n" not in cls.summary
    assert issubclass(cls.Parameters, CollectorParameters)
    assert cls.Parameters().required is False
    with pytest.raises(ValidationError):
        cls.Parameters(no_such_parameter=1)
    dumped = cls.Parameters(required=True).model_dump(mode="json")
    assert cls.Parameters(**json.loads(json.dumps(dumped))) == cls.Parameters(required=True)
    assert "incomplete" in make(kind).stop().summary, "without a start that is harmless"


@pytest.mark.system
@every_collector
def test_it_says_what_is_missing(kind: str, root: Path) -> None:
    """A run of another workload: the collector watches it, or says why not."""
    usable = collector_class(kind).available()
    assert isinstance(usable, Availability)
    assert usable.ok or usable.reason
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    name = f"other-{uuid.uuid4().hex[:8]}"
    with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as run:
        answer = make(kind).applies(run.context)
        assert answer.ok or (answer.reason and answer.fix)


@pytest.mark.system
@every_collector
def test_it_watches_a_run_and_says_what_that_cost(
    kind: str,
    root: Path,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector = make(kind, watching=True)
    with (
        loaded(kind, root, request) as (work, run),
        plant(kind, run, tmp_path, monkeypatch) as count_more,
    ):
        assert collector.applies(run.context).ok
        threads = threading.active_count()
        collector.start(run.context)
        outcome = work.measure(run.context)
        count_more()
        evidence = collector.stop()
        assert threading.active_count() == threads, "its thread has ended"
    transactions = outcome.metrics["transactions"].value
    assert transactions == 60 if work.kind == "pgbench" else transactions > 0
    if evidence.summary.get("way") == "views":
        pytest.skip(f"{kind}: this user may look at the server's own counters alone, not at calls")
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
    assert evidence.wall_s > 0
    assert evidence.cpu_s is not None
    assert evidence.cpu_s > 0


@pytest.mark.system
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_server_that_is_gone_leaves_incomplete_evidence(kind: str, root: Path) -> None:
    work = load_for(kind)
    if not work.check().ok:
        pytest.skip(work.check().reason)
    with prepared(work, root) as run:
        collector = make(kind, watching=True)
        collector.start(run.context)
        work.finish(run.context)
        summary = collector.stop().summary
    json.dumps(summary, allow_nan=False)
    assert summary["incomplete"]
    assert summary["status" if kind == "mariadb" else "deltas"] == {}
    assert kind == "mariadb" or summary["complete"] is False
