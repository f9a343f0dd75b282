"""`nfslab trace` of captures that hold more than can be seen: it says what is in no figure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nfslab.display.numbers import quantity

from tests.cli.invocation import nfslab
from tests.trace import scenes
from tests.trace.generator import files, nfs3, rpc
from tests.trace.generator.capture import Capture
from tests.trace.reading import written

QUIET = "No stall, no loss and nothing sent again was found."


def test_calls_inside_tls_are_said_in_front(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Capture(7)
    flow = made.tcp()
    flow.burst(made.now_ns, True, [rpc.marked(rpc.tls_probe(77))])
    flow.burst(made.now_ns + 1000, False, [rpc.marked(rpc.tls_grant(77))])
    sealed = b"\x16\x03\x01\x10\x00" + b"\xaa" * 4096
    flow.burst(made.now_ns + 3000, True, [sealed])
    path, _true = written(made, tmp_path)
    said = nfslab(capsys, "trace", path)
    assert (said.code, said.err) == (0, "")
    assert "RPC went inside TLS on 1 connection (4.00 KiB): those calls cannot be seen" in said.out
    assert QUIET not in said.out


def test_encrypted_replies_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, _flow = scenes.v3_mix(5, 60, auth=rpc.GssAuth(service=rpc.SVC_PRIVACY))
    path, true = written(made, tmp_path)
    text = nfslab(capsys, "trace", path).out
    assert f"The status of all {len(true.calls)} replies cannot be read" in text
    rows = json.loads(nfslab(capsys, "trace", "--json", path).out)["operations"]
    assert sum(row["unreadable"] for row in rows) == len(true.calls)


def test_a_capture_of_one_direction_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, flow = scenes.v3_mix(3, 60)
    flow.segments = [segment for segment in flow.segments if segment.from_client]
    path, true = written(made, tmp_path)
    text = nfslab(capsys, "trace", path).out
    assert f"{len(true.calls)} calls" in text
    assert "without a reply" not in text
    assert "There is no reply at all" in text


def test_bytes_that_hold_no_packet_are_not_nothing_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made, _flow = scenes.v3_mix(3, 200)
    data = files.encode(made.frames(), files.Format())
    junk = bytes(range(256)) * 40
    path = files.write(tmp_path / "junk.pcap", data + junk)
    content = json.loads(nfslab(capsys, "trace", "--json", path).out)
    line = nfslab(capsys, "trace", path).out.splitlines()[1]
    assert content["skipped_bytes"] == len(junk)
    assert line.endswith("; 10 KiB of the input passed over, since no packet could be made out")


def test_missing_fragments_are_lost_bytes_in_gaps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Capture(10)
    flow = made.udp()
    nodes = scenes.v3_tree().children[0].children
    planned = made.converse(flow, [nfs3.read(node, 0, 8192) for node in nodes])
    (_first, second, *_rest) = [
        packet for packet in flow.made if packet.datagram is planned[0].replies[0]
    ]
    flow.made = [packet for packet in flow.made if packet is not second]
    path, _true = written(made, tmp_path)
    line = nfslab(capsys, "trace", path).out.splitlines()[1]
    missing = len(second.ip) - 20
    assert line.endswith(f"; the capture lacks {quantity(missing, 'B')} in 1 gap")
