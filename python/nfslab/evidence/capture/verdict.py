"""What is slow in a capture, and why, in sentences; what is missing or odd.

A sentence names its evidence (lengths, counts, shares). Order: stalls of the server, losses in
the network, where the time goes, then what is odd about the load. What makes the figures
themselves doubtful (losses, anomalies) are warnings, the weightiest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.captures import anomalies, causes, spelling
from nfslab.captures.contents import has_nfs, instead
from nfslab.display import numbers
from nfslab.evidence.capture.gaps import BANDS, lengths, of_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nfslab._core import Amount, OperationRow, TraceContent
    from nfslab.captures.analysis import CaptureAnalysis
    from nfslab.evidence.capture.gaps import Gap

NS = 1_000_000_000
WORDS = {"loss": "Missing", "doubt": "Warning", "network": "Network", "note": "Note"}


def sentences(analysis: CaptureAnalysis, found: Sequence[Gap]) -> list[str]:
    """What is slow and why; the first says what the capture holds."""
    content = analysis.content
    calls = analysis.calls
    if not has_nfs(analysis):
        seen = instead(analysis)[0] if content["packets"] else "no packet passed the filter"
        return [f"No NFS call was captured: {seen}."]
    rows = analysis.outer
    told = [
        f"{calls:,} calls in {numbers.quantity(analysis.looked_at_ns, 'ns')}{part(analysis)}"
        + _replies(analysis)
        + "."
    ]
    told += _hidden(content, rows)
    told += _gaps(analysis, found)
    told += _unanswered(analysis)
    told += _again(analysis, rows)
    if len(told) == 1 and calls:
        told.append(_nothing(analysis))
    told += _where(analysis)
    if access := content.get("access"):
        texts = [one["text"] for one in access["observations"]]
        told += [f"{text[:1].upper()}{text[1:]}." for text in texts]
    return told


def _nothing(analysis: CaptureAnalysis) -> str:
    """What is said where no gap is, and no call was retransmitted."""
    section = analysis.content.get("stalls")
    evidence = section.get("evidence", {}) if section else {}
    segments = sum(evidence.get(name, 0) for name in RETRANSMITTED)
    again = f"TCP retransmitted segments {_times(segments)}."
    if causes.has_loss(analysis) or causes.fronts_cut(analysis):
        seen = "Of what was captured: no stall"
        return f"{seen}. {again}" if segments else f"{seen}, and nothing retransmitted."
    if segments:
        return f"No stall was found. {again}"
    return "No stall, no loss and nothing retransmitted was found."


def _replies(analysis: CaptureAnalysis) -> str:
    """How many calls have no reply, as far as that can be known."""
    without = causes.without_reply(analysis)
    if not without:
        return ", all answered"
    if causes.one_way(analysis):
        return ""
    if causes.fronts_cut(analysis):
        return (
            f"; the replies of {without:,} are not to be read, since the snapshot length cut "
            f"fronts of messages away: whether they came is not known ({anomalies.LONGER_SNAPLEN})"
        )
    one_way = causes.on_one_way_connections(analysis)
    unseen = (
        f", {one_way:,} of these on connections of which the capture has one direction only"
        if one_way
        else ""
    )
    return f", {without:,} of them without a reply{unseen}"


def _unanswered(analysis: CaptureAnalysis) -> list[str]:
    """The call that waited longest for a reply that is not in the capture."""
    waiting = causes.unanswered(analysis)
    if not waiting:
        return []
    first = waiting[0]
    more = f"; {len(waiting) - 1:,} more waited for over a second" if len(waiting) > 1 else ""
    return [
        f"A {first['kind']} of {first['client']} was never answered: it had waited "
        f"{numbers.quantity(first['waited_ns'], 'ns')} when the capture ended (frame "
        f"{first['frame']:,}){more}."
    ]


def part(analysis: CaptureAnalysis) -> str:
    """Which part of the capture is looked at, if it is not all of it."""
    window = analysis.content.get("window_ns")
    if not window:
        return ""
    begin_s = max(window[0] - analysis.first_ns, 0) / NS
    end_s = min(window[1] - analysis.first_ns, analysis.duration_ns) / NS
    return f" (from {begin_s:.3f} to {end_s:.3f} s of the capture)"


def _hidden(content: TraceContent, rows: Sequence[OperationRow]) -> list[str]:
    """What the capture does not show, though it was there: no figure has it."""
    told = []
    odd = {entry["kind"]: entry["count"] for entry in content["anomalies"]}
    sealed = odd.get("rpc_over_tls", 0)
    if sealed:
        told.append(
            f"RPC went inside TLS on {sealed:,} connection{'' if sealed == 1 else 's'} "
            f"({numbers.quantity(odd.get('rpc_over_tls_bytes', 0), 'B')}): those calls cannot be "
            "seen, and are in no figure."
        )
    answered = sum(row["answered"] for row in rows)
    if not answered:
        told.append(
            "There is no reply at all: the capture has one direction only, or nobody answered."
        )
    unreadable = sum(row["unreadable"] for row in rows)
    if unreadable:
        told.append(
            f"The status of {_of(unreadable, answered)} replies cannot be read, since they are "
            "encrypted or cut by the snapshot length: errors among them are in no figure."
        )
    return told


GAPS = (
    ("server_stalled", "The server stalled", "while calls were in flight"),
    ("server_restarted", "The server restarted", "until connections were accepted again"),
    ("connection_reset", "A connection was reset or closed", "until another one was begun"),
    ("network_loss", "The network lost data and held up calls", "until data was retransmitted"),
    ("server_full", "The server took no more bytes", "while its window was zero"),
    ("client_full", "A client took no more bytes", "while answers waited for its window"),
    (
        "told_to_wait",
        "Clients waited as the server had told them to",
        "by NFS3ERR_JUKEBOX or NFS4ERR_DELAY, before anything was asked again",
    ),
    ("client_waited", "A client waited", "while the server answered others"),
    (
        "unknown",
        "Nothing was answered",
        "and whether the server was slow, the client paused or data was lost cannot be told from "
        "where the capture was taken",
    ),
)
CONNECTIONS_NAMED = 4
RETRANSMITTED = ("holes_filled", "sent_again_acknowledged", "sent_again_unacknowledged")
"""Segments of TCP that were, by what they were good for."""
STALLS = (
    ("server_process_slow", "its host went on acknowledging: the server's process was late"),
    (
        "server_host_frozen",
        "its host acknowledged nothing either, and later that all had come: the host, or all of "
        "the way to it, stood still",
    ),
)
"""Causes of a server's stalls, as the packets prove them."""


def _gaps(analysis: CaptureAnalysis, found: Sequence[Gap]) -> list[str]:
    section = analysis.content.get("stalls")
    if not section:
        return []
    told = []
    looked_at = "this part" if analysis.content.get("window_ns") else "the capture"
    for kind, what, how in GAPS:
        shown = of_kind(found, kind)
        if not shown:
            continue
        total = section["totals"].get(kind, {"count": 0, "time_ns": 0})
        times = max(len(shown), total["count"])
        time_ns = max(sum(gap["length_ns"] for gap in shown), total["time_ns"])
        share = time_ns / analysis.looked_at_ns if analysis.looked_at_ns else 0.0
        told.append(
            f"{what} {_times(times)}, {numbers.quantity(time_ns, 'ns')} in all "
            f"({numbers.percent(share, 2)} of {looked_at}), {how}: {lengths(shown)}."
        )
        if kind == "server_stalled":
            told += _why(section.get("causes", {}))
    lost = [g for g in found if g["kind"] == "network_loss" and g["scope"] not in BANDS]
    if lost:
        told.append(
            f"The network lost data {_times(len(lost))} that held up one call or connection "
            f"alone: {lengths(lost)}."
        )
    alone = [gap for gap in found if gap["kind"] == "connection_waited"]
    if alone:
        names = list(dict.fromkeys(str(gap["client"]) for gap in alone))
        more = f" and {len(names) - CONNECTIONS_NAMED:,} more" if names[CONNECTIONS_NAMED:] else ""
        which = f"{', '.join(names[:CONNECTIONS_NAMED])}{more}"
        told.append(
            f"The connection{'s' if names[1:] else ''} of {which} waited while the server "
            f"answered the same client on others: {lengths(alone)}."
        )
    cycle = causes.period(section)
    if cycle:
        told.append(
            f"It stops and goes with a period of {cycle['period_ns'] / 1e6:,.0f} ms "
            f"({cycle['intervals_near']} of {cycle['intervals']} intervals lie near it)."
        )
    paused = of_kind(found, "client_paused")
    if paused:
        time_ns = section["totals"]["client_paused"]["time_ns"]
        told.append(
            f"The client paused {_times(section['totals']['client_paused']['count'])}, "
            f"{numbers.quantity(time_ns, 'ns')} in all, with nothing in flight: that time is not "
            f"the storage's. Longest: {lengths(paused, 1)}."
        )
    return told


def _why(totals: Mapping[str, Amount]) -> list[str]:
    """What the packets prove of a server's stalls."""
    return [
        f"In {totals[cause]['count']:,} of these stalls {what}."
        for cause, what in STALLS
        if cause in totals and totals[cause]["count"]
    ]


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _again(analysis: CaptureAnalysis, rows: Sequence[OperationRow]) -> list[str]:
    """What was retransmitted; why is told by the gaps alone."""
    again = sum(row["retransmissions"] for row in rows)
    duplicates = sum(row["duplicate_replies"] for row in rows)
    told = []
    if again or duplicates:
        most = max(rows, key=lambda row: row["retransmissions"])
        text = f"Calls were retransmitted {_times(again)}" if again else "No call was retransmitted"
        if again:
            text += f", most often {spelling.operation(most)} ({most['retransmissions']:,})"
        if duplicates:
            replies = "reply" if duplicates == 1 else "replies"
            text += f"; {duplicates:,} {replies} came again"
        told.append(f"{text}.")
    stalls = analysis.content.get("stalls")
    if stalls and (needless := stalls.get("evidence", {}).get("received_twice")):
        told.append(
            f"TCP retransmitted data needlessly {_times(needless)}: the receiver had it already."
        )
    return told


def _where(analysis: CaptureAnalysis) -> list[str]:
    """Network or server, where most calls could be split: a few speak for themselves only."""
    whole = causes.split(analysis)
    if whole is None:
        return []
    shares = causes.shares(whole)
    where, most = max(shares.items(), key=lambda item: item[1])
    place = analysis.content["network"]["capture_point"]["place"]
    taken = f"Seen {place}" if place[:2] in ("at", "be") else f"Seen from here ({place})"
    if where == "server" and not causes.in_server(analysis):
        return [
            f"{taken}, whether the time of the calls passed in the server or in queues of the "
            "network cannot be told: acknowledgements that travel alone took "
            f"{numbers.quantity(causes.queued_ns(analysis), 'ns')} longer than the shortest."
        ]
    what = {
        "server": "in the server",
        "network": "in the network's round trip",
        causes.TOGETHER: "in network and server, which its round trips do not tell apart",
        "request": "in sending the request",
        "reply": "in sending the reply",
    }[where]
    rest = ", ".join(
        f"{name} {numbers.percent(value, 2)}" for name, value in shares.items() if name != where
    )
    return [
        f"{taken}, of the time of {_of(whole['calls'], analysis.calls)} calls "
        f"{numbers.percent(most, 2)} passed {what} ({rest})."
    ]


def _of(some: int, calls: int) -> str:
    return f"all {calls:,}" if some == calls else f"{some:,} of {calls:,}"


def doubts(analysis: CaptureAnalysis) -> list[str]:
    """What is missing, or makes figures doubtful, the weightiest first."""
    found = []
    lost = analysis.content["lost"]
    if causes.has_loss(analysis):
        found.append(
            f"{WORDS['loss']}: the capture lacks {numbers.quantity(lost['bytes'], 'B')} of TCP "
            f"streams and UDP datagrams in {lost['gaps']:,} gaps: calls and replies inside them "
            f"are in no figure. To avoid it, {anomalies.BIGGER_BUFFER}."
        )
    return found + _counted(analysis, ("loss", "doubt"))


def notes(analysis: CaptureAnalysis) -> list[str]:
    """What is odd about the capture, and true of the load."""
    return _counted(analysis, ("network", "note"))


def _counted(analysis: CaptureAnalysis, weights: tuple[str, ...]) -> list[str]:
    return [
        f"{WORDS[item.meaning.weight]}: {anomalies.sentence(item)}"
        + (f" ({item.meaning.advice})" if item.meaning.advice else "")
        + "."
        for item in anomalies.counted(analysis.content)
        if item.meaning.weight in weights
    ]
