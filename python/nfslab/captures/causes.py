"""What a capture shows to have made it slow, as named facts.

The core's lenses judge; here their verdicts get one list, so that every output says the same.
A cause is in it only with its evidence. What waited, or rested, without telling why is `unknown`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from nfslab.captures.analysis import is_inner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nfslab.captures.analysis import CaptureAnalysis

Cause = Literal[
    "network_loss",
    "needless_retransmission",
    "server_restarted",
    "connection_reset",
    "server_host_frozen",
    "server_process_slow",
    "server_stalled",
    "client_idle",
    "period",
    "time_in_server",
    "attribute_cache_off",
    "unanswered",
    "replies_only",
]

OF_GAPS: tuple[Cause, ...] = (
    "network_loss",
    "server_restarted",
    "connection_reset",
    "server_host_frozen",
    "server_process_slow",
    "client_idle",
)
SPLIT_FROM = 0.5
"""Share of the calls that a sentence about their time has to cover."""
QUEUED_PART = 0.2
"""A server's part that the queue of the round trip makes up so much of is not called its own."""
QUEUED_SAMPLES = 5
WAITED_NS = 1_000_000_000
"""A call that had no reply for so long is called unanswered, though the capture ended."""


def said(analysis: CaptureAnalysis) -> list[Cause]:
    """All that is said of causes."""
    stalls = analysis.content.get("stalls") or {}
    totals = stalls.get("causes", {})
    found: list[Cause] = [cause for cause in OF_GAPS if totals.get(cause, {}).get("count")]
    if stalls.get("totals", {}).get("server_stalled", {}).get("count"):
        found.append("server_stalled")
    if stalls.get("evidence", {}).get("received_twice"):
        found.append("needless_retransmission")
    if period(stalls):
        found.append("period")
    if in_server(analysis):
        found.append("time_in_server")
    observations = (analysis.content.get("access") or {}).get("observations", [])
    if any(one["name"] == "attribute_cache_off" for one in observations):
        found.append("attribute_cache_off")
    if unanswered(analysis):
        found.append("unanswered")
    if replies_only(analysis):
        found.append("replies_only")
    return found


def period(stalls: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The period with which it stops and goes, if there is one."""
    for server in stalls.get("servers", []):
        if cycle := server.get("drain_cycle") or server.get("pause_cycle"):
            return dict(cycle)
    return stalls.get("throughput_cycle")


def split(analysis: CaptureAnalysis) -> Mapping[str, Any] | None:
    """The row of all calls of `network`, if most of them could be split."""
    section = analysis.content.get("network")
    if not section:
        return None
    whole = next((row for row in section["operations"] if row["operation"] == "all"), None)
    return whole if whole and whole["calls"] >= SPLIT_FROM * analysis.calls else None


def queued_ns(analysis: CaptureAnalysis) -> float:
    """How much longer than the split's round trip lone acknowledgements usually take, ns."""
    queue = (analysis.content.get("network") or {}).get("queueing") or {}
    return float(queue["mean_ns"]) if queue.get("samples", 0) >= QUEUED_SAMPLES else 0.0


def in_server(analysis: CaptureAnalysis) -> bool:
    """Does most of the calls' time pass in the server, as the queue of the way cannot explain?"""
    whole = split(analysis)
    if whole is None:
        return False
    shares = {part: whole[f"{part}_share"] for part in ("request", "network", "server", "reply")}
    server_ns = whole["server_ns"].get("mean") or 0.0
    return (
        max(shares, key=lambda part: shares[part]) == "server"
        and queued_ns(analysis) < QUEUED_PART * server_ns
    )


def fronts_cut(analysis: CaptureAnalysis) -> bool:
    """Did the snapshot length cut fronts of messages away, so that replies may be unseen?"""
    kinds = {entry["kind"] for entry in analysis.content.get("anomalies", []) if entry["count"]}
    return "record_mark_cut" in kinds or "record_unreadable" in kinds


def without_reply(analysis: CaptureAnalysis) -> int:
    """Calls without a reply in the capture."""
    rows = analysis.content.get("operations", [])
    return sum(row["unanswered"] for row in rows if not is_inner(row))


def one_way(analysis: CaptureAnalysis) -> bool:
    """Is there no reply at all?"""
    rows = [row for row in analysis.content.get("operations", []) if not is_inner(row)]
    return bool(rows) and not any(row["answered"] for row in rows)


def unanswered(analysis: CaptureAnalysis) -> list[Mapping[str, Any]]:
    """Calls that had no reply, though the capture would show one, the longest waiting first."""
    if fronts_cut(analysis) or one_way(analysis) or has_loss(analysis):
        return []
    table = (analysis.content.get("stalls") or {}).get("unanswered") or {}
    return [call for call in table.get("longest", []) if call["waited_ns"] >= WAITED_NS]


def has_loss(analysis: CaptureAnalysis) -> bool:
    """Does the capture lack bytes of what was sent?"""
    lost = analysis.content.get("lost") or {}
    return bool(lost.get("bytes") or lost.get("gaps"))


def replies_only(analysis: CaptureAnalysis) -> bool:
    """Are there replies of RPC from NFS's port, and no call?"""
    content = analysis.content
    counts = {entry["kind"]: entry["count"] for entry in content.get("anomalies", [])}
    ports = {entry["port"] for entry in content.get("other_ports") or []}
    return not analysis.calls and bool(counts.get("reply_without_call")) and NFS_PORT in ports


NFS_PORT = 2049
