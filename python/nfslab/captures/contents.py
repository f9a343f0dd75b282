"""Is there NFS in a capture, and if not: what is in it?

The sentence names what was found (calls of other programs, connections and datagrams that
carry no RPC, TLS, frames that are no IP), so that a wrong filter or interface is seen at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.captures.causes import NFS_PORT, anomaly_counts, replies_only
from nfslab.captures.spelling import protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab._core import OperationRow, PortRow
    from nfslab.captures.analysis import CaptureAnalysis

NFS_PROGRAMS = frozenset({"NFS", "NFSACL", "NFS4_CALLBACK"})
PORTS_SHOWN = 5


def has_nfs(capture: CaptureAnalysis) -> bool:
    """Was a call of NFS (or its side protocol, or a callback) found?"""
    rows = capture.content["operations"]
    return any(row["program_name"] in NFS_PROGRAMS and row["calls"] for row in rows)


def instead(capture: CaptureAnalysis) -> tuple[str, str]:
    """What was found in a capture without NFS, and what to do."""
    content = capture.content
    counts = anomaly_counts(capture)
    if not content["packets"] and content["window_ns"]:
        return (
            "no packet lies in the part that was asked for",
            "--from and --to count from the first packet, in seconds",
        )
    if not content["packets"]:
        return (
            "it has a capture's header and no packet",
            "was the filter right, and the interface the one that NFS goes through? "
            "`tcpdump -D` lists interfaces; `tcpdump -i any` takes all",
        )
    parts = [f"{content['packets']:,} packets"]
    calls = _calls(content["operations"])
    parts += [f"{number:,} calls of {name}" for name, number in calls.items()]
    for kind, words in (
        ("reply_without_call", "replies of RPC without their calls"),
        ("rpc_over_tls", "connections with RPC inside TLS"),
        ("tls_stream", "TLS connections"),
        ("iwarp", "connections of RDMA over TCP (iWARP)"),
        ("rdma", "packets of RDMA over Ethernet (RoCE)"),
        ("tcp_not_rpc", "TCP connections without RPC"),
        ("udp_not_rpc", "UDP datagrams without RPC"),
        ("not_tcp_udp", "IP packets that are neither TCP nor UDP"),
        ("not_ip", "frames without IP"),
        ("tunnelled", "packets inside tunnels"),
        ("truncated_headers", "packets cut within their headers"),
    ):
        if counts.get(kind):
            parts.append(f"{counts[kind]:,} {words}")
    ports = _ports(content.get("other_ports", []))
    if replies_only(capture):
        return (
            f"replies of NFS (port {NFS_PORT}) and none of their calls: one direction only ("
            + ", ".join(parts)
            + ")",
            "capture both directions: without its call a reply cannot be decoded",
        )
    return ", ".join(parts) + ports, _advice(counts)


def _calls(rows: Sequence[OperationRow]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[protocol(row)] = found.get(protocol(row), 0) + row["calls"]
    return found


def _ports(ports: Sequence[PortRow]) -> str:
    if not ports:
        return ""
    told = [f"{p['transport']} {p['port']} ({p['packets']:,})" for p in ports[:PORTS_SHOWN]]
    return f"; most packets to or from {', '.join(told)}"


def _advice(counts: Mapping[str, int]) -> str:
    if counts.get("rpc_over_tls"):
        return "NFS under TLS cannot be decoded: mount with xprtsec=none to look inside"
    if counts.get("rdma") or counts.get("iwarp"):
        return "NFS over RDMA is not read: mount with proto=tcp to look inside"
    if counts.get("tunnelled"):
        return "capture inside the tunnel's end, where the packets are bare"
    if counts.get("truncated_headers"):
        return "capture whole packets: tcpdump without -s"
    return "capture where NFS passes: tcpdump -i any -w nfs.pcap host SERVER"
