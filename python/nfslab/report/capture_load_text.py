"""Load, access patterns and the network's share of a capture, as text for the terminal.

What the page draws over time stands here as totals and extremes. A section that has nothing
to tell (no READ or WRITE, no TCP) is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nfslab.captures.spelling import ABSENT, count, latency, size
from nfslab.report.text import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from nfslab.captures.analysis import CaptureAnalysis

ORDERS = ("sequential", "forward", "backward", "random", "repeated", "first")
"""How a READ or WRITE lies behind the one before it in its file."""
PARTS = ("request", "network", "server", "reply")
SIZES_SHOWN = 3


def load(capture: CaptureAnalysis) -> Iterator[str]:
    """Throughput, the queue of outstanding calls, what TCP had to do."""
    section = capture.content.get("rpcstat")
    if not section or not section["totals"]["calls"] or not capture.looked_at_ns:
        return
    totals, queue = section["totals"], section["queue"]
    per_s = 1e9 / capture.looked_at_ns
    yield (
        f"sent {totals['calls'] * per_s:,.4g} calls/s, answered "
        f"{totals['answered'] * per_s:,.4g}/s; read {_rate(totals['read_bytes'], per_s)}, "
        f"written {_rate(totals['written_bytes'], per_s)}"
    )
    slots = f"; v4.1 slots in use: at most {queue['slots_max']}" if queue["slots_max"] else ""
    yield f"outstanding: {queue['mean']:.3g} calls on average, at most {queue['max']:,}{slots}"
    for side, what in (("client", "client to server"), ("server", "server to client")):
        tcp = totals["tcp"][side]
        if tcp["segments"]:
            yield f"TCP {what}: {_tcp(tcp)}"


def _rate(size_bytes: int, per_s: float) -> str:
    return f"{size(round(size_bytes * per_s)) or '0 B'}/s"


def _tcp(tcp: Mapping[str, Any]) -> str:
    parts = [f"at most {size(tcp['in_flight_max_bytes']) or '0 B'} in flight"]
    if tcp["window_min_bytes"] is not None:
        parts.append(f"window at least {size(tcp['window_min_bytes']) or '0 B'}")
    for key, what in (
        ("retransmitted_segments", "segments sent again"),
        ("timeouts", "timeouts"),
        ("out_of_order", "segments out of order"),
        ("zero_windows", "zero windows"),
    ):
        if tcp[key]:
            parts.append(f"{tcp[key]:,} {what}")
    return ", ".join(parts)


def patterns(capture: CaptureAnalysis) -> Iterator[str]:
    """READs and WRITEs by order and size; COMMITs; attributes asked for again."""
    section = capture.content.get("access")
    if not section:
        return
    rows = [
        _order(title, section[key])
        for title, key in (("READ", "reads"), ("WRITE", "writes"))
        if section[key]["calls"]
    ]
    if rows:
        header = ["", "calls", "mean size", *ORDERS, "most frequent sizes"]
        yield table(header, rows, right=range(1, len(header) - 1))
    asked, commits = section["stability"], section["commits"]
    if section["writes"]["calls"]:
        yield (
            f"WRITEs: {asked['unstable']:,} unstable, {asked['data_sync']:,} DATA_SYNC, "
            f"{asked['file_sync']:,} FILE_SYNC; {commits['calls']:,} COMMITs" + _commits(commits)
        )
    attributes = section["attributes"]
    if attributes["getattr_calls"]:
        yield (
            f"GETATTRs: {attributes['getattr_calls']:,}, {attributes['getattr_asked_again']:,} of "
            "them for attributes asked for within "
            f"{attributes['asked_again_within_ns'] / 1e9:g} s; "
            f"{attributes['revalidated_before_read_or_write']:,} READs and WRITEs directly after "
            "a GETATTR or ACCESS of their file"
        )


def _order(title: str, found: Mapping[str, Any]) -> list[str]:
    placed = sum(found["classes"].values())
    shares = [_share(found["classes"][name], placed) for name in ORDERS]
    common = [
        f"{size(one['bytes']) or '0 B'} {_share(one['calls'], found['calls'])}"
        for one in found["sizes"]["common"][:SIZES_SHOWN]
    ]
    mean = found["sizes"]["mean_bytes"]
    shown = ABSENT if mean is None else size(round(mean)) or "0 B"
    return [title, count(found["calls"]), shown, *shares, ", ".join(common)]


def _share(part: int, whole: int) -> str:
    return f"{part / whole * 100:.3g} %" if part and whole else ""


def _commits(commits: Mapping[str, Any]) -> str:
    waits, writes = commits["last_write_to_commit_ns"], commits["writes"]
    if not waits or not writes:
        return ""
    return f", median {writes['p50']:,} WRITEs each, {latency(waits['p50'])} after the last"


def split(capture: CaptureAnalysis, top: int) -> Iterator[str]:
    """Mean time of calls over TCP: in the network and in the server, by operation."""
    section = capture.content.get("network")
    if not section or not section["operations"]:
        return
    rows = [
        [
            row["operation"],
            count(row["calls"]),
            latency(row["whole_ns"]["mean"]),
            *(latency(row[f"{part}_ns"]["mean"]) for part in PARTS),
            _share(row["server_ns"]["mean"], row["whole_ns"]["mean"]),
        ]
        for row in section["operations"][:top]
    ]
    header = ["", "calls", "mean", *PARTS, "in the server"]
    yield table(header, rows, right=range(1, len(header)))
    told = [
        f"{section['not_split'][key]:,} {why}"
        for key, why in (
            ("udp", "calls over UDP"),
            ("sent_again", "calls sent again"),
            ("no_round_trip", "calls without a round trip to compare with"),
            ("only_upper_bound", "calls acknowledged by their reply only"),
        )
        if section["not_split"][key]
    ]
    if told:
        yield f"(not split: {', '.join(told)})"
