"""`[server]`: the run's servers on a host of their own, their evidence with it."""

from __future__ import annotations

import re
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab.cluster.base import Clocks
from nfslab.cluster.here import MemberHere
from nfslab.cluster.namespaces import NamespacesHere
from nfslab.errors import UsageError
from nfslab.evidence.base import SealedRun
from nfslab.evidence.capture.collector import CaptureCollector
from nfslab.evidence.clocks import on_clock_of
from nfslab.evidence.nfs_server.breakdown import PARTS
from nfslab.evidence.nfs_server.kind import NfsServerEvidence
from nfslab.evidence.wire.joined import PARTS as PARTS_ON_WIRE
from nfslab.evidence.wire.kind import WireEvidence
from nfslab.experiment.reading import read_experiment
from nfslab.experiment.run_hosts import RunHosts
from nfslab.mounts.fuse import FuseMount
from nfslab.results.catalogue import read_part
from nfslab.results.query import ResultsDatabase
from nfslab.results.records import ClockRecord, HostRecord
from nfslab.results.taken_tables import take_table
from nfslab.results.upgrade import stamp_table, table_host

from tests.experiment.session_support import left_behind, only_folder
from tests.experiment.spread_support import (
    SILENT,
    calls_sent,
    clocks_told,
    lose,
    made,
    require_measured,
    written,
)

if TYPE_CHECKING:
    from typing import Any


usable = NamespacesHere.available()
needs_namespaces = pytest.mark.skipif(not usable.ok, reason=usable.reason or "no reason")
SERVER = '[server]\nhost = "namespace"\nname = "filer"\n[workload]\nkind = "sfs"'


def apart(tmp_path: Path, *changes: tuple[str, str], hosts: object = 2) -> Path:
    """The file of spread runs, its server on a host of its own."""
    served = ('[workload]\nkind = "sfs"', SERVER)
    return written(tmp_path, served, *changes, host="namespace", hosts=hosts, processes=1)


@needs_namespaces
def test_what_all_hosts_sent_is_what_the_server_on_its_own_host_counted(tmp_path: Path) -> None:
    path = apart(tmp_path, ('collectors = ["nfs_server"]', 'collectors = ["nfs_server", "system"]'))
    record, sealed = made(path)
    require_measured(record)
    server = record.server_host
    assert server is not None
    assert (server.name, server.kind, server.processes) == ("filer", "namespace", 0)
    assert server.address not in {one.address for one in record.client_hosts}
    assert record.hosts["server"].name == "filer"
    own = read_part(sealed, server.name)
    assert record.places["data"].path == own.places["data"].path, "where it is served"
    assert record.places["data"].durability.level == "volatile"
    sent = calls_sent(sealed)
    served = pq.read_table(sealed / "evidence" / "nfs_server_calls.parquet")
    counted = Counter(served["operation"].to_pylist())
    assert {name: counted[name] for name in sent} == sent, "operation by operation"
    assert sum(sent.values()) > 300
    seen = {text.rpartition(":")[0] for text in served["client"].to_pylist()}
    assert seen == {one.address for one in record.client_hosts}, "as the server saw them"
    assert set(served["host"].to_pylist()) == {"filer"}
    assert {one.collector for one in record.evidence} == {"nfs_server", "system"}
    with ResultsDatabase([only_folder(path).path]) as results:
        for table in ("evidence_nfs_server_calls", "evidence_system_cpu"):
            told = results.ask(f"SELECT DISTINCT host FROM {table}")
            assert told.column(0).to_pylist() == ["filer"], "the machine is one, and seen once"
    assert left_behind(tmp_path) == []


COMMAND = """
kind = "command"
data = "server"
argv = ["sh", "-c", "dd if=/dev/zero of={data}/f bs=64k count=64 conv=fsync; echo done 1"]
[[workload.metrics]]
name = "done"
pattern = 'done ([0-9]+)'
unit = "1/s"
primary = true
"""


@needs_namespaces
@pytest.mark.skipif(not FuseMount.available().ok, reason=FuseMount.available().reason or "FUSE")
def test_two_machines_are_one_run_and_their_calls_are_joined_over_both_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that the clocks are off, each by its own, the join moves what it reads by just that."""
    ahead = {"filer": 60_000_000, "host1": -25_000_000}
    clocks_told(monkeypatch, ahead, error_ns=11)
    path = apart(
        tmp_path,
        ('collectors = ["nfs_server"]', 'collectors = ["rpc", "nfs_server", "system"]'),
        ("[limits]", "[collectors.rpc]\ncalls = true\n[limits]"),
        ('client = "none"\n', ""),
        hosts=1,
    )
    head, _, _ = path.read_text().partition('[workload]\nkind = "sfs"')
    path.write_text(f"{head}[workload]{COMMAND}")
    record, sealed = made(path)
    violated = {one.name for one in record.checks if one.verdict == "violation"}
    assert violated <= {"start_skew"}, record.reason
    assert {side: host.name for side, host in record.hosts.items()} == {
        "client": "host1", "server": "filer",
    }  # fmt: skip
    calls, served = (
        pq.read_table(sealed / "evidence" / f"{name}.parquet")
        for name in ("rpc_calls", "nfs_server_calls")
    )
    assert set(calls["host"].to_pylist()) == {"host1"}
    assert table_host(served.schema.metadata).clock.offset_ns == ahead["filer"]
    facts = NfsServerEvidence().facts(SealedRun(sealed, record))
    assert facts is not None
    assert facts.clock_error_ns == 22
    write = next(row for row in facts.rows if row.operation == "WRITE").summary
    # The same without the product's join: one clock made both tables.
    by_xid = {row["xid"]: row for row in served.to_pylist()}
    ways = [
        by_xid[row["xid"]]["received_ns"] - row["sent_first_ns"]
        for row in calls.to_pylist()
        if row["operation"] == "WRITE" and row["xid"] in by_xid
    ]
    assert len(ways) == write.calls > 0
    way_there = PARTS.index("way there")
    moved_ns = ahead["host1"] - ahead["filer"]
    assert write.mean_ns[way_there] == pytest.approx(np.mean(ways) + moved_ns, abs=1)
    assert left_behind(tmp_path) == []


def captured(tmp_path: Path, hosts: object) -> Path:
    """Both ends of the wire are captured."""
    if not CaptureCollector.available().ok:
        pytest.skip(CaptureCollector.available().reason)
    return apart(
        tmp_path,
        ('collectors = ["nfs_server"]', 'collectors = ["capture", "capture_server"]'),
        ("[limits]", "[collectors.capture]\ncalls = true\n[limits]"),
        hosts=hosts,
    )


@needs_namespaces
@pytest.mark.parametrize("hosts", [1, 2])
def test_no_call_arrives_before_it_was_sent(hosts: int, tmp_path: Path) -> None:
    """One kernel's clock stamps both ends: hundreds of calls have no way below its readings'."""
    record, sealed = made(captured(tmp_path, hosts))
    require_measured(record)
    found = WireEvidence().facts(SealedRun(sealed, record))
    assert found is not None
    assert [host.host for host in found.hosts] == [one.name for one in record.client_hosts]
    for host, one in zip(found.hosts, record.client_hosts, strict=True):
        assert one.operations is not None
        assert one.operations > 10
        # A generator without a processor sends the last ones behind the captures' end.
        assert host.total >= one.operations or record.status == "failed"
        answered = host.total - host.left_out.get("not answered", 0)
        assert host.calls > 0.95 * answered > 10, host.left_out
        assert host.error_ns > 0
        assert host.contradicted_ns == 0
        assert host.rows[0].summary.mean_ns[PARTS_ON_WIRE.index("at the server")] > 99_000_000
        assert 0 < host.rows[0].ways_p50_ns < 50_000_000, "of 100 ms that the server takes"


@needs_namespaces
def test_a_clock_that_is_not_what_it_was_said_to_be_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told that the server's clock is 900 ms ahead: no reply comes back before it is sent."""
    clocks_told(monkeypatch, {"filer": 900_000_000}, error_ns=5)
    record, sealed = made(captured(tmp_path, 1))
    require_measured(record)
    found = WireEvidence().facts(SealedRun(sealed, record))
    assert found is not None
    (host,) = found.hosts
    assert host.contradicted_ns == pytest.approx(900_000_000, abs=60_000_000)


@needs_namespaces
def test_a_clock_that_went_meanwhile_is_less_sure_by_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's clock is said to have gone 3 ms from the first comparison to the second."""
    asked: list[str] = []

    def clocks(member: MemberHere) -> Clocks:
        asked.append(member.name)
        went_ns = 3_000_000 * (member.name == "filer" and asked.count("filer") > 1)
        clock = ClockRecord(offset_ns=-went_ns, error_ns=5)
        return Clocks(clock, clock)

    monkeypatch.setattr(MemberHere, "clocks", clocks)
    record, sealed = made(captured(tmp_path, 1))
    require_measured(record)
    assert record.hosts["server"].clock.error_ns == 3_000_005
    assert record.hosts["client"].clock.error_ns == 5
    found = WireEvidence().facts(SealedRun(sealed, record))
    assert found is not None
    assert found.hosts[0].error_ns > 3_000_000


def test_a_taken_table_is_on_the_clock_of_the_runs_client(tmp_path: Path) -> None:
    """A sample 5 s after a start that the client's clock calls 100 s, and the server's 172 s."""
    there, home = tmp_path / "there.parquet", tmp_path / "home.parquet"
    client = HostRecord(name="load1", clock=ClockRecord(offset_ns=40, error_ns=2))
    server = HostRecord(name="filer", clock=ClockRecord(offset_ns=112, error_ns=3))
    table = pa.table({"t_ns": pa.array([5, -1, 7], pa.int64()), "at_ns": [177, 171, 179]})
    pq.write_table(stamp_table(table), there, row_group_size=2)
    take_table(there, home, server, server.clock.offset_ns - client.clock.offset_ns)
    assert not there.exists()
    taken = pq.read_table(home)
    assert taken["host"].to_pylist() == ["filer"] * 3
    assert pq.ParquetFile(home).num_row_groups == 2, "in pieces"
    seen, error_ns = on_clock_of(client, taken, ("t_ns", "at_ns"))
    assert seen["t_ns"].to_pylist() == [5, -1, 7]
    assert seen["at_ns"].to_pylist() == [105, 99, 107]
    assert error_ns == 5


@needs_namespaces
@pytest.mark.parametrize(
    ("number", "why"),
    [(signal.SIGKILL, "killed by SIGKILL"), (signal.SIGSTOP, SILENT)],
)
def test_a_servers_host_that_is_lost_fails_the_run_by_its_name(
    number: signal.Signals, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = RunHosts.await_all

    def lost(clients: RunHosts, event: str, wait: Any = "busy_s", of: Any = None) -> None:
        if event == "measured" and clients.serving is not None:
            lose(clients.serving, number, monkeypatch)
        waits(clients, event, wait, of)

    monkeypatch.setattr(RunHosts, "await_all", lost)
    record, _ = made(apart(tmp_path, hosts=1))
    assert (record.status, record.failure_phase) == ("failed", "measure")
    assert "server host filer was lost" in record.reason
    assert re.search(why, record.reason)


@needs_namespaces
def test_a_server_that_does_not_come_up_there_is_told_with_its_host(tmp_path: Path) -> None:
    path = apart(tmp_path, ('store = "memory"\n', ""), ("delay", "minimum_free_here = 1\ndelay"))
    with pytest.raises(UsageError, match="minimum_free_here"):
        read_experiment(path)
    path = apart(tmp_path, ('store = "memory"\n', ""))
    path.write_text(path.read_text().replace(str(tmp_path / "places"), "/nonexistent/folder"))
    record, _ = made(path)
    assert record.status == "failed"
    assert record.reason.startswith("server host filer: ")
    assert "/nonexistent/folder" in record.reason


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ('host = "local"\nname = "filer"', "which has a name"),
        ('host = "cluster"', "say which machine of the cluster"),
        ('host = "somewhere"', "is no host"),
        ('host = "namespace"\nname = "host2"', "'host2' is a client host, too"),
        ('host = "cluster"\nname = "load1"', "of a kind that cannot reach it"),
        ('host = "namespace"\nname = "a b"', "cannot name a host"),
    ],
)
def test_what_cannot_be_is_refused_at_once(section: str, words: str, tmp_path: Path) -> None:
    path = apart(tmp_path, ('host = "namespace"\nname = "filer"', section))
    with pytest.raises(UsageError, match=words):
        read_experiment(path)


def test_a_server_elsewhere_needs_client_hosts(tmp_path: Path) -> None:
    path = apart(tmp_path, ("hosts = 2\nprocesses = 1\n", ""))
    with pytest.raises(UsageError, match="there are none"):
        read_experiment(path)
