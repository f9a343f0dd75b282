"""Every version, operation, credential and transport, against the generator's exact truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trace import scenes
from tests.trace.generator import companions, nfs3, nfs4, nfs41, rpc
from tests.trace.generator.capture import CLIENT, CLIENT6, SERVER, SERVER6, Capture
from tests.trace.generator.flows import Connection
from tests.trace.generator.xdr import u32
from tests.trace.reading import assert_same, read, written


def test_every_operation_of_every_version(tmp_path: Path) -> None:
    path, true = written(scenes.everything(), tmp_path)
    assert len({(c.exchange.body.program, c.exchange.body.version) for c in true.calls}) == 12
    found = read(path)
    assert_same(found, true)
    assert found.anomalies == {}


@pytest.mark.parametrize("service", [rpc.SVC_NONE, rpc.SVC_INTEGRITY])
def test_gss_bodies_in_clear_are_read(tmp_path: Path, service: int) -> None:
    made, _flow = scenes.v3_mix(5, 60, auth=rpc.GssAuth(service=service))
    path, true = written(made, tmp_path)
    assert_same(read(path), true)


def test_gss_private_bodies_give_headers_and_instants(tmp_path: Path) -> None:
    made = Capture(6)
    node = scenes.v3_tree().children[0].children[0]
    auth = rpc.GssAuth(service=rpc.SVC_PRIVACY)
    made.converse(made.tcp(), [nfs3.read(node, 0, 4096), nfs3.getattr_(node)], auth=auth)
    path, true = written(made, tmp_path)
    found = read(path)
    names = ("call_first_ns", "call_last_ns", "reply_first_ns", "reply_last_ns", "xid", "operation",
             "sends", "replies")  # fmt: skip
    assert_same(found, true, names)
    assert [row["bytes"] for row in found.rows] == [0, 0]
    assert [row["file_handle"] for row in found.rows] == [None, None]
    assert all("private" in row["marks"] for row in found.rows)


@pytest.mark.parametrize("service", [None, rpc.SVC_INTEGRITY])
@pytest.mark.parametrize("count", [4000, 70_000])
def test_every_payload_of_a_compound_counts(
    tmp_path: Path, count: int, service: int | None
) -> None:
    """Over TCP the inside of a long message passes: what stands behind a payload must not."""
    made = Capture(15)
    node = scenes.v4_tree().children[0].children[0]
    session = nfs41.Session(minor=2)
    written_twice = [nfs4.write(0, count), nfs4.write(count, count), nfs4.getattr_(node)]
    mixed = [nfs4.write(0, count), nfs4.read(0, count), nfs4.write(7, 900), nfs4.commit(0, 0)]
    far = [*[nfs4.getattr_(node)] * 60, nfs4.read(0, count), nfs4.getattr_(node)]
    bodies = [
        session.on(node, nfs4.read(0, count), nfs4.read(count, count), named_by="READ"),
        session.on(node, nfs4.read(0, count), *[nfs4.getattr_(node)] * 50, named_by="READ"),
        session.on(node, *written_twice, named_by="WRITE"),
        session.on(node, *mixed, named_by="READ"),
        session.on(node, *far, named_by="READ"),
        session.on(node, nfs41.read_plus(0, (count, 4096), (count, 512), (300, 0)),
                   named_by="READ_PLUS"),
    ]  # fmt: skip
    auth = None if service is None else rpc.GssAuth(service=service)
    made.converse(made.tcp(), bodies, auth=auth)
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true, path=False)
    assert found.anomalies == {}
    assert [row["marks"] for row in found.rows] == [None] * len(bodies)
    calls = {row["operation"]: row["calls"] for row in found.summary["operations"]}
    assert (calls["READ"], calls["WRITE"], calls["GETATTR"]) == (5, 4, 112)


def test_tls_is_told_and_not_read(tmp_path: Path) -> None:
    made = Capture(7)
    flow = made.tcp()
    probe, grant = rpc.marked(rpc.tls_probe(77)), rpc.marked(rpc.tls_grant(77))
    flow.burst(made.now_ns, True, [probe])
    flow.burst(made.now_ns + 1000, False, [grant])
    sealed = b"\x17\x03\x03\x10\x00" + bytes(index * 89 % 251 for index in range(4096))
    flow.burst(made.now_ns + 3000, True, [b"\x16\x03\x01\x01\x00" + bytes(256), sealed])
    flow.burst(made.now_ns + 9000, False, [b"\x16\x03\x03\x01\x00" + bytes(256), sealed * 5])
    path, true = written(made, tmp_path)
    found = read(path)
    assert [(row["xid"], row["operation"], row["replies"]) for row in found.rows] == [
        (77, "NULL", 1)
    ]
    assert "tls_probe" in found.rows[0]["marks"]
    assert found.anomalies["rpc_over_tls"] == 1
    assert found.anomalies["rpc_over_tls_bytes"] == 2 * 261 + 6 * 4101
    assert found.summary["lost"] == {"bytes": 0, "gaps": 0}
    assert found.summary["packets"] == true.packets


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_refusals_of_rpc_are_statuses(tmp_path: Path, transport: str) -> None:
    made = Capture(8)
    node = scenes.v3_tree()
    flow = made.tcp() if transport == "tcp" else made.udp()
    refused = [
        ("PROG_UNAVAIL", lambda xid: rpc.refused(xid, 1)),
        ("PROG_MISMATCH", lambda xid: rpc.refused(xid, 2, u32(2, 4))),
        ("GARBAGE_ARGS", lambda xid: rpc.refused(xid, 4)),
        ("SYSTEM_ERR", lambda xid: rpc.refused(xid, 5)),
        ("AUTH_ERROR", lambda xid: rpc.denied(xid, 5)),
    ]
    for number, (_name, reply) in enumerate(refused):
        planned = made.exchange(
            flow, nfs3.getattr_(node), xid=900 + number, reply=reply(900 + number)
        )
        made.send(flow, [planned])
        made.send(flow, [planned], replies=True)
    path, _true = written(made, tmp_path)
    found = read(path)
    assert [row["status"] for row in found.rows] == [name for name, _reply in refused]
    assert found.operation("GETATTR")["errors"] == {name: 1 for name, _reply in refused}
    assert found.operation("GETATTR")["answered"] == 5


@pytest.mark.parametrize("v6", [False, True])
@pytest.mark.parametrize("order", ["forward", "backward", "shuffled"])
def test_udp_fragments_in_any_order(tmp_path: Path, v6: bool, order: str) -> None:
    made = Capture(9)
    root = scenes.v3_tree()
    folder = root.children[0]
    flow = made.udp(*((CLIENT6, SERVER6) if v6 else (CLIENT, SERVER)))
    if order == "backward":
        flow.order = lambda count: list(range(count))[::-1]
    elif order == "shuffled":
        flow.order = lambda count: made.rng.sample(range(count), count)
    bodies = [companions.mnt(root), nfs3.lookup(root, folder)]
    bodies += [nfs3.lookup(folder, node) for node in folder.children]
    made.converse(flow, bodies)
    for size in (1, 1300, 1400, 1473, 8192, 32768, 60000):
        node = made.rng.choice(folder.children)
        made.converse(flow, [nfs3.read(node, 0, size), nfs3.write(node, size, size)])
    path, true = written(made, tmp_path)
    assert_same(read(path), true)


def test_a_lost_fragment_loses_its_message_only(tmp_path: Path) -> None:
    made = Capture(10)
    folder = scenes.v3_tree().children[0]
    flow = made.udp()
    planned = made.converse(flow, [nfs3.read(n, 0, 8192) for n in folder.children])
    first = next(packet for packet in flow.made if packet.datagram is planned[0].replies[0])
    third = [packet for packet in flow.made if packet.datagram is planned[2].replies[0]][3]
    flow.made = [packet for packet in flow.made if packet not in (first, third)]
    path, true = written(made, tmp_path)
    found = read(path)
    missing = sum(len(packet.ip) - 20 for packet in (first, third))
    assert found.summary["lost"] == {"bytes": missing, "gaps": 2}
    assert [row["replies"] for row in found.rows if row["xid"] == planned[0].xid] == [0]
    unanswered = {planned[0].xid, planned[2].xid}
    others = [call for call in true.calls if call.exchange.xid not in unanswered]
    assert all(call.replies for call in others)
    rows = [row for row in found.rows if row["xid"] not in unanswered]
    from tests.trace.reading import differences

    assert differences(rows, others, path=False) == []
    assert sum(found.anomalies.values()) > 0


def test_retransmissions_and_duplicate_replies(tmp_path: Path) -> None:
    made = Capture(11)
    nodes = scenes.v3_tree().children[0].children
    udp, tcp = made.udp(), made.tcp()
    for flow in (udp, tcp):
        planned = [made.exchange(flow, nfs3.getattr_(node)) for node in nodes]
        made.send(flow, planned)
        made.now_ns += 700_000_000
        made.send(flow, planned[:3])
        made.now_ns += 1_400_000_000
        made.send(flow, planned[:1])
        for group in (planned, planned[:2], planned[:1]):
            made.now_ns += 300_000
            made.send(flow, group, replies=True)
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true, path=False)
    assert [row["sends"] for row in found.rows[:4]] == [3, 2, 2, 1]
    assert [row["replies"] for row in found.rows[:4]] == [3, 2, 1, 1]
    row = found.operation("GETATTR")
    assert (row["calls"], row["answered"]) == (12, 12)
    assert (row["retransmissions"], row["duplicate_replies"]) == (8, 6)


def test_a_call_sent_again_on_a_new_connection_is_one_call(tmp_path: Path) -> None:
    made = Capture(12)
    nodes = scenes.v3_tree().children[0].children
    old = made.tcp()
    planned = [made.exchange(old, nfs3.write(node, 0, 3000)) for node in nodes]
    made.send(old, planned)
    old.close(made.now_ns, reset=True)
    made.now_ns += 15_000_000_000
    new = made.tcp(first_sequence=(77_000, 88_000))  # the same port: Linux keeps it
    assert isinstance(new, Connection)
    made.send(new, planned)
    made.send(new, planned, replies=True)
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true, path=False)
    assert [row["sends"] for row in found.rows] == [2] * len(nodes)
    assert all("reconnected" in row["marks"] for row in found.rows)


def test_the_same_xid_with_other_arguments_is_another_call(tmp_path: Path) -> None:
    made = Capture(13)
    nodes = scenes.v3_tree().children[0].children
    flow = made.udp()
    for node in nodes:
        planned = made.exchange(flow, nfs3.getattr_(node), xid=4242)
        made.send(flow, [planned])
        made.now_ns += 400_000
        made.send(flow, [planned], replies=True)
        made.now_ns += 400_000
    path, true = written(made, tmp_path)
    found = read(path)
    assert_same(found, true, path=False)
    assert found.anomalies["xid_reused"] == len(nodes) - 1
