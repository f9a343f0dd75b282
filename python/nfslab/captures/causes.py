"""What a capture shows to have made it slow: the core's lenses judge; here is when they suffice.

Every output asks here, so that all say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nfslab._core import Cycle, SplitRow, StallsContent, UnansweredRow
    from nfslab.captures.analysis import CaptureAnalysis

SPLIT_FROM = 0.5
"""Share of the calls that a sentence about their time has to cover."""
QUEUED_PART = 0.2
"""A server's part that the queue of the round trip makes up so much of is not called its own."""
QUEUED_SAMPLES = 5
TOGETHER = "network and server"
WAITED_NS = 1_000_000_000
"""A call that had no reply for so long is called unanswered, though the capture ended."""


def period(stalls: StallsContent) -> Cycle | None:
    """The period with which it stops and goes, if there is one."""
    for server in stalls["servers"]:
        if cycle := server["drain_cycle"] or server.get("pause_cycle"):
            return cycle
    return stalls["throughput_cycle"]


def all_calls(analysis: CaptureAnalysis) -> SplitRow | None:
    """The row of all calls of `network`, if any could be split."""
    section = analysis.content.get("network")
    rows = section["operations"] if section else []
    return next((row for row in rows if row["operation"] == "all"), None)


def split(analysis: CaptureAnalysis) -> SplitRow | None:
    """The row of all calls of `network`, if most of them could be split."""
    whole = all_calls(analysis)
    return whole if whole and whole["calls"] >= SPLIT_FROM * analysis.calls else None


def told_as_one(row: SplitRow) -> bool:
    """Was the estimated round trip longer than all that passed till the reply? Then the server's
    part is below zero, and only network and server together are a time."""
    return (row["server_ns"]["mean"] or 0.0) < 0


def shares(whole: SplitRow) -> dict[str, float]:
    """Where the time of its calls passed, 0 to 1."""
    network, server = whole["network_share"], whole["server_share"]
    between = {"network": network, "server": server}
    if told_as_one(whole):
        between = {TOGETHER: network + server}
    return {"request": whole["request_share"], **between, "reply": whole["reply_share"]}


def queued_ns(analysis: CaptureAnalysis) -> float:
    """How much longer than the split's round trip lone acknowledgements usually take, ns."""
    section = analysis.content.get("network")
    queue = section.get("queueing") if section else None
    return (queue["mean_ns"] or 0.0) if queue and queue["samples"] >= QUEUED_SAMPLES else 0.0


def in_server(analysis: CaptureAnalysis) -> bool:
    """Does most of the calls' time pass in the server, as the queue of the way cannot explain?"""
    whole = split(analysis)
    if whole is None:
        return False
    parts = shares(whole)
    server_ns = whole["server_ns"]["mean"] or 0.0
    most = max(parts, key=lambda part: parts[part])
    return most == "server" and queued_ns(analysis) < QUEUED_PART * server_ns


def fronts_cut(analysis: CaptureAnalysis) -> bool:
    """Did the snapshot length cut fronts of messages away, so that replies may be unseen?"""
    counts = anomaly_counts(analysis)
    return bool(counts.get("record_mark_cut") or counts.get("record_unreadable"))


def anomaly_counts(analysis: CaptureAnalysis) -> dict[str, int]:
    """Kind -> how often it occurred."""
    return {entry["kind"]: entry["count"] for entry in analysis.content["anomalies"]}


def without_reply(analysis: CaptureAnalysis) -> int:
    """Calls without a reply in the capture."""
    return sum(row["unanswered"] for row in analysis.outer)


def on_one_way_connections(analysis: CaptureAnalysis) -> int:
    """Calls without a reply on TCP connections of which the capture has nothing of the server."""
    stalls = analysis.content.get("stalls")
    return stalls.get("unanswered", {}).get("one_way", 0) if stalls else 0


def one_way(analysis: CaptureAnalysis) -> bool:
    """Is there no reply at all?"""
    rows = analysis.outer
    return bool(rows) and not any(row["answered"] for row in rows)


def unanswered(analysis: CaptureAnalysis) -> list[UnansweredRow]:
    """Calls that had no reply, though the capture would show one, the longest waiting first."""
    if fronts_cut(analysis) or one_way(analysis) or has_loss(analysis):
        return []
    stalls = analysis.content.get("stalls")
    table = stalls.get("unanswered") if stalls else None
    return [call for call in table["longest"] if call["waited_ns"] >= WAITED_NS] if table else []


def has_loss(analysis: CaptureAnalysis) -> bool:
    """Does the capture lack bytes of what was sent?"""
    lost = analysis.content["lost"]
    return bool(lost["bytes"] or lost["gaps"])


def replies_only(analysis: CaptureAnalysis) -> bool:
    """Are there replies of RPC from NFS's port, and no call?"""
    ports = {entry["port"] for entry in analysis.content.get("other_ports", [])}
    replies = anomaly_counts(analysis).get("reply_without_call")
    return not analysis.calls and bool(replies) and NFS_PORT in ports


NFS_PORT = 2049
