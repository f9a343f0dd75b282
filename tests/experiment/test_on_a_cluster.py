"""`[cluster]`: a run whose client hosts are machines of a cluster, here processes of this one."""

from __future__ import annotations

import resource
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from nfslab.cluster import identity
from nfslab.cluster.loop import Loop
from nfslab.errors import ResultsError, UsageError
from nfslab.experiment import members
from nfslab.experiment.dry_run import dry_run, dry_run_lines
from nfslab.experiment.load_hosts import LoadHosts, asked_hosts
from nfslab.experiment.members import link_to
from nfslab.experiment.preflight import Obstacle, preflight
from nfslab.experiment.reading import read_experiment
from nfslab.experiment.session import Options, run_experiment
from nfslab.mounts.fuse import FuseMount
from nfslab.offered.measuring import measure_point
from nfslab.offered.mixes import read_mix
from nfslab.offered.plans import Load, Mounted, Point
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.cli.serving import serving
from tests.cluster.clusters import Cluster, patient
from tests.experiment.session_support import Told, left_behind, only_folder, records, run
from tests.experiment.spread_support import calls_sent, check, made, require_measured, written
from tests.stopping import stop

if TYPE_CHECKING:
    from nfslab.experiment.plan import PlannedRun

HOSTS = ("load1", "load2")
CLIENT = '[client]\nhost = "local"\nhosts = ["load1", "load2"]\nprocesses = 2\n'


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    patient(monkeypatch)
    made = Cluster(tmp_path)
    for name in (*HOSTS, "other"):
        made.worker(name)
    yield made
    made.close()


def file(tmp_path: Path, section: str, hosts: str = '["load1", "load2"]') -> Path:
    client = f"[cluster]\n{section}\n[client]\nhosts = {hosts}\nprocesses = 2\n"
    return written(tmp_path, (CLIENT, client), hosts='["load1", "load2"]')


def of(cluster: Cluster) -> str:
    return f'scheduler = "{cluster.address}"\ncertificates = "{cluster.folder}"'


def nothing_of_it_is_left(tmp_path: Path) -> bool:
    """Beside the journals of the workers, which go on."""
    return not [one for one in left_behind(tmp_path) if "/journals/" not in one]


def test_what_its_machines_sent_is_what_the_server_counted(
    cluster: Cluster, tmp_path: Path
) -> None:
    record, sealed = made(file(tmp_path, of(cluster)))
    require_measured(record)
    sent = calls_sent(sealed)
    served = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    counted = Counter(served["operation"].to_pylist())
    assert {name: counted[name] for name in sent} == sent
    assert sum(sent.values()) > 300
    assert [(one.name, one.kind) for one in record.client_hosts] == [
        (name, "cluster") for name in HOSTS
    ]
    for one in record.client_hosts:
        assert abs(one.clock.offset_ns) <= one.clock.error_ns, "it is our own clock"
        assert one.clock.error_ns > 0
        assert (sealed / one.folder / "run.json").is_file()
    assert nothing_of_it_is_left(tmp_path)


def test_a_named_machine_serves_and_is_none_of_the_first_ones(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = file(tmp_path, of(cluster), "2")
    path.write_text(path.read_text().replace("[client]", '[server]\nname = "load1"\n[client]'))
    record, sealed = made(path)
    require_measured(record)
    assert [one.name for one in record.client_hosts] == ["load2", "other"]
    assert record.server_host is not None
    assert (record.server_host.name, record.server_host.kind) == ("load1", "cluster")
    served = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    assert calls_sent(sealed) == Counter(served["operation"].to_pylist())
    assert set(served["host"].to_pylist()) == {"load1"}
    assert nothing_of_it_is_left(tmp_path)


@pytest.mark.long
def test_a_number_of_hosts_are_the_first_ones(cluster: Cluster, tmp_path: Path) -> None:
    record, _ = made(file(tmp_path, of(cluster), "1"))
    assert [one.name for one in record.client_hosts] == ["load1"]


@pytest.mark.long
def test_a_machine_that_is_lost_fails_the_run_by_its_name(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nfslab.experiment.spread_run import SpreadExecution

    measure = SpreadExecution.measure

    def killed(execution: SpreadExecution, context: object) -> None:
        cluster.workers["load2"].kill()
        measure(execution, context)  # type: ignore[arg-type]

    monkeypatch.setattr(SpreadExecution, "measure", killed)
    record, _ = made(file(tmp_path, of(cluster)))
    assert record.status == "failed"
    assert "load2" in record.reason
    assert nothing_of_it_is_left(tmp_path)


class Watching(Told):
    """Does something when a run begins, and while hosts are waited for."""

    def __init__(
        self, begins: Callable[[int], object], waits: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__()
        self._begins, self._waits, self.number = begins, waits, 0

    def run_begins(self, run: PlannedRun) -> None:
        self.number += 1
        self._begins(self.number)
        super().run_begins(run)

    def phase(self, name: str) -> None:
        if name.startswith("waiting for hosts"):
            self._waits()
        super().phase(name)


def carried_out(path: Path, view: Watching) -> None:
    run_experiment(Options(file=path, results=path.parent / "results"), view)


def kill(cluster: Cluster, name: str) -> None:
    """Its worker, until the scheduler misses it."""
    worker = cluster.workers.pop(name)
    worker.kill()
    worker.wait()
    loop = Loop()
    while cluster.joined(loop, name):
        pass
    loop.close()


def test_an_experiment_ends_when_a_machine_that_it_needs_stays_away(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "BACK_S", 0.0)
    path = file(tmp_path, of(cluster))
    view = Watching(lambda _number: kill(cluster, "load2"))
    with pytest.raises(ResultsError, match="the experiment ends: 'load2' is no host") as raised:
        carried_out(path, view)
    assert raised.value.exit_code == 1
    assert "0 of 1 runs are kept" in raised.value.what
    assert f"then: nfslab run {path}" in raised.value.fix
    assert (view.number, records(only_folder(path))) == (1, []), "no run was begun in vain"
    assert "which serves, too: load1, load2" in view.text
    assert nothing_of_it_is_left(tmp_path)


@pytest.mark.long
def test_an_experiment_goes_on_with_a_machine_that_came_back(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that died is waited for, and its new worker used; one that hangs is not needed."""
    again: list[str] = []

    def gone(_number: int) -> None:
        kill(cluster, "load2")

    def back() -> None:
        if "load2" not in cluster.workers:
            again.append(cluster.worker("load2")["event"])

    path = file(tmp_path, of(cluster) + "\nmembers = 3")
    stop(cluster.workers["other"].pid)
    carried_out(path, Watching(gone, back))
    (record,) = records(only_folder(path))
    require_measured(record)
    assert again == ["up"]
    assert [one.name for one in record.client_hosts] == list(HOSTS)
    # Gone for good with the second of two runs: what is made is kept, and then gone on with.
    monkeypatch.setattr(members, "BACK_S", 0.0)
    cluster.workers["other"].send_signal(signal.SIGCONT)
    results = tmp_path / "results"
    more = Options(file=path, results=results, repetitions=2, keep_failed=True)
    with pytest.raises(ResultsError, match="1 of 2 runs are kept"):
        run_experiment(more, Watching(gone))
    assert records(only_folder(path)) == [record]
    back()
    run_experiment(more, Told())
    assert [one.block for one in records(only_folder(path))] == [0, 1]
    assert nothing_of_it_is_left(tmp_path)


def test_a_machine_that_is_not_there_is_said_before_anything_runs(
    cluster: Cluster, tmp_path: Path
) -> None:
    path = file(tmp_path, of(cluster), '["load1", "load9"]')
    with pytest.raises(UsageError, match="'load9' is no host of the cluster") as raised:
        run(path)
    assert "nfslab cluster check" in raised.value.fix


def test_more_processes_than_a_machine_has_files_for_are_said_before_anything_runs(
    cluster: Cluster, tmp_path: Path
) -> None:
    worker = cluster.workers["load2"]
    _soft, hard = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)

    def obstacles(files: int) -> list[Obstacle]:
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (files, hard))
        found = preflight(read_experiment(file(tmp_path, of(cluster))).points)
        return [obstacle for obstacle, _ in found.obstacles()]

    # Two take three pipes each, and an agent itself 64 files.
    assert obstacles(70) == []
    (found,) = obstacles(69)
    assert "2 processes are more than the open files of host load2 allow" in found.reason
    assert "client.processes" in found.fix


def test_more_connections_than_ports_are_said_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = tmp_path / "ip_local_port_range"
    ports.write_text("40000 40001\n")
    monkeypatch.setattr(identity, "PORTS", ports)

    def obstacles(processes: int) -> list[Obstacle]:
        path = written(tmp_path, host="local", processes=processes)
        return [found for found, _ in preflight(read_experiment(path).points).obstacles()]

    assert obstacles(2) == []
    (found,) = obstacles(3)
    assert "3 processes are more than the ports of host host1 allow" in found.reason
    assert "they need 3 connections, it has 2 ports" in found.reason
    assert "ip_local_port_range" in found.fix


def test_a_client_host_on_the_machine_that_serves_is_told_before_anything_runs(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its name: machines are told apart by the boot of their kernel."""
    path = file(tmp_path, of(cluster))
    text = path.read_text()
    own = 'store = "memory"\ndelay = "100ms"'
    apart = text.replace("[client]", '[server]\nname = "other"\n[client]')
    for here, asked, where in (
        (True, text, "this machine"),
        (False, text, ""),
        (False, apart, "the machine of other"),
        (True, text.replace(own, 'server = "127.0.0.1:/export"'), ""),
    ):
        path.write_text(asked)
        with monkeypatch.context() as patch:
            if not here:
                patch.setattr(members, "boot_id", lambda: "another")
            notes = preflight(read_experiment(path).points).notes
        told = [one.partition(";")[0] for one in notes]
        assert told == [f"client hosts on {where}, which serves, too: load1, load2"] * bool(where)


def test_the_number_of_client_hosts_is_an_axis(tmp_path: Path) -> None:
    path = written(tmp_path, host="local", hosts=3)
    axis = '[[axes]]\nparameter = "client.hosts"\nvalues = [1, 2]\n'
    path.write_text(path.read_text() + axis)
    experiment = read_experiment(path)
    points = experiment.points
    assert {one.settings["client.hosts"]: one.setup.client.host_names for one in points} == {
        1: ["host1"], 2: ["host1", "host2"],
    }  # fmt: skip
    assert len({one.point_id for one in points}) == 2
    plan = dry_run(experiment, Options(file=path, results=tmp_path / "results"))
    assert sorted(run.point.setup.client.hosts for run in plan.planned) == [1, 2]
    lines = "\n".join(dry_run_lines(plan))
    assert "client hosts: 1 (host1)" in lines
    assert "client hosts: 2 (host1, host2)" in lines


@pytest.mark.parametrize(
    ("section", "hosts", "words"),
    [
        ('hosts = ["localhost"]', '["localhost"]', "'localhost' is this machine, where"),
        ('hosts = ["a@localhost"]', '["a@localhost"]', "'a@localhost' is this machine, where"),
        ('hosts = ["127.0.0.1"]', '["127.0.0.1"]', "'127.0.0.1' is this machine, where"),
        ('hosts = ["a@127.9.0.1"]', '["a@127.9.0.1"]', "'a@127.9.0.1' is this machine, where"),
        ('hosts = ["load1"]', '["load2"]', "'load2' is no host of the cluster"),
        ('hosts = ["load1"]', "2", "2 hosts are asked for, the cluster has 1"),
        ("hosts = []", "1", "no host"),
        ('hosts = ["load1", "load1"]', "1", "load1"),
        ("", "1", "either hosts"),
        ('hosts = ["load1", "a"]\n[server]\nname = "a"', "2", "has 1 beside that of the server"),
        ('hosts = ["load1", "a"]\n[server]\nname = "b"', "1", "'b' is no host of the cluster"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    section: str, hosts: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        read_experiment(file(tmp_path, section, hosts))
    assert "there is no section" not in str(raised.value), "one fault is told once"


def test_client_hosts_of_a_cluster_need_one(tmp_path: Path) -> None:
    path = written(tmp_path, host="cluster", hosts='["load1"]')
    with pytest.raises(UsageError, match=r"there is no section \[cluster\]"):
        read_experiment(path)


@pytest.mark.parametrize(
    ("addresses", "network"),
    [
        (["127.0.0.1"], "127.0.0.1"),
        (["127.0.0.1", "127.0.0.1"], "127.0.0.1"),
        (["127.0.0.2", "127.0.0.3"], "127.0.0.2/31"),
        (["127.0.0.2", "127.0.0.4", "127.0.0.9"], "127.0.0.0/28"),
    ],
)
def test_a_server_lets_in_the_smallest_network_that_has_them_all(
    addresses: list[str], network: str
) -> None:
    assert link_to(addresses).client == network


@pytest.mark.long
def test_phases_of_files_begin_together_on_machines(cluster: Cluster, tmp_path: Path) -> None:
    if not FuseMount.available().ok:
        pytest.skip(FuseMount.available().reason)
    path = file(tmp_path, of(cluster))
    head, _, _ = path.read_text().partition("[workload]")
    workload = '[workload]\nkind = "files"\ndata = "server"\nfile_size = "1M"\nfiles = 1\n'
    path.write_text(head.replace('client = "none"\n', "") + workload + "check_every = 1\n")
    record, sealed = made(path)
    require_measured(record)
    assert check(record, "file_content").verdict == "ok"
    rows = pq.read_table(sealed / "samples" / "phases_by_host.parquet").to_pylist()
    by_phase: dict[str, set[int]] = {}
    for row in rows:
        by_phase.setdefault(row["phase"], set()).add(row["t_ns"])
    assert {len(begins) for begins in by_phase.values()} == {1}
    assert nothing_of_it_is_left(tmp_path)


@pytest.mark.long
def test_a_database_is_loaded_by_machines(cluster: Cluster, tmp_path: Path, scratch: Path) -> None:
    if not PgbenchWorkload.available().ok:
        pytest.skip(PgbenchWorkload.available().reason)
    path = file(tmp_path, of(cluster))
    head, _, rest = path.read_text().partition("[targets.server]")
    client = rest[rest.index("[cluster]") : rest.index("[workload]")]
    target = f'[targets.disk]\nkind = "local"\npath = "{scratch}"\n'
    workload = '[workload]\nkind = "pgbench"\ndata = "disk"\nsocket = "tcp"\nload = "fresh"\n'
    workload += "clients = 3\ntransactions = 20\n"
    head = head.replace('["nfs_server"]', '["postgres", "system"]')
    path.write_text(head + target + client.replace("processes = 2\n", "") + workload)
    record, _ = made(path)
    require_measured(record)
    assert check(record, "tpcb_invariant").values["history_rows"] == 60
    assert [one.operations for one in record.client_hosts] == [40, 20]
    assert list(scratch.iterdir()) == []
    assert nothing_of_it_is_left(tmp_path)


def a_database(path: Path, folder: Path, more: str) -> None:
    """Let the file load a database that is on the machine "other"."""
    head, _, rest = path.read_text().partition("[targets.server]")
    client = rest[rest.index("[cluster]") : rest.index("[workload]")].replace("processes = 2\n", "")
    target = f'[targets.disk]\nkind = "local"\npath = "{folder}"\n[server]\nname = "other"\n'
    workload = '[workload]\nkind = "pgbench"\ndata = "disk"\nsocket = "tcp"\nload = "fresh"\n'
    head = head.replace('["nfs_server"]', '["postgres", "system"]')
    path.write_text(head + target + client + workload + more)


@pytest.mark.long
def test_a_database_is_on_a_machine_of_its_own(
    cluster: Cluster, tmp_path: Path, scratch: Path
) -> None:
    if not PgbenchWorkload.available().ok:
        pytest.skip(PgbenchWorkload.available().reason)
    path = file(tmp_path, of(cluster))
    a_database(path, scratch, "clients = 3\ntransactions = 20\n")
    record, sealed = made(path)
    require_measured(record)
    assert check(record, "tpcb_invariant").values["history_rows"] == 60
    assert record.server_host is not None
    assert (record.server_host.name, record.server_host.kind) == ("other", "cluster")
    seen = pq.read_table(sealed / "evidence" / "postgres_counters.parquet")
    assert set(seen["host"].to_pylist()) == {"other"}
    assert list(scratch.iterdir()) == []
    assert nothing_of_it_is_left(tmp_path)


def test_own_scripts_do_not_go_to_a_server_on_another_machine(
    cluster: Cluster, tmp_path: Path, scratch: Path
) -> None:
    (scratch / "own.sql").write_text("SELECT 1;\n")
    path = file(tmp_path, of(cluster))
    a_database(path, scratch, f'duration = "1s"\nclients = 3\nscripts = ["{scratch}/own.sql"]\n')
    with pytest.raises(UsageError, match="cannot run here") as refused:
        run(path)
    assert "own scripts are read on the server's host" in " ".join(refused.value.lines())


@pytest.mark.long
def test_points_of_the_command_are_made_by_machines(cluster: Cluster) -> None:
    asked = asked_hosts(
        "load2,load1", namespaces=False, scheduler=cluster.address, certificates=cluster.folder
    )
    with serving("--memory") as served, LoadHosts.up(asked, 1) as hosts:
        mounted = Mounted("127.0.0.1:/export", f"port={served.port},mountport={served.port}")
        for rate in (200, 300):
            # A window longer than a busy machine takes its processors away.
            point = Point([mounted], read_mix("laddis"), Load(rate), 0.1, 1.5, files=60)
            report = measure_point(point, None, lambda _: True, hosts.measured)
            assert [one["host"] for one in report["hosts"]] == ["load2", "load1"]
            answered = sum(row["answered"] for row in report["operations"])
            assert sum(one["answered"] for one in report["hosts"]) == answered > 0
