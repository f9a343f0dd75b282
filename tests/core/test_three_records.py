"""Client, wire and server tell the same story, call by call.

One conversation (crates/client/examples/converse.rs) with the embedded server, seen three times:
the client's own record, the server's, and `nfslab trace` on what tcpdump took from the wire. For
each transaction id the procedure, the status, how often it was sent, and the order of the instants
have to agree; client and server read CLOCK_MONOTONIC, packets bear the wall clock.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from nfslab._core import Server
from nfslab.servers.embedded_options import PROCEDURES

from tests.core.wire_capture import captured, of_the_wire

ROOT = Path(__file__).resolve().parents[2]
STATUSES = {0: "NFS3_OK", 2: "NFS3ERR_NOENT", 17: "NFS3ERR_EXIST"}
SLACK_NS = 30_000
"""Of an instant against one of the other clock, beyond what the clocks moved apart."""

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def converse() -> Path:
    """The client's program."""
    if shutil.which("cargo") is None:
        pytest.skip("cargo is not installed: the client's program cannot be built")
    asked = ["cargo", "build", "--quiet", "--locked", "-p", "nfslab-client", "--example"]
    subprocess.run([*asked, "converse"], cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug" / "examples" / "converse"


def offset_ns() -> int:
    """The wall clock less the monotonic one: the best of some readings."""
    best = None
    for _ in range(100):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, wall - (before + after) // 2)
    assert best is not None
    return best[1]


TCP: dict[str, Any] = {"udp": False}
LOSSY = {"udp": True, "model": {"loss": 0.1, "jitter_ns": 300_000, "seed": 5}}


@pytest.mark.parametrize(
    ("options", "server", "rounds"),
    [("", TCP, 40), ("nconnect=3,wsize=4k", TCP, 40), ("udp,timeo=1", LOSSY, 8)],
    ids=["tcp", "nconnect", "lossy udp"],
)
def test_they_agree_call_by_call(
    converse: Path, tmp_path: Path, options: str, server: dict[str, Any], rounds: int
) -> None:
    asked = {"store": "memory", "record_room": 100_000} | server
    with Server(json.dumps(asked)) as running:
        begin_ns = offset_ns()
        with captured(tmp_path / "wire.pcap", running.port):
            said = subprocess.run(
                [converse, "127.0.0.1", str(running.port), options, str(rounds)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert said.returncode == 0, said.stderr
        end_ns = offset_ns()
        running.stop()
        assert running.counters()["records_lost"] == 0
        served = pa.table(running.records()).to_pylist()
    clocks = (min(begin_ns, end_ns) - SLACK_NS, max(begin_ns, end_ns) + SLACK_NS)
    calls = [
        {name: int(value) for name, value in row.items()}
        for row in csv.DictReader(said.stdout.splitlines())
    ]
    assert len(calls) == len({call["xid"] for call in calls}) >= 4 * rounds * 9
    wire = of_the_wire(tmp_path / "wire.pcap")
    by_xid = defaultdict(list)
    for row in served:
        by_xid[row["xid"]].append(row)
    for call in calls:
        same_call(call, wire[call["xid"]], by_xid[call["xid"]])
        in_order(call, wire[call["xid"]], by_xid[call["xid"]], clocks)
    # And nothing else was there but mounting, FSINFO and the mark.
    others = set(wire) - {call["xid"] for call in calls}
    assert others == set(by_xid) - {call["xid"] for call in calls}
    assert sorted(wire[xid]["operation"] for xid in others) == ["FSINFO", "MNT", "NULL"]
    if server is LOSSY:
        assert any(call["sends"] > 1 for call in calls)


def same_call(call: dict[str, int], wire: dict[str, Any], served: list[dict[str, Any]]) -> None:
    operation, status = PROCEDURES[call["procedure"]], call["status"]
    assert (wire["operation"], wire["status"]) == (operation, STATUSES[status]), call
    assert wire["sends"] == call["sends"], (call, wire)
    assert wire["replies"] >= call["replies"] == 1
    assert len(served) >= 1
    assert {row["operation"] for row in served} == {operation}
    assert {row["outcome"] for row in served} == {"answered"}
    assert status in {row["status"] for row in served}
    client, port = wire["client"], served[0]["client"].rpartition(":")
    assert port[0] == client
    assert call["program"] == served[0]["program"] == 100003


def in_order(
    call: dict[str, int],
    wire: dict[str, Any],
    served: list[dict[str, Any]],
    clocks: tuple[int, int],
) -> None:
    """Each instant behind the one before; across the clocks within their slack."""
    least, most = clocks
    assert call["enqueued_ns"] <= call["sent_first_ns"] <= call["sent_last_ns"]
    assert call["sent_last_ns"] <= call["completed_ns"]
    assert call["sent_first_ns"] + least <= wire["call_first_ns"] <= wire["call_last_ns"]
    first, last = served[0], served[-1]
    assert wire["call_last_ns"] <= max(first["received_ns"], last["received_ns"]) + most
    for row in served:
        assert row["received_ns"] <= row["started_ns"] <= row["finished_ns"] <= row["sent_ns"]
        assert call["sent_first_ns"] <= row["received_ns"]
    assert first["finished_ns"] + least <= wire["reply_first_ns"] <= wire["reply_last_ns"]
    assert wire["reply_first_ns"] <= call["completed_ns"] + most
    if len(served) == call["sends"] == 1:
        # Read before the kernel is given the reply's last byte.
        assert first["sent_ns"] + least <= wire["reply_last_ns"]
        assert first["sent_ns"] <= call["completed_ns"]
        assert wire["reply_last_ns"] <= call["completed_ns"] + most
