"""Who and where: file classes, files, clients, users, connections, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from nfslab.captures.causes import told_as_one
from nfslab.display import numbers
from nfslab.display.cells import count, latency, share, size, text
from nfslab.display.sections import Cell, Column, Table, headings, row_of

if TYPE_CHECKING:
    from nfslab._core import (
        AccessedFile,
        ClientsContent,
        CountedRow,
        FileRow,
        FilesContent,
        Flow,
        NetworkContent,
        Paths,
        SplitRow,
        StallsContent,
        TraceContent,
    )
    from nfslab.display.sections import Shown

FILES_MOST = 60
ERRORS_SHOWN = 3
HANDLE_MOST = 24
"""Digits of a file handle that are shown where no path is known."""
KINDS = ("READ", "WRITE", "COMMIT", "attributes", "other")
QUANTILES: tuple[Literal["mean", "p50", "p99", "max"], ...] = ("mean", "p50", "p99", "max")


def counted(row: CountedRow) -> list[Cell]:
    """The columns `COUNTED` of a row of the lenses `files` and `clients`."""
    return row_of(_COUNTED, row)


def _errors(row: CountedRow) -> Cell:
    """How many calls failed, with which status."""
    named = sorted(row.get("errors_by_status", {}).items(), key=lambda item: -item[1])
    if not named:
        return count(row["errors"])
    told = ", ".join(f"{name} {numbers.count(times)}" for name, times in named[:ERRORS_SHOWN])
    left = len(named) - ERRORS_SHOWN
    return Cell(f"{told}, {left} more" if left > 0 else told, row["errors"])


_COUNTED: list[Shown[CountedRow]] = [
    (Column("calls"), lambda row: count(row["calls"])),
    ([Column("READ"), Column("WRITE"), Column("COMMIT"),
      Column("attributes", hint="GETATTR, ACCESS and LOOKUP"), Column("other")],
     lambda row: [count(row["calls_by_kind"][kind]) for kind in KINDS]),
    (Column("retransmitted"), lambda row: count(row["retransmissions"], "severe")),
    (Column("errors"), _errors),
    (Column("read"), lambda row: size(row["bytes_read"])),
    (Column("written"), lambda row: size(row["bytes_written"])),
    (Column("time", hint="all latencies added up: what waits longest comes first"),
     lambda row: latency(row["total_latency_ns"])),
    ([Column(name) for name in QUANTILES],
     lambda row: [latency(row["latency_ns"][name]) for name in QUANTILES]),
]  # fmt: skip
COUNTED = headings(_COUNTED)


def classes(section: FilesContent) -> Table | None:
    """Calls by class of file."""
    if len(section["classes"]) < 2:  # one class says nothing that the operations do not
        return None
    return Table.of("Classes of files", section["classes"], [
        (Column("class", False), lambda row: text(row["class"] or "other files")),
        (Column("files"), lambda row: count(row["files"])),
        (COUNTED, counted),
    ])  # fmt: skip


def files(content: TraceContent) -> Table | None:
    """The files with most calls, bytes, or time."""
    section = content["files"]
    accessed = content.get("access")
    access = {row["file"]: row for row in accessed["files"]} if accessed else {}
    order = sorted(section["list"], key=lambda row: -(row["total_latency_ns"] or 0))
    if not order:
        return None
    rest = section["rest"]
    note = f"Of {section['files']:,} files those with most calls, bytes or time; sorted by time."
    if rest["files"]:
        note += f" The other {rest['files']:,} have {rest['calls']:,} calls."
    if section["without_file"]["calls"]:
        note += f" {section['without_file']['calls']:,} calls name no file."
    return Table.of("Files", order[:FILES_MOST], [
        (Column("file", False), _file),
        (Column("order", False), lambda row: text(_ways(access.get(row["file"])))),
        (COUNTED, counted),
    ], note=note, open=False)  # fmt: skip


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
    return Table.of("Network and server", found, [
        (Column("operation", False), lambda row: text(row["operation"])),
        (Column("calls"), lambda row: count(row["calls"])),
        (Column("whole, mean"), lambda row: latency(row["whole_ns"]["mean"])),
        ([Column(f"{part}, mean") for part in PARTS], lambda row: _parts(row, "mean")),
        ([Column(f"{part}, p99") for part in PARTS], lambda row: _parts(row, "p99")),
        (Column("server negative", hint="the round trip was shorter than its estimate"),
         lambda row: count(row["server_negative"])),
    ], note=not_split(section), open=False)  # fmt: skip


def _parts(row: SplitRow, figure: Literal["mean", "p99"]) -> list[Cell]:
    parts = (row["request_ns"], row["network_ns"], row["server_ns"], row["reply_ns"])
    request, network, server, reply = (latency(part[figure]) for part in parts)
    if told_as_one(row):
        both = sum(part["mean"] or 0.0 for part in parts[1:3])
        server = text(None)
        network = text(f"{numbers.quantity(both, 'ns')} with server" if figure == "mean" else None)
    return [request, network, server, reply]


def not_split(section: NetworkContent) -> str:
    """Which calls have no split, and why."""
    left = section["not_split"]
    reasons = [
        ("udp", "over UDP, which acknowledges nothing"),
        ("sent_again", "retransmitted"),
        ("no_round_trip", "on a connection without a measured round trip"),
        ("only_upper_bound", "on a connection of whose round trip only a bound is known"),
    ]
    parts = [f"{left[key]:,} {why}" for key, why in reasons if left[key]]
    return f"Calls not split: {'; '.join(parts)}." if parts else ""


def flows(section: NetworkContent) -> Table | None:
    """TCP in both directions, all connections together, and the worst ones."""
    whole = section["capture_point"]
    all_of: list[tuple[str, Flow, Paths]] = [
        ("clients, all", section["from_client"], whole),
        ("servers, all", section["from_server"], whole),
    ]
    rows = [row for row in all_of if row[1]["segments"]]
    for entry in section["top_retransmitting"]:
        ends = ((entry["client"], entry["from_client"]), (entry["server"], entry["from_server"]))
        rows += [(str(host), to, entry) for host, to in ends if to["retransmitted_segments"]]
    note = f"Where the capture was taken: {whole['place']}." if whole["place"] != "unknown" else ""
    made = Table.of("TCP connections", rows, [
        (Column("from", False), lambda row: text(row[0])),
        (Column("segments"), lambda row: count(row[1]["segments"])),
        (Column("bytes"), lambda row: size(row[1]["bytes"])),
        (Column("retransmitted"), lambda row: count(row[1]["retransmitted_segments"], "severe")),
        (Column("rate"), lambda row: share(row[1]["retransmission_rate"])),
        (Column("out of order"), lambda row: count(row[1]["out_of_order"])),
        (Column("zero windows"), lambda row: count(row[1]["zero_windows"])),
        (Column("lost by the capture"), lambda row: size(row[1]["lost_bytes"])),
        (Column("round trip to the server"), lambda row: _round_trip(row[2])),
    ], note=note, open=False)  # fmt: skip
    return made if rows else None


def _round_trip(paths: Paths) -> Cell:
    trip = paths["to_server_round_trip"] or {}
    bound = trip.get("at_most_ns")
    if bound is not None:
        return Cell(f"at most {numbers.quantity(bound, 'ns')}", bound)
    return latency(trip.get("ns"))
