"""`[cluster]`: a run whose client hosts are machines of a cluster, here processes of this one."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from nfslab.errors import UsageError
from nfslab.experiment.load_hosts import LoadHosts, asked_hosts
from nfslab.experiment.members import link_to
from nfslab.experiment.preflight import Obstacle, preflight
from nfslab.experiment.reading import read_experiment
from nfslab.mounts.fuse import FuseMount
from nfslab.offered.measuring import measure_point
from nfslab.offered.mixes import read_mix
from nfslab.offered.plans import Load, Mounted, Point
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.cli.serving import serving
from tests.cluster.clusters import Cluster, patient
from tests.experiment.session_support import left_behind, run
from tests.experiment.spread_support import calls_sent, check, made, require_measured, written

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


@pytest.mark.parametrize(
    ("section", "hosts", "words"),
    [
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
