"""`[cluster]`: a run whose client hosts are machines of a cluster, here processes of this one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from nfslab.errors import UsageError
from nfslab.experiment.members import link_to
from nfslab.experiment.reading import read_experiment
from nfslab.results.records import RunRecord

from tests.cluster.clusters import Cluster
from tests.experiment.session_support import left_behind, only_folder, records, run
from tests.experiment.spread_support import require_measured, written

HOSTS = ("load1", "load2")
CLIENT = '[client]\nhost = "local"\nhosts = ["load1", "load2"]\nprocesses = 2\n'


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
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


def made(path: Path) -> tuple[RunRecord, Path]:
    run(path)
    folder = only_folder(path)
    (record,) = records(folder)
    return record, folder.runs_path / record.run_id


def nothing_of_it_is_left(tmp_path: Path) -> bool:
    """Beside the journals of the workers, which go on."""
    return not [one for one in left_behind(tmp_path) if "/journals/" not in one]


def test_what_its_machines_sent_is_what_the_server_counted(
    cluster: Cluster, tmp_path: Path
) -> None:
    record, sealed = made(file(tmp_path, of(cluster)))
    require_measured(record)
    rows = pq.read_table(sealed / "samples" / "operations.parquet").to_pylist()
    sent = {row["operation"]: row["calls"] for row in rows if row["calls"]}
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
    rows = pq.read_table(sealed / "samples" / "operations.parquet").to_pylist()
    served = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    counted = Counter(served["operation"].to_pylist())
    assert {row["operation"]: row["calls"] for row in rows if row["calls"]} == counted
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
    with pytest.raises(UsageError, match="'load9' is no host of the cluster"):
        run(path)


@pytest.mark.parametrize(
    ("section", "hosts", "words"),
    [
        ('hosts = ["load1"]', '["load2"]', "'load2' is no host of the cluster"),
        ('hosts = ["load1"]', "2", "2 hosts are asked for, the cluster has 1"),
        ("hosts = []", "1", "no host"),
        ('hosts = ["load1", "load1"]', "1", "load1"),
        ("", "1", "either hosts"),
        ('hosts = ["load1", "a"]\n[server]\nname = "a"', "2", "2 hosts are asked for"),
        ('hosts = ["load1", "a"]\n[server]\nname = "b"', "1", "'b' is no host of the cluster"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    section: str, hosts: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=words):
        read_experiment(file(tmp_path, section, hosts))


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
