"""The oddities that the core counts, in words: what each means, and what to do about it.

The core counts by kind and never guesses; a person wants to know whether to believe the
figures. So each kind has a weight: "loss" (something is missing from the figures), "doubt"
(a figure may be off), "network" (true of the load, not of the capture), "note" (good to know).
A kind that has no words here is shown by its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nfslab.display.numbers import count, quantity

if TYPE_CHECKING:
    from nfslab._core import TraceContent

Weight = Literal["loss", "doubt", "network", "note"]
ORDER: tuple[Weight, ...] = ("loss", "doubt", "network", "note")

BIGGER_BUFFER = "capture with a larger buffer (tcpdump -B 65536) or nearer to the client"
LONGER_SNAPLEN = "capture whole packets: tcpdump without -s"
WHOLE_FILE = "let the capture tool end by itself (Ctrl-C, not kill -9), or copy the file again"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One kind of oddity."""

    weight: Weight
    means: str
    """A sentence's rest behind the count: "12: frames without an IP packet"."""
    advice: str = ""
    is_bytes: bool = False


@dataclass(frozen=True, slots=True)
class Counted:
    """A kind that occurred."""

    kind: str
    count: int
    meaning: Meaning


MEANINGS: dict[str, Meaning] = {
    # Files and packets
    "damaged_packet_header": Meaning(
        "loss", "packet headers that cannot be true; read on at the next plausible one", WHOLE_FILE
    ),
    "odd_packet_header": Meaning(
        "doubt", "packet headers that are odd (time, lengths), believed since the next one fits"
    ),
    "cut_at_end": Meaning("loss", "captures that end within a packet", WHOLE_FILE),
    "file_grew": Meaning(
        "loss",
        "files that grew while they were read; what came later is not in these figures",
        "read it again when the capture has ended, or pipe it: tail -c +1 -f FILE | nfslab trace -",
    ),
    "files_reordered": Meaning("note", "files given in another order than their packets' times"),
    "files_overlap": Meaning(
        "doubt",
        "captures that begin before the one in front of them ended; read one after another",
        "merge them first (mergecap -w FILE ...), and give no capture twice",
    ),
    "joined_captures": Meaning("note", "captures joined by `cat`; read as one"),
    "damaged_compression": Meaning(
        "loss", "compressed files damaged within; read up to there", "copy the file again"
    ),
    "trailing_bytes": Meaning("note", "files with other bytes behind the compressed data"),
    "unknown_interface": Meaning("loss", "packets of an interface that the file does not describe"),
    "unknown_link_type": Meaning(
        "loss", "packets of an interface whose link type is not read", "capture on Ethernet, or any"
    ),
    "no_timestamp": Meaning(
        "doubt", "packets without a time of their own; they got that of the one in front of them"
    ),
    "time_went_back": Meaning(
        "note", "frames timed before the frame in front of them (several queues of one card do it)"
    ),
    "not_ip": Meaning("note", "frames without an IP packet (ARP and the like)"),
    "malformed_ip": Meaning("doubt", "IP headers that contradict themselves"),
    "truncated_headers": Meaning(
        "loss", "packets cut within their IP, TCP or UDP header", LONGER_SNAPLEN
    ),
    "length_exceeds_frame": Meaning("doubt", "packets that state more bytes than their frame held"),
    "not_tcp_udp": Meaning("note", "IP packets that are neither TCP nor UDP (ICMP and the like)"),
    "tunnelled": Meaning(
        "loss", "packets in a tunnel that could not be followed", "capture inside the tunnel's end"
    ),
    "rdma": Meaning(
        "doubt",
        "packets of RDMA over Ethernet (RoCE): NFS in them is not seen",
        "mount with proto=tcp for the measurement, or look at the client's own counters",
    ),
    "malformed_transport": Meaning("doubt", "TCP or UDP headers that contradict themselves"),
    "fragments_lost": Meaning(
        "loss",
        "datagrams with missing IP fragments",
        "use NFS over TCP, or a capture filter that lets fragments pass",
    ),
    "fragment_overlaps": Meaning("doubt", "IP fragments that overlap; the first ones were kept"),
    "fragments_not_captured": Meaning(
        "loss",
        "datagrams of which the capture holds the first IP fragment only",
        "filter by host, not by port: only first fragments carry ports",
    ),
    "fragment_limit": Meaning("loss", "datagrams given up: too many fragments waited"),
    # Streams
    "udp_not_rpc": Meaning("note", "UDP datagrams that are no RPC"),
    "duplicate_packet": Meaning(
        "note",
        "packets captured twice; their copies were passed over",
        "capture on one interface instead of `any`",
    ),
    "tcp_not_rpc": Meaning("note", "TCP connections that carry no RPC"),
    "tcp_not_rpc_bytes": Meaning("note", "in TCP connections that carry no RPC", is_bytes=True),
    "rpc_over_tls": Meaning(
        "loss",
        "connections with RPC inside TLS: their calls cannot be seen",
        "mount with xprtsec=none for the measurement, or look at the client's own counters",
    ),
    "rpc_over_tls_bytes": Meaning("loss", "in connections with RPC inside TLS", is_bytes=True),
    "iwarp": Meaning(
        "doubt",
        "connections of RDMA over TCP (iWARP): NFS in them is not seen",
        "mount with proto=tcp for the measurement, or look at the client's own counters",
    ),
    "tls_stream": Meaning("note", "connections that carry TLS without a sign of RPC"),
    "tcp_retransmission": Meaning("network", "TCP segments retransmitted"),
    "tcp_out_of_order": Meaning("network", "TCP segments that came out of order"),
    "tcp_late": Meaning("doubt", "TCP segments that came after they had been given up as lost"),
    "tcp_before_first": Meaning("note", "TCP segments from before the capture's first"),
    "sequence_jump": Meaning("doubt", "jumps of TCP sequence numbers without a new connection"),
    "port_reused": Meaning("note", "new connections between the endpoints of older ones"),
    "connections_evicted": Meaning("loss", "connections given up: too many were open"),
    "held_bound": Meaning("loss", "holes given up because too much waited behind them"),
    "record_not_kept": Meaning("loss", "RPC messages of which the inside was not kept"),
    "record_cut": Meaning(
        "note",
        "RPC messages cut by the snapshot length; their headers and times are whole",
        "only if paths or sizes are missing: " + LONGER_SNAPLEN,
    ),
    "record_incomplete": Meaning("loss", "RPC messages with lost bytes inside", BIGGER_BUFFER),
    "record_unreadable": Meaning(
        "loss", "RPC messages of which too little was left", BIGGER_BUFFER
    ),
    "record_mark_cut": Meaning(
        "loss",
        "ends of an RPC message in what the snapshot length cut away; the next was searched",
        LONGER_SNAPLEN,
    ),
    "record_mark_bad": Meaning("doubt", "places where an RPC message was due and none was"),
    "resynchronised": Meaning("note", "times that an RPC stream was found again by searching"),
    "resynchronised_wrongly": Meaning("doubt", "finds by searching that may have been none"),
    "unsynchronised_bytes": Meaning(
        "loss", "of RPC streams passed over while searching", BIGGER_BUFFER, is_bytes=True
    ),
    # Calls
    "malformed_header": Meaning("doubt", "messages whose RPC header contradicts itself"),
    "malformed_call": Meaning("doubt", "calls whose arguments break their protocol"),
    "malformed_reply": Meaning("doubt", "replies whose results break their protocol"),
    "reply_without_call": Meaning(
        "loss",
        "replies to calls that are not in the capture",
        "expected when the capture begins amid traffic; else " + BIGGER_BUFFER,
    ),
    "resynchronised_reply_ignored": Meaning(
        "note", "replies found by searching that no call fits; taken for false finds"
    ),
    "reply_before_call": Meaning("doubt", "replies captured before their calls; matched"),
    "xid_reused": Meaning("network", "calls with a transaction id that was still in use"),
    "calls_beyond_limit": Meaning(
        "loss", "calls given up without a reply: too many waited at once"
    ),
    "calls_expired": Meaning("note", "calls given up without a reply after a very long time"),
    "negative_latency": Meaning(
        "doubt",
        "replies timed before their calls",
        "the clocks of two capture points, or of several queues of a card, do not agree",
    ),
    "steps_beyond_limit": Meaning("note", "names in calls not kept for their replies"),
    "files_beyond_limit": Meaning(
        "doubt", "file handles beyond the number remembered; counted without a name"
    ),
    "names_beyond_limit": Meaning("note", "file names beyond the number remembered"),
    "entries_beyond_limit": Meaning("note", "directory entries beyond the number remembered"),
    "operation_lists_beyond_limit": Meaning(
        "note", "lists of COMPOUND operations beyond the number remembered"
    ),
}

_UNKNOWN = Meaning("doubt", "")


def counted(content: TraceContent) -> list[Counted]:
    """The kinds that occurred, the weightiest first, then the most frequent."""
    found = [
        Counted(entry["kind"], entry["count"], MEANINGS.get(entry["kind"], _UNKNOWN))
        for entry in content["anomalies"]
        if entry["count"]
    ]
    found.sort(key=lambda item: (ORDER.index(item.meaning.weight), -item.count))
    return found


def sentence(item: Counted) -> str:
    """Such as "12 frames without an IP packet"; the advice is apart."""

    size = quantity(item.count, "B") if item.meaning.is_bytes else count(item.count)
    return f"{size} {item.meaning.means or item.kind.replace('_', ' ')}"
