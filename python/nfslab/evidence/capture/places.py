"""Who and where: file classes, files, clients, users, connections, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nfslab.display import numbers
from nfslab.display.cells import count, latency, share, size, text
from nfslab.display.sections import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nfslab._core import (
        AccessedFile,
        ClientsContent,
        CountedRow,
        FileRow,
        FilesContent,
        Flow,
        NetworkContent,
        Paths,
        StallsContent,
        TraceContent,
    )

FILES_MOST = 60
ERRORS_SHOWN = 3
HANDLE_MOST = 24
"""Digits of a file handle that are shown where no path is known."""
COUNTED = (
    Column("calls"),
    Column("READ"),
    Column("WRITE"),
    Column("COMMIT"),
    Column("attributes", hint="GETATTR, ACCESS and LOOKUP"),
    Column("other"),
    Column("sent again"),
    Column("errors"),
    Column("read"),
    Column("written"),
    Column("time", hint="all latencies added up: what waits longest comes first"),
    Column("mean"),
    Column("p50"),
    Column("p99"),
    Column("max"),
)
KINDS = ("READ", "WRITE", "COMMIT", "attributes", "other")


def counted(row: CountedRow) -> list[Cell]:
    """The columns `COUNTED` of a row of the lenses `files` and `clients`."""
    return [
        count(row["calls"]),
        *(count(row["calls_by_kind"][kind]) for kind in KINDS),
        count(row["retransmissions"], "severe"),
        _errors(row),
        size(row["bytes_read"]),
        size(row["bytes_written"]),
        latency(row["total_latency_ns"]),
        *(latency(row["latency_ns"][q]) for q in ("mean", "p50", "p99", "max")),
    ]


def _errors(row: CountedRow) -> Cell:
    """How many calls failed, with which status."""
    named = sorted(row.get("errors_by_status", {}).items(), key=lambda item: -item[1])
    if not named:
        return count(row["errors"])
    told = ", ".join(f"{name} {numbers.count(times)}" for name, times in named[:ERRORS_SHOWN])
    left = len(named) - ERRORS_SHOWN
    return Cell(f"{told}, {left} more" if left > 0 else told, row["errors"])


def classes(section: FilesContent) -> Table | None:
    """Calls by class of file."""
    found = section["classes"]
    rows = [
        [text(row["class"] or "other files"), count(row["files"]), *counted(row)] for row in found
    ]
    if len(rows) < 2:  # one class says nothing that the operations do not
        return None
    return Table("Classes of files", [Column("class", False), Column("files"), *COUNTED], rows)


def files(content: TraceContent) -> Table | None:
    """The files with most calls, bytes, or time."""
    section = content["files"]
    accessed = content.get("access")
    access = {row["file"]: row for row in accessed["files"]} if accessed else {}
    order = sorted(section["list"], key=lambda row: -(row["total_latency_ns"] or 0))
    rows = [
        [
            _file(row),
            text(_ways(access.get(row["file"]))),
            *counted(row),
        ]
        for row in order[:FILES_MOST]
    ]
    if not rows:
        return None
    rest = section["rest"]
    note = f"Of {section['files']:,} files those with most calls, bytes or time; sorted by time."
    if rest["files"]:
        note += f" The other {rest['files']:,} have {rest['calls']:,} calls."
    if section["without_file"]["calls"]:
        note += f" {section['without_file']['calls']:,} calls name no file."
    columns = [Column("file", False), Column("order", False), *COUNTED]
    return Table("Files", columns, rows, note, open=False)


def _file(row: FileRow) -> Cell:
    handle = row["file_handle"] or ""
    if row["path"]:
        return Cell(row["path"], row["path"], "", f"file handle {handle}")
    short = handle if len(handle) <= HANDLE_MOST else handle[:HANDLE_MOST] + "…"
    return Cell(f"handle {short}", handle, "faint", f"file handle {handle}; no path was seen")


def _ways(access: AccessedFile | None) -> str:
    if access is None:
        return ""
    ways = (("read", access["reads"]), ("written", access["writes"]))
    return ", ".join(f"{what} {way['pattern']}" for what, way in ways if way)


def clients(section: ClientsContent) -> Table | None:
    """Pairs of client and server."""
    rows = []
    for row in section["pairs"]:
        names = ("others", "others") if row.get("other") else (row["client"], row["server"])
        rows.append([*(text(n) for n in names), count(row["connections"]), *counted(row)])
    columns = [Column("client", False), Column("server", False), Column("connections"), *COUNTED]
    return Table("Clients and servers", columns, rows, open=False) if rows else None


def connections(section: ClientsContent, stalls: StallsContent | None) -> Table | None:
    """Connections of clients that have several to a server."""
    found = section.get("by_connection", [])
    if len(found) <= len(section["pairs"]):
        return None
    watched = stalls.get("connections", []) if stalls else []
    waits = {(row["client"], row["server"]): row["gaps"]["connection_waited"] for row in watched}
    rows = []
    for row in found:
        names = (row["client"] or "others", row["server"] or "others")
        alone = waits.get(names)
        waited = (alone["count"], alone["time_ns"]) if alone else (None, None)
        rows.append(
            [
                *(text(name or "") for name in names),
                count(waited[0], "warning"),
                latency(waited[1]),
                *counted(row),
            ]
        )
    columns = [
        Column("client", False),
        Column("server", False),
        Column("waited alone", hint="while the server answered the same client on others"),
        Column("time waited so"),
        *COUNTED,
    ]
    return Table("Connections", columns, rows, open=False)


def breakdown(content: TraceContent, what: str) -> Table:
    """The calls by client, server, connection, user, file or class of file."""
    rows = _named(content, what)
    if what == "file":
        rows.sort(key=lambda pair: -(pair[1]["total_latency_ns"] or 0))
    else:
        rows.sort(key=lambda pair: -pair[1]["calls"])
    shown = [[name, *counted(row)] for name, row in rows]
    return Table(f"By {what}", [Column(what, False), *COUNTED], shown, open=False)


def _named(content: TraceContent, what: str) -> list[tuple[Cell, CountedRow]]:
    """Rows of one kind, each with its name."""
    clients, files = content.get("clients"), content.get("files")
    if what == "file":
        return [(_file(row), row) for row in files["list"]] if files else []
    if what == "class":
        return [(text(row["class"]), row) for row in files["classes"]] if files else []
    if clients is None:
        return []
    if what == "user":
        return [
            (text(_name(row["user"], "other" in row, "none stated")), row)
            for row in clients["users"]
        ]
    if what == "connection":
        named = clients.get("by_connection", [])
        ends = [f"{row.get('client')} to {row.get('server')}" for row in named]
        return [
            (text(_name(end, "other" in row, "none")), row)
            for end, row in zip(ends, named, strict=True)
        ]
    rows = clients["clients"] if what == "client" else clients["servers"]
    names = (row.get("client", row.get("server")) for row in rows)
    return [
        (text(_name(name, "other" in row, "none")), row)
        for name, row in zip(names, rows, strict=True)
    ]


def _name(value: object, other: bool, nameless: str) -> str:
    if other:
        return "(all others)"
    return f"({nameless})" if value is None else str(value)


def users(section: ClientsContent) -> Table | None:
    """Users by their number (AUTH_SYS)."""
    found = section["users"]
    if len(found) < 2:
        return None
    rows = []
    for row in found:
        name = "others" if row.get("other") else row["user"]
        rows.append([text("none" if name is None else name), *counted(row)])
    return Table("Users", [Column("user id", False), *COUNTED], rows, open=False)


PARTS = ("request", "network", "server", "reply")


def network(section: NetworkContent) -> Table | None:
    """Where a call's time goes."""
    found = section["operations"]
    if not found:
        return None
    columns = [
        Column("operation", False),
        Column("calls"),
        Column("whole, mean"),
        *(Column(f"{part}, mean") for part in PARTS),
        *(Column(f"{part}, p99") for part in PARTS),
        Column("server negative", hint="the round trip was shorter than its estimate"),
    ]
    rows = []
    for row in found:
        parts = (row["request_ns"], row["network_ns"], row["server_ns"], row["reply_ns"])
        cells = [text(row["operation"]), count(row["calls"]), latency(row["whole_ns"]["mean"])]
        cells += [latency(part[figure]) for figure in ("mean", "p99") for part in parts]
        rows.append([*cells, count(row["server_negative"])])
    return Table("Network and server", columns, rows, not_split(section), open=False)


def not_split(section: NetworkContent) -> str:
    """Which calls have no split, and why."""
    left = section["not_split"]
    reasons = [
        ("udp", "over UDP, which acknowledges nothing"),
        ("sent_again", "sent more than once"),
        ("no_round_trip", "on a connection without a measured round trip"),
        ("only_upper_bound", "on a connection of whose round trip only a bound is known"),
    ]
    parts = [f"{left[key]:,} {why}" for key, why in reasons if left[key]]
    return f"Calls not split: {'; '.join(parts)}." if parts else ""


def flows(section: NetworkContent) -> Table | None:
    """TCP in both directions, all connections together, and the worst ones."""
    columns = [
        Column("from", False),
        Column("segments"),
        Column("bytes"),
        Column("sent again"),
        Column("rate"),
        Column("out of order"),
        Column("zero windows"),
        Column("lost by the capture"),
        Column("round trip to the server"),
    ]
    whole = section["capture_point"]
    rows: list[Sequence[Cell]] = []
    for name, flow in (
        ("clients, all", section["from_client"]),
        ("servers, all", section["from_server"]),
    ):
        if flow["segments"]:
            rows.append(_flow(name, flow, whole))
    for entry in section["top_retransmitting"]:
        for host, flow in (
            (entry["client"], entry["from_client"]),
            (entry["server"], entry["from_server"]),
        ):
            if flow["retransmitted_segments"]:
                rows.append(_flow(str(host), flow, entry))
    note = f"Where the capture was taken: {whole['place']}." if whole["place"] != "unknown" else ""
    return Table("TCP connections", columns, rows, note, open=False) if rows else None


def _flow(name: str, flow: Flow, paths: Paths) -> list[Cell]:
    trip = paths["to_server_round_trip"] or {}
    bound = trip.get("at_most_ns")
    shown = latency(trip.get("ns"))
    if bound is not None:
        shown = Cell(f"at most {numbers.quantity(bound, 'ns')}", bound)
    return [
        text(name),
        count(flow["segments"]),
        size(flow["bytes"]),
        count(flow["retransmitted_segments"], "severe"),
        share(flow["retransmission_rate"]),
        count(flow["out_of_order"]),
        count(flow["zero_windows"]),
        size(flow["lost_bytes"]),
        shown,
    ]
