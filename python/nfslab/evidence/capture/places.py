"""Who and where: file classes, files, clients, users, connections, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nfslab.display import numbers
from nfslab.display.cells import count, latency, share, size, text
from nfslab.display.sections import Cell, Column, Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def counted(row: Mapping[str, Any]) -> list[Cell]:
    """The columns `COUNTED` of a row of the lenses `files` and `clients`."""
    found = row.get("latency_ns") or {}
    kinds = row.get("calls_by_kind", {})
    return [
        count(row["calls"]),
        *(count(kinds.get(kind, 0)) for kind in KINDS),
        count(row["retransmissions"], "severe"),
        _errors(row),
        size(row["bytes_read"]),
        size(row["bytes_written"]),
        latency(row.get("total_latency_ns")),
        *(latency(found.get(q)) for q in ("mean", "p50", "p99", "max")),
    ]


def _errors(row: Mapping[str, Any]) -> Cell:
    """How many calls failed, with which status."""
    named = sorted(row.get("errors_by_status", {}).items(), key=lambda item: -item[1])
    if not named:
        return count(row["errors"])
    told = ", ".join(f"{name} {numbers.count(times)}" for name, times in named[:ERRORS_SHOWN])
    left = len(named) - ERRORS_SHOWN
    return Cell(f"{told}, {left} more" if left > 0 else told, row["errors"])


def classes(section: Mapping[str, Any]) -> Table | None:
    """Calls by class of file."""
    found = section["classes"]
    rows = [
        [text(row["class"] or "other files"), count(row["files"]), *counted(row)] for row in found
    ]
    if len(rows) < 2:  # one class says nothing that the operations do not
        return None
    return Table("Classes of files", [Column("class", False), Column("files"), *COUNTED], rows)


def files(content: Mapping[str, Any]) -> Table | None:
    """The files with most calls, bytes, or time."""
    section = content["files"]
    access = {row["file"]: row for row in (content.get("access") or {}).get("files", [])}
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


def _file(row: Mapping[str, Any]) -> Cell:
    handle = row["file_handle"] or ""
    if row["path"]:
        return Cell(row["path"], row["path"], "", f"file handle {handle}")
    short = handle if len(handle) <= HANDLE_MOST else handle[:HANDLE_MOST] + "…"
    return Cell(f"handle {short}", handle, "faint", f"file handle {handle}; no path was seen")


def _ways(access: Mapping[str, Any] | None) -> str:
    if access is None:
        return ""
    ways = [
        f"{what} {access[key]['pattern']}"
        for what, key in (("read", "reads"), ("written", "writes"))
        if access.get(key)
    ]
    return ", ".join(ways)


def clients(section: Mapping[str, Any]) -> Table | None:
    """Pairs of client and server."""
    rows = []
    for row in section["pairs"]:
        names = ("others", "others") if row.get("other") else (row["client"], row["server"])
        rows.append([*(text(n) for n in names), count(row["connections"]), *counted(row)])
    columns = [Column("client", False), Column("server", False), Column("connections"), *COUNTED]
    return Table("Clients and servers", columns, rows, open=False) if rows else None


BY: Final = {
    "client": ("clients", "clients", "client"),
    "server": ("clients", "servers", "server"),
    "user": ("clients", "users", "user"),
    "file": ("files", "list", "path"),
    "class": ("files", "classes", "class"),
}
"""What a table may be by: section, list in it, the field that names a row."""
NAMELESS: Final = {"user": "none stated", "class": "other files", "path": "no path seen"}


def breakdown(content: Mapping[str, Any], what: str) -> Table:
    """The calls by client, server, user, file or class of file (`BY`)."""
    section, name, field = BY[what]
    found = (content.get(section) or {}).get(name) or []
    waited = what == "file"
    rows = [
        [_file(row) if waited else text(_named(row, field)), *counted(row)]
        for row in sorted(
            found, key=lambda row: -((row["total_latency_ns"] or 0) if waited else row["calls"])
        )
    ]
    return Table(f"By {what}", [Column(what, False), *COUNTED], rows, open=False)


def _named(row: Mapping[str, Any], field: str) -> str:
    if row.get("other"):
        return "(all others)"
    value = row.get(field)
    return f"({NAMELESS.get(field, 'none')})" if value is None else str(value)


def users(section: Mapping[str, Any]) -> Table | None:
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


def network(section: Mapping[str, Any]) -> Table | None:
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
    rows = [
        [
            text(row["operation"]),
            count(row["calls"]),
            latency(row["whole_ns"]["mean"]),
            *(latency(row[f"{part}_ns"]["mean"]) for part in PARTS),
            *(latency(row[f"{part}_ns"]["p99"]) for part in PARTS),
            count(row["server_negative"]),
        ]
        for row in found
    ]
    return Table("Network and server", columns, rows, not_split(section), open=False)


def not_split(section: Mapping[str, Any]) -> str:
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


def flows(section: Mapping[str, Any]) -> Table | None:
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
    for side in ("client", "server"):
        if section[f"from_{side}"]["segments"]:
            rows.append(_flow(f"{side}s, all", section[f"from_{side}"], whole))
    for entry in section["top_retransmitting"]:
        for side, name in (("client", entry["client"]), ("server", entry["server"])):
            if entry[f"from_{side}"]["retransmitted_segments"]:
                rows.append(_flow(str(name), entry[f"from_{side}"], entry))
    note = f"Where the capture was taken: {whole['place']}." if whole["place"] != "unknown" else ""
    return Table("TCP connections", columns, rows, note, open=False) if rows else None


def _flow(name: str, flow: Mapping[str, Any], paths: Mapping[str, Any]) -> list[Cell]:
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
