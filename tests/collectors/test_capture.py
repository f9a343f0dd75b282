"""The collector `capture`: what it captures, what it decodes, what it says of losses and cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from nfslab import clock
from nfslab.captures import tool as tools
from nfslab.captures.places import (
    Server,
    filter_for,
    interface_for,
    is_local,
    nfs_server,
    server_of,
)
from nfslab.captures.taken import all_taken
from nfslab.captures.tool import Counts, Tool, Wanted
from nfslab.errors import RunFailed
from nfslab.evidence.capture.collector import CaptureCollector, CaptureCollectorParameters
from nfslab.evidence.capture.stored import stored_analysis
from nfslab.results.store import checked_name
from nfslab.workloads.command import CommandParameters, CommandWorkload

from tests.collectors.loopback_nfs import CALLS, converse, converse_at_once, exchange
from tests.stopping import stop
from tests.waiting import until
from tests.workloads.run_context import Run, run_of, scratch_folder


def need(name: str = "auto") -> None:
    answer = tools.available(name)  # type: ignore[arg-type]
    if not answer.ok:
        pytest.skip(f"{answer.reason}: {answer.fix}")


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with scratch_folder() as folder:
        yield folder


@pytest.fixture
def run(root: Path) -> Iterator[Run]:
    name = f"captured-{uuid.uuid4().hex[:8]}"
    work = CommandWorkload(CommandParameters(data="disk", argv=["true"]))
    with run_of(work, root, name=name, places={"data": root / f"{name}-data"}) as made:
        (made.context.folder / "evidence").mkdir()
        yield made


def watched(run: Run, transport: str, *, at_once: bool = False, **parameters: Any) -> Any:
    """Evidence of one conversation."""
    with exchange(transport) as port:
        given = {"interface": "lo", "filter": f"{transport} port {port}"} | parameters
        collector = CaptureCollector(CaptureCollectorParameters(**given))
        assert collector.applies(run.context).ok
        collector.start(run.context)
        run.context.timed.start_ns = clock.monotonic_ns()
        converse_at_once(port) if at_once else converse(port, transport)
        run.context.timed.end_ns = clock.monotonic_ns()
        return collector.stop()


@pytest.mark.system
@pytest.mark.parametrize(("name", "transport"), [("tcpdump", "udp"), ("dumpcap", "tcp")])
def test_every_call_is_there_from_the_first_to_the_last(
    name: str, transport: str, run: Run, root: Path
) -> None:
    """Packets are kept only when it is asked for; a report reads the analysis of the folder."""
    need(name)
    keep = str(root / f"kept-{name}") if name == "dumpcap" else False
    evidence = watched(run, transport, tool=name, calls=True, keep=keep)
    summary = evidence.summary
    assert summary["notes"] == []
    assert summary["kernel_dropped_packets"] == 0
    assert summary["operations"]["NFSv3 GETATTR"]["calls"] == CALLS
    assert (summary["calls"], summary["unanswered"]) == (CALLS, 0)
    assert summary["captured_packets"] >= 2 * CALLS, "each call, each reply, once"
    json.dumps(summary, allow_nan=False)
    # t = 0 is the start of the timed part: all calls lie in it, on another clock than ours.
    calls = evidence.tables["capture_calls"]
    assert calls.num_rows == CALLS
    end_ns = run.context.timed.end_ns - run.context.timed.start_ns
    times = calls["t_ns"].to_pylist()
    # A capture may have whole microseconds only.
    off_ns = summary["clock"]["error_ns"] + abs(summary["clock"]["moved_ns"]) + 1000
    assert -off_ns <= times[0] <= times[-1] <= end_ns + off_ns
    assert sum(evidence.tables["capture_rpc"]["sent_calls_per_s"].to_pylist()) > 0
    operations = evidence.tables["capture_operations"].to_pylist()
    assert {row["operation"] for row in operations} == {"NFSv3 GETATTR"}
    assert evidence.cpu_s > 0
    cost = summary["cost"]
    assert evidence.cpu_s == pytest.approx(cost["tool_cpu_s"] + cost["decoder_cpu_s"])
    folder = run.context.folder
    assert not list((folder / "evidence").iterdir()), "no packets are kept with the run"
    assert bool(summary["kept"]) is bool(keep)
    if keep:
        (kept,) = Path(keep).iterdir()
        assert kept.name.startswith(folder.name)
        assert kept.stat().st_size > CALLS * 2 * 100
    for table_name, table in evidence.tables.items():
        checked_name(table_name, "table")
        pq.write_table(table, folder / "evidence" / f"{table_name}.parquet")
    stored = stored_analysis(folder, "run 1")
    assert stored is not None
    assert (stored.label, stored.calls) == ("run 1", CALLS)
    assert sum(stored.column("rpcstat/sent_calls")) == CALLS
    assert "points" in stored.content
    assert stored_analysis(folder / "logs", "none") is None


@pytest.mark.system
@pytest.mark.parametrize("snaplen", [None, 512])
def test_calls_that_lie_in_one_packet_are_all_there_or_it_is_said(
    snaplen: int | None, run: Run
) -> None:
    need()
    evidence = watched(run, "tcp", at_once=True, **({"snaplen": snaplen} if snaplen else {}))
    calls = sum(one["calls"] for one in evidence.summary["operations"].values())
    if snaplen is None:
        assert (calls, evidence.incomplete, evidence.summary["notes"]) == (CALLS, "", [])
    else:
        assert calls < CALLS
        assert "512 bytes were taken of each packet" in evidence.incomplete


@pytest.mark.system
@pytest.mark.long
def test_a_tool_that_cannot_run_is_not_taken_for_a_silent_one(run: Run) -> None:
    """dumpcap tells nothing: it has taken all when it sleeps and nothing comes out of it."""
    tool = Tool("dumpcap")
    process = run.context.client_host.spawn(["sleep", "1000"], resources=run.context.resources)

    def taken(limit_s: float) -> bool:
        return all_taken(tool, process, said=str, written=int, limit_s=limit_s)

    try:
        until(lambda: taken(tool.hand_over_s))
        stop(process.pid)
        assert not taken(2 * tool.hand_over_s)
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.stop()


@pytest.mark.system
def test_what_the_tool_refuses_is_told_in_its_words(run: Run) -> None:
    need()
    given = {"interface": "lo", "filter": "port nonsense"}
    collector = CaptureCollector(CaptureCollectorParameters(**given))
    with pytest.raises(RunFailed, match="ended instead of capturing") as failed:
        collector.start(run.context)
    assert "nonsense" in failed.value.why
    collector.stop()


@pytest.mark.system
def test_a_tool_that_dies_is_told(run: Run) -> None:
    need()
    with exchange("udp") as port:
        given = {"interface": "lo", "filter": f"udp port {port}"}
        collector = CaptureCollector(CaptureCollectorParameters(**given))
        collector.start(run.context)
        converse(port, "udp", 10)
        assert collector._watch is not None
        process = collector._watch._process
        assert process is not None
        os.kill(process.pid, 9)
        process.wait()
        evidence = collector.stop()
    assert any("ended by itself" in note for note in evidence.summary["notes"])
    assert any("did not say how many" in note for note in evidence.summary["notes"])


@pytest.mark.system
def test_without_nfs_it_does_not_apply(run: Run) -> None:
    need()
    answer = CaptureCollector(CaptureCollectorParameters()).applies(run.context)
    assert not answer.ok
    assert "no place of this run is on NFS" in answer.reason
    place = run.context.places["data"]
    mounted = replace(place, filesystem="nfs4", source="nas:/x", mount_options="rw,addr=127.0.0.1")
    run.context.places["data"] = mounted
    assert CaptureCollector(CaptureCollectorParameters()).applies(run.context).ok


@pytest.mark.system
def test_the_filter_follows_from_the_mounts() -> None:
    assert nfs_server("ext4", "/dev/sda1", "rw") is None
    assert nfs_server("nfs", "nas:/export/x", "rw,vers=3,addr=192.0.2.7") == "192.0.2.7"
    assert nfs_server("nfs4", "[2001:db8::1]:/", "rw") == "2001:db8::1"
    servers = [Server("192.0.2.7"), Server("2001:db8::1")]
    assert filter_for(servers) == "host 192.0.2.7 or host 2001:db8::1"
    assert "port 2049" in filter_for([])
    # Of our own client all ports are known, and this machine may have other servers.
    ours = {"port": "700", "mountport": "701"}
    ours_at = server_of("fuse.nfslab", "127.0.0.1:/e", "rw", ours)
    assert ours_at == Server("127.0.0.1", (700, 701))
    assert filter_for([ours_at]).startswith("(host 127.0.0.1 and (port 700 or port 701 or (ip[6:2]")
    assert server_of("fuse.nfslab", "a:/e", "rw", ours | {"mountport": "0"}) == Server("a")
    assert server_of("nfs4", "a:/e", "rw,addr=192.0.2.7,port=700", ours) == Server("192.0.2.7")
    assert server_of("ext4", "/dev/sda1", "rw", {}) is None
    assert is_local("127.0.0.1")
    assert is_local("::1")
    assert interface_for(["127.0.0.1"]) == "lo"
    assert interface_for(["192.0.2.7"]) == "any"
    assert interface_for([]) == "any"


@pytest.mark.system
def test_the_default_filters_are_understood() -> None:
    """tcpdump compiles them (-d prints the program and captures nothing)."""
    need("tcpdump")
    for servers in ([], [Server("192.0.2.7")], [Server("::1", (700,))]):
        for interface in ("lo", "any"):
            wanted = Wanted(interface, filter_for(servers), 512, 1 << 20)
            argv = ["tcpdump", "-d", "-i", interface, wanted.filter]
            done = subprocess.run(argv, capture_output=True, check=False)
            assert done.returncode == 0, done.stderr


def test_what_the_tools_say_at_their_end_is_read() -> None:
    # Printed by tcpdump 4.99.3 and dumpcap 4.0.17.
    said = (
        "tcpdump: listening on lo, link-type EN10MB (Ethernet), snapshot length 512 bytes\n"
        "1200 packets captured\n1530 packets received by filter\n30 packets dropped by kernel\n"
    )
    assert Tool("tcpdump").captures(said)
    assert Tool("tcpdump").counts(said) == Counts(1200, 1530, 30, None)
    assert Tool("tcpdump").counts(said).waiting == 300
    said = "tcpdump: 1 packet captured, 20 packets received by filter, 4 packets dropped by kernel"
    assert Tool("tcpdump").answered(f"tcpdump: listening on lo\n{said}\n") == [Counts(1, 20, 4)]
    assert Tool("tcpdump").answered("tcpdump: listening on lo\n20 packets captured\n") == []
    said = (
        "Capturing on 'Loopback: lo'\nFile: -\n\rPackets captured: 7\nPackets received/dropped on "
        "interface 'Loopback: lo': 7/2 (pcap:1/dumpcap:1/flushed:0/ps_ifdrop:3) (77.8%)\n"
    )
    assert not Tool("dumpcap").captures("Capturing on 'Loopback: lo'\n")
    assert Tool("dumpcap").captures(said)
    assert Tool("dumpcap").counts(said) == Counts(7, None, 2, 3)
    assert Tool("tcpdump").counts("") == Counts()


def test_a_missing_tool_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.shutil, "which", lambda _: None)
    answer = tools.available("tcpdump")
    assert (answer.ok, answer.fix) == (False, "apt install tcpdump")
    assert "wireshark" in tools.available("dumpcap").fix
    assert not CaptureCollector.available().ok


def test_a_user_without_the_right_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "tcpdump"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(tools.shutil, "which", lambda name: str(tmp_path / name))
    monkeypatch.setattr(tools, "_may_open_sockets", lambda: False)
    answer = tools.available("tcpdump")
    assert not answer.ok
    assert "setcap cap_net_raw" in answer.fix
