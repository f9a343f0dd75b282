"""`nfslab sfs`: call by call the same as a capture and the servers' own records have.

By one process, by several (`--generators N`), by several mounts.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from nfslab._core import Trace
from nfslab.captures import tool as tools
from nfslab.context import Services
from nfslab.machine.resources import Resources
from nfslab.targets.nfs import NfsTarget

from tests.cli.invocation import nfslab
from tests.cli.serving import null
from tests.hosts.here import HERE
from tests.waiting import until

SHORT = ("--warm-up", "0.1s", "--json")
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@contextmanager
def exported(server: str, folder: Path) -> Iterator[tuple[str, list[str], int]]:
    """An export: its source, its options, its port."""
    parameters: dict[str, Any] = {"server": server, "client": "none", "directory": str(folder)}
    if server == "embedded":
        parameters["store"] = "memory"
    target = NfsTarget("share", NfsTarget.Parameters(**parameters))
    usable = target.check()
    if not usable.ok:
        pytest.skip(f"{server}: {usable.reason}")
    with Resources("sfs-on-the-wire", state=folder) as resources:
        place = target.up(resources, HERE)
        try:
            services = Services()
            target.offer(place, services)
            export, running = services.nfs_exports["share"], target.server_of(place)
            assert running is not None
            yield export.source, export.options, running.port()
        finally:
            target.down(place)


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("embedded", marks=pytest.mark.system),
        pytest.param("ganesha", marks=pytest.mark.long),
    ],
)
def test_every_call_is_on_the_wire_as_it_was_recorded(
    server: str, tmp_path: Path, capsys: Capture
) -> None:
    calls, wire = tmp_path / "calls.parquet", tmp_path / "wire.pcap"
    with exported(server, tmp_path) as (source, options, port):
        load = ["sfs", source, "-o", ",".join(options), "--load", "300", "--files", "100"]
        load += ["--time", "1s", *SHORT]
        made = nfslab(capsys, *load, "--prepare-only")
        assert made.code == 0, made.err
        with captured(wire, port):
            said = nfslab(capsys, *load, "--calls", calls)
    (point,) = json.loads(said.out)["points"]
    # Whether it was late is the machine's; what was answered is not.
    assert point["unexpected"] == [], said.err
    rows = pq.read_table(calls).to_pylist()
    assert point["calls"] == {"file": "calls.parquet", "rows": len(rows), "lost": 0}
    recorded = {row["xid"]: row for row in rows}
    seen = of_the_wire(wire)
    assert len(recorded) == sum(row["calls"] for row in point["operations"]) > 0
    assert set(recorded) <= set(seen)
    for xid, call in recorded.items():
        there = seen[xid]
        assert (there["operation"], there["sends"]) == (call["operation"], call["sends"])
        assert (there["status"] == "NFS3_OK") == (call["status"] == 0), (call, there)
        assert there["client"] == "127.0.0.1"
    # All others: mounting, and making sure of the file set before the point.
    others = {seen[xid]["operation"] for xid in set(seen) - set(recorded) - {MARK}}
    looking = {"NULL", "MNT", "FSINFO", "MKDIR", "LOOKUP", "READ", "GETATTR", "SETATTR"}
    assert others <= looking
    by_operation = {row["operation"]: row["calls"] for row in point["operations"]}
    counted = Counter(seen[xid]["operation"] for xid in recorded)
    assert counted == {name: calls for name, calls in by_operation.items() if calls}


@pytest.mark.system
def test_what_cannot_be(capsys: Capture) -> None:
    calls = ["127.0.0.1:/x", "--load", "1", "--generators", "2", "--calls", "x.parquet"]
    said = nfslab(capsys, "sfs", *calls)
    assert (said.code, "one generator process" in said.err) == (2, True)
    few = ["127.0.0.1:/x", "--load", "100", "--files", "50", "--outstanding", "2"]
    said = nfslab(capsys, "sfs", *few, "--generators", "3")
    assert (said.code, "3 processes" in said.err) == (2, True)


MARK = 0x4D41524B
"""A transaction id: behind it nothing more comes."""


@contextmanager
def captured(path: Path, port: int) -> Iterator[None]:
    """tcpdump on the loopback interface; all that was sent in the block is in the file."""
    answer = tools.available("tcpdump")
    if not answer.ok:
        pytest.skip(f"{answer.reason}: {answer.fix}")
    # Not --immediate-mode: its buffer has a slot of the snapshot length (256 KiB) for each packet,
    # 128 of them in 32 MiB, which a tcpdump without a processor loses in a moment.
    command = ["tcpdump", "-i", "lo", "-s", "0", "-U", "-B", "65536"]
    command += ["--time-stamp-precision", "nano", "-Z", "root", "-w", str(path), "port", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tcpdump:
        try:
            assert tcpdump.stderr is not None
            while "listening on" not in (line := tcpdump.stderr.readline()):
                assert line, "tcpdump ended"
            yield
            assert null(port, MARK) == 0
            until(lambda: path.read_bytes().count(MARK.to_bytes(4)) >= 2)
            tcpdump.send_signal(signal.SIGINT)
            said = tcpdump.stderr.read()
            assert "\n0 packets dropped by kernel" in said, said
        finally:
            tcpdump.kill()


def of_the_wire(path: Path) -> dict[int, dict[str, Any]]:
    """Calls of the capture by transaction id: operations of NFS and MOUNT, no id twice."""
    trace = Trace([path], json.dumps({"lenses": ["operations"], "columns": True}))
    rows = pa.RecordBatchReader.from_stream(trace.batches()).read_all().to_pylist()
    summary = json.loads(trace.finish()[0])
    assert summary["lost"] == {"bytes": 0, "gaps": 0}
    # Packets of two CPUs may come out of order, and where CPUs are busy a tail loss probe may send
    # one again that is only late (RFC 8985 section 7); nothing else may be odd.
    usual = {"time_went_back", "tcp_retransmission"}
    assert {odd["kind"] for odd in summary["anomalies"]} <= usual
    found = {row["xid"]: row for row in rows}
    assert len(found) == len(rows)
    return found
