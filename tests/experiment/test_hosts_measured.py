"""Real runs of real agents: what all hosts did is what the server counted, for each workload."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from nfslab.evidence.base import SealedRun
from nfslab.evidence.capture.collector import CaptureCollector
from nfslab.evidence.wire.kind import WireEvidence
from nfslab.experiment import multi_host_run
from nfslab.experiment.run_hosts import told_by_agent
from nfslab.hosts.namespace import NamespaceHost
from nfslab.machine.resources import recover
from nfslab.machine.undo import LINK_TOKEN_DIGITS, NETWORK_NAMESPACES
from nfslab.mounts.fuse import FuseMount
from nfslab.results.query import ResultsDatabase
from nfslab.workloads.pgbench.workload import PgbenchWorkload
from nfslab.workloads.web import hosts
from nfslab.workloads.web.servers.nginx import NginxServing

from tests.cluster.clusters import Cluster
from tests.experiment.multi_host_support import calls_sent, check, made, written
from tests.experiment.session_support import (
    journal_tokens,
    left_behind,
    none_left_running,
    only_folder,
    processes_of_state,
)
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.results.records import RunRecord

LAUNCHER = Path(__file__).with_name("launcher.py")
BLOCK = 4096
SIZE = 1 << 20
APART = '[server]\nhost = "namespace"\nname = "filer"\n'


def needs(*usable: Any) -> pytest.MarkDecorator:
    missing = [one.reason for one in (one.available() for one in usable) if not one.ok]
    return pytest.mark.skipif(bool(missing), reason="; ".join(missing) or "usable")


def with_workload(path: Path, workload: str, target: str = "", collectors: str = "") -> Path:
    """The same file with another workload, and its server's target and collectors."""
    text = path.read_text()
    head, _, rest = text.partition("[targets.server]")
    client = rest[rest.index("[client]") : rest.index("[workload]")]
    if target:
        client = client.replace("processes = 1\n", "")
    else:
        target = "[targets.server]" + rest[: rest.index("[client]")]
    head = head.replace('["nfs_server"]', collectors or '["nfs_server"]')
    path.write_text(f"{head}{target}\n{client}[workload]\n{workload}")
    return path


def require_counts(record: RunRecord, sealed: Path) -> None:
    """Operation by operation, and host by host, by who they told nothing of each other."""
    sent = calls_sent(sealed)
    served = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    counted = Counter(served["operation"].to_pylist())
    assert {name: counted[name] for name in sent} == sent
    assert sum(sent.values()) > 50
    by_host = {
        one.name: sum(
            row["measured"]
            for file in (sealed / one.folder / "parts").iterdir()
            for row in json.loads(json.loads(file.read_bytes())["sums"])["measured"]["operations"]
        )
        for one in record.client_hosts
    }
    assert {one.name: one.operations for one in record.client_hosts} == by_host
    assert sum(one.share or 0 for one in record.client_hosts) == pytest.approx(1)


@pytest.mark.long
@pytest.mark.system
def test_calls_of_agents_on_this_machine(tmp_path: Path) -> None:
    record, sealed = made(written(tmp_path))
    require_counts(record, sealed)
    assert [(one.name, one.processes) for one in record.client_hosts] == [
        ("host1", 2),
        ("host2", 2),
    ]
    point = json.loads((sealed / "logs" / "sfs.json").read_text())
    assert len({one["pid"] for one in point["processes"]}) == 4
    assert point["little"]["residual_ns"] == 0
    assert record.places["data"].durability.level == "volatile", "as the server is"
    for one in record.client_hosts:
        assert (one.clock.offset_ns, one.drift_ppm) == (0, 0), "they are our own clocks"
        assert one.skew_ns is not None
        assert one.skew_ns >= 0, "none begins before its time"
        assert (sealed / one.folder / "provenance.json").stat().st_size > 10
    assert left_behind(tmp_path) == []


@pytest.mark.system
@needs(FuseMount)
@pytest.mark.long
def test_blocks_of_one_file_that_hosts_share(tmp_path: Path) -> None:
    path = written(tmp_path, ('client = "none"\n', ""), ('"20ms"', '"0ms"'))
    workload = """kind = "files"
data = "server"
file_size = "1M"
block = 4096
check_every = 1
files = 1
direct = true
phases = "block_write,rewrite,block_read"
"""
    record, sealed = made(with_workload(path, workload))
    calls = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet").to_pylist()
    moved = Counter[str]()
    for call in calls:
        # A header of less than a block stands before whole blocks.
        moved[call["operation"]] += max(call["call_bytes"], call["reply_bytes"]) // BLOCK * BLOCK
    assert (moved["WRITE"], moved["READ"]) == (2 * SIZE, 2 * SIZE), "blocks of all, each once"
    rows = pq.read_table(sealed / "samples" / "phases.parquet").to_pylist()
    assert [(row["bytes"], row["operations"]) for row in rows] == [(SIZE, SIZE // BLOCK)] * 3
    during = sum(
        call["call_bytes"] // BLOCK * BLOCK
        for call in calls
        if call["operation"] == "WRITE" and 0 <= call["t_ns"] <= rows[0]["wall_ns"]
    )
    assert during == SIZE, "what the server saw lies on the axis of the phases"
    assert check(record, "file_content").values == {"checked_blocks": 2 * SIZE // BLOCK}
    parts = [
        json.loads(file.read_bytes())
        for one in record.client_hosts
        for file in sorted((sealed / one.folder / "parts").iterdir())
    ]
    assert [one["index"] for one in parts] == [0, 1, 2, 3]
    assert len({tuple(one["common_ns"]) for one in parts}) == 1, "one instant for all"
    for number, row in enumerate(rows):
        of = [one["result"]["phases"][number] for one in parts]
        assert row["wall_ns"] == max(one["wall_ns"] for one in of)
        assert row["cpu_ns"] == sum(one["cpu_ns"] for one in of)
        assert row["t_ns"] == parts[0]["common_ns"][number] - parts[0]["common_ns"][0]
    by_host = pq.read_table(sealed / "samples" / "phases_by_host.parquet").to_pylist()
    assert {(row["host"], row["bytes"]) for row in by_host} == {
        (one.name, SIZE // 2) for one in record.client_hosts
    }
    assert [one.share for one in record.client_hosts] == [0.5, 0.5]
    assert left_behind(tmp_path) == []


@pytest.mark.system
@needs(PgbenchWorkload)
@pytest.mark.long
def test_transactions_that_the_database_has(
    scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(
        multi_host_run,
        "told_by_agent",
        lambda *asked: told.append(told_by_agent(*asked)) or told[-1],
    )
    workload = """kind = "pgbench"
data = "disk"
socket = "tcp"
load = "fresh"
clients = 3
threads = 2
transactions = 40
"""
    target = f'[targets.disk]\nkind = "local"\npath = "{scratch}"'
    path = written(tmp_path, processes=1)
    record, sealed = made(with_workload(path, workload, target, '["postgres"]'))
    invariant = check(record, "tpcb_invariant")
    assert (invariant.verdict, invariant.values["history_rows"]) == ("ok", 120), "by the server"
    assert record.metrics["transactions"].value == 120
    assert check(record, "pgbench_log").verdict == "ok"
    rows = pq.read_table(sealed / "samples" / "transactions.parquet").to_pylist()
    assert Counter((row["host"], row["client"]) for row in rows) == {
        ("host1", 0): 40, ("host1", 1): 40, ("host2", 2): 40,
    }  # fmt: skip
    times = [row["t_ns"] for row in rows]
    assert times == sorted(times)
    assert min(row["t_ns"] - row["latency_ns"] for row in rows) == 0, "from the first one's start"
    latencies = sorted(row["latency_ns"] for row in rows)
    assert record.metrics["latency_p50_ms"].value == latencies[59] / 1e6, "rank 60 of 120"
    assert record.metrics["latency_max_ms"].value == latencies[-1] / 1e6
    span_s = record.metrics["measured_s"].value
    assert record.metrics["tps"].value == pytest.approx(120 / span_s, rel=1e-9)
    assert record.metrics["server_cpu_s_per_transaction"].value > 0
    assert [one.operations for one in record.client_hosts] == [80, 40]
    assert [one.planned_share for one in record.client_hosts] == [2 / 3, 1 / 3]
    seeds = set()
    for one in record.client_hosts:
        part = json.loads((sealed / one.folder / "run.json").read_text())
        seed = re.search(r"--random-seed (\d+)", " ".join(part["commands"][-1]))
        assert seed is not None
        seeds.add(seed[1])
        assert part["places"] == {}, "the database is the prime's"
    assert len(seeds) == 2, "or all would change the same rows"
    assert {one.collector: one.status for one in record.evidence} == {"postgres": "ok"}
    secret = told[0]["password"].encode()
    assert len(secret) > 20
    kept = [one for one in (tmp_path / "results").rglob("*") if one.is_file()]
    assert [one for one in kept if secret in one.read_bytes()] == []
    assert none_left_running(tmp_path / "state")
    assert list(scratch.iterdir()) == []
    assert left_behind(tmp_path) == []


WEB = """kind = "web"
data = "disk"
directories = 2
warm_up = "0.2s"
mix = {{static_get = 0.5, dynamic_get = 0.1, cgi_get = 0.1, ad_get = 0.1, post = 0.2}}
load = "closed"
connections = 7
duration = "0.5s"
server = "{server}"
access_log = true
"""


@pytest.mark.system
@pytest.mark.long
def test_requests_that_the_web_server_counted(scratch: Path, tmp_path: Path) -> None:
    path = written(tmp_path)
    target = f'[targets.disk]\nkind = "local"\npath = "{scratch}"'
    record, sealed = made(with_workload(path, WEB.format(server="embedded"), target, "[]"))
    require_requests(record, sealed)
    assert none_left_running(tmp_path / "state")
    assert left_behind(tmp_path) == []


def require_requests(record: RunRecord, sealed: Path, counters: str = "logs") -> None:
    whole = json.loads((sealed / "logs" / hosts.REPORT).read_bytes())
    own = [
        json.loads(file.read_bytes())
        for one in record.client_hosts
        for file in sorted((sealed / one.folder / "logs").glob("load-*-report.json"))
    ]
    assert len(own) == 4
    assert whole["requests"]["done"] == sum(one["requests"]["done"] for one in own) > 0
    assert whole["requests"]["failed"] == 0
    unfinished = whole["requests"]["unfinished"]
    assert unfinished <= 7, "one a connection"
    counted = json.loads((sealed / counters / "server-counters.json").read_text())
    for kind in whole["kinds"][1:]:
        assert kind["done"] <= counted[kind["kind"]]
    posts = check(record, "posts")
    assert posts.verdict == "ok"
    assert posts.values["lines"] == counted["posts_written"]
    assert 0 <= counted["post"] - posts.values["acknowledged"] <= unfinished
    series = pq.read_table(sealed / "samples" / "series.parquet")
    assert sum(series["operations"].to_pylist()) == sum(whole["series"]["done"])
    # 7 connections of four processes: 2, 2, 2 and 1.
    assert [one.planned_share for one in record.client_hosts] == [4 / 7, 3 / 7]
    assert sum(one.operations or 0 for one in record.client_hosts) == whole["requests"]["done"]
    assert len({writer["writer"] for writer in whole["posts"]}) == 4


@pytest.mark.long
@needs(NamespaceHost, CaptureCollector)
def test_a_server_on_a_network_of_its_own_and_both_ends_of_the_wire(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        ('["nfs_server"]', '["nfs_server", "system", "capture", "capture_server"]'),
        ("[limits]", "[collectors.capture]\ncalls = true\n[limits]"),
        ("[workload]", f"{APART}[workload]"),
        host="namespace",
        processes=1,
    )
    record, sealed = made(path)
    require_counts(record, sealed)
    server = record.server_host
    assert server is not None
    assert (server.name, server.kind, server.processes) == ("filer", "namespace", 0)
    served = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    seen = {text.rpartition(":")[0] for text in served["client"].to_pylist()}
    assert seen == {one.address for one in record.client_hosts}, "as the server saw them"
    assert server.address not in seen
    with ResultsDatabase([only_folder(path).path]) as results:
        for table in ("evidence_nfs_server_calls", "evidence_system_cpu"):
            told = results.ask(f"SELECT DISTINCT host FROM {table}")
            assert told.column(0).to_pylist() == ["filer"], "the machine is one, and seen once"
    found = WireEvidence().facts(SealedRun(sealed, record))
    assert found is not None
    assert [one.host for one in found.hosts] == [one.name for one in record.client_hosts]
    for host in found.hosts:
        assert host.calls > 0
        assert host.contradicted_ns == 0, "no call arrives before it was sent"
    assert left_behind(tmp_path) == []


@pytest.mark.long
@needs(NamespaceHost, PgbenchWorkload)
def test_a_database_on_a_host_of_its_own(scratch: Path, tmp_path: Path) -> None:
    workload = """kind = "pgbench"
data = "disk"
socket = "tcp"
load = "fresh"
clients = 3
transactions = 40
"""
    target = f'[targets.disk]\nkind = "local"\npath = "{scratch}"\n{APART}'
    path = written(tmp_path, host="namespace", processes=1)
    record, sealed = made(with_workload(path, workload, target, '["postgres", "system"]'))
    assert check(record, "tpcb_invariant").values["history_rows"] == 120, "by the server there"
    assert record.metrics["server_cpu_s_per_transaction"].value > 0
    tables = [table for one in record.evidence for table in one.tables]
    assert len(tables) > 3
    for table in tables:
        assert set(pq.read_table(sealed / table)["host"].to_pylist()) <= {"filer"}, table
    assert any(note.startswith("filer: PostgreSQL ") for note in record.notes)
    assert record.places["data"].facts["postgresql"]["settings"]["fsync"] == "on"
    assert none_left_running(tmp_path / "state")
    assert list(scratch.iterdir()) == []


@pytest.mark.long
@needs(NamespaceHost, NginxServing)
def test_a_web_server_on_a_host_of_its_own(scratch: Path, tmp_path: Path) -> None:
    target = f'[targets.disk]\nkind = "local"\npath = "{scratch}"\n{APART}'
    path = written(tmp_path, host="namespace")
    record, sealed = made(with_workload(path, WEB.format(server="nginx"), target, '["system"]'))
    assert record.server_host is not None
    require_requests(record, sealed, f"{record.server_host.folder}/logs")
    assert left_behind(tmp_path) == []


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    for name in ("load1", "load2", "other"):
        made.worker(name)
    yield made
    made.close()


@pytest.mark.long
def test_machines_of_a_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Two of its three make the load, the third one serves; they are told by their names."""
    section = f'scheduler = "{cluster.address}"\ncertificates = "{cluster.folder}"'
    path = written(
        tmp_path,
        ('[client]\nhost = "local"\n', f"[cluster]\n{section}\n[client]\n"),
        ("[workload]", '[server]\nname = "load1"\n[workload]'),
    )
    record, sealed = made(path)
    wrong = {one.name for one in record.checks if one.verdict == "violation"}
    assert wrong <= {"offered_load", "start_skew"}, record.reason  # of a machine that is busy
    assert [(one.name, one.kind) for one in record.client_hosts] == [
        ("load2", "cluster"), ("other", "cluster"),
    ]  # fmt: skip
    require_counts(record, sealed)
    assert record.server_host is not None
    assert (record.server_host.name, record.server_host.kind) == ("load1", "cluster")
    for one in record.client_hosts:
        assert abs(one.clock.offset_ns) <= one.clock.error_ns, "it is our own clock"
        assert one.clock.error_ns > 0
    # Beside the journals of the workers, which go on.
    assert [one for one in left_behind(tmp_path) if "/journals/" not in one] == []


@pytest.mark.long
@needs(NamespaceHost)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_no_agent_and_no_host(
    number: signal.Signals, tmp_path: Path
) -> None:
    path = written(tmp_path, ('duration = "1s"', 'duration = "600s"'), host="namespace")
    state = tmp_path / "state"
    command = [sys.executable, str(LAUNCHER), "run", str(path), "--results"]

    def of(module: str) -> list[int]:
        pids = processes_of_state(state)
        return [pid for pid in pids if module in words_of(pid)]

    with subprocess.Popen(
        [*command, str(tmp_path / "results")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"NFSLAB_STATE": str(state), "NFSLAB_TURN": ""},
    ) as process:
        until(lambda: len(of("nfslab.offered.part")) == 4)
        folders = [Path(os.readlink(f"/proc/{pid}/cwd")) for pid in of("experiment.in_part")]
        tokens = journal_tokens(tmp_path)
        process.send_signal(number)
        assert process.wait() == (130 if number == signal.SIGINT else -signal.SIGKILL)
        until(lambda: not of("experiment.in_part") and not of("nfslab.offered.part"))
    assert len(folders) == 3, "the server's is one, too"
    assert not any(folder.exists() for folder in folders)
    if number == signal.SIGKILL:
        recover()
        shutil.rmtree(only_folder(path).path)  # the next call would remove what is half written
    assert none_left_running(state)
    assert left_behind(tmp_path) == []
    networks = [*NETWORK_NAMESPACES.glob("*"), *Path("/sys/class/net").iterdir()]
    assert tokens
    left = [one for one in networks for token in tokens if token[:LINK_TOKEN_DIGITS] in one.name]
    assert left == []


def words_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:  # it has ended meanwhile
        return ""
