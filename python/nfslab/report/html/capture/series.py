"""What the page draws besides single calls: rpcstat over time, latency histograms, the split
between network and server.

Nothing is estimated here: columns come from the core's lenses; this module turns counts of a
bin into rates, leaves out what is zero all the time, and computes ranges that all captures of
a page share.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nfslab.report.html.columns import ChunkWriter, pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from nfslab.captures.analysis import CaptureAnalysis

    Floats = NDArray[np.float64]

NS = 1_000_000_000
PAD = 1.05
HISTOGRAMS_MOST = 9
"""Operations with a panel of their own, the most frequent first; the table has all."""
QUANTILES = ("min", "mean", "p50", "p90", "p99", "p999", "max")

# (key, title, unit, [(column, label, dashed)], counts that become rates, drawn as steps)
PANELS: tuple[tuple[str, str, str, tuple[tuple[str, str, bool], ...], bool, bool], ...] = (
    (
        "calls",
        "Calls",
        "1/s",
        (("sent_calls", "sent", False), ("answered_calls", "answered", True)),
        True,
        False,
    ),
    (
        "bytes",
        "File data",
        "B/s",
        (("read_bytes", "read", False), ("written_bytes", "written", False)),
        True,
        False,
    ),
    (
        "messages",
        "RPC bytes",
        "B/s",
        (("sent_bytes", "calls sent", False), ("answered_bytes", "replies", True)),
        True,
        False,
    ),
    (
        "queue",
        "Calls waiting for a reply",
        "1",
        (("queue_max", "most", True), ("queue_mean", "mean", False)),
        False,
        False,
    ),
    (
        "again",
        "Sent again, in each bin",
        "1",
        (
            ("retransmissions", "calls (RPC)", False),
            ("tcp_client_retransmitted_segments", "TCP segments of the client", False),
            ("tcp_server_retransmitted_segments", "TCP segments of the server", False),
            ("duplicate_replies", "duplicate replies", False),
            ("tcp_client_timeouts", "timeouts of the client's TCP", False),
            ("tcp_server_timeouts", "timeouts of the server's TCP", False),
        ),
        False,
        True,
    ),
    (
        "flight",
        "Bytes in flight and window offered",
        "B",
        (
            ("tcp_client_in_flight_max_bytes", "client, most", False),
            ("tcp_server_in_flight_max_bytes", "server, most", False),
            ("tcp_client_window_min_bytes", "client's window, least", True),
            ("tcp_server_window_min_bytes", "server's window, least", True),
        ),
        False,
        False,
    ),
    (
        "slots",
        "Session slots in use (NFSv4.1)",
        "1",
        (("slots_max", "most", True), ("slots_mean", "mean", False)),
        False,
        False,
    ),
)
ALWAYS = frozenset({"calls", "queue"})
"""Panels drawn even if they are zero throughout: an idle line is an answer too."""


def rpcstat(
    captures: Sequence[CaptureAnalysis], prefix: str
) -> tuple[dict[str, Any] | None, list[dict[str, Any] | None], dict[str, str]]:
    """(panels, each capture's frame, chunks); no panels when the lens did not run."""
    columns = [_columns(capture) for capture in captures]
    if not any(columns):
        return None, [None] * len(captures), {}
    panels = [panel for entry in PANELS if (panel := _panel(entry, columns)) is not None]
    frames: list[dict[str, Any] | None] = []
    chunks: dict[str, str] = {}
    for k, (capture, found) in enumerate(zip(captures, columns, strict=True)):
        section = capture.content.get("rpcstat")
        if not found or section is None:
            frames.append(None)
            continue
        writer = ChunkWriter()
        wanted = [s["column"] for panel in panels for s in panel["series"] if s["column"] in found]
        specs = dict(
            zip(
                wanted,
                (writer.measured(found[name]) for name in wanted),
                strict=True,
            )
        )
        header = {
            "n": int(section["bins"]),
            "t0": (section["origin_ns"] - capture.content["first_ns"]) / NS,
            "dt": section["bin_ns"] / NS,
            "columns": specs,
        }
        name = f"{prefix}-{k}-rpcstat"
        chunks[name] = pack(writer.finish(header))
        frames.append({"chunk": name})
    note = "Lines are drawn to a four-thousandth of their range."
    return {"panels": panels, "note": note}, frames, chunks


def _columns(capture: CaptureAnalysis) -> dict[str, Floats]:
    """Columns of the page: rates where the panel shows rates, zero throughout left out."""
    section = capture.content.get("rpcstat")
    if not section or not section["bins"]:
        return {}
    present = {column["name"] for column in section["columns"]}
    found: dict[str, Floats] = {}
    for key, _, _, series, rates, _ in PANELS:
        for name, _, _ in series:
            if name not in present:
                continue
            values = capture.column(f"rpcstat/{name}").astype(np.float64)
            known = values[np.isfinite(values)]
            if key not in ALWAYS and (known.size == 0 or not known.any()):
                continue
            found[name] = values / (section["bin_ns"] / NS) if rates else values
    return found


def _panel(entry: Any, columns: Sequence[Mapping[str, Floats]]) -> dict[str, Any] | None:
    key, title, unit, series, _, counts = entry
    present = [
        {"column": name, "label": label, "look": look, "dashed": dashed}
        for look, (name, label, dashed) in enumerate(series)
        if any(name in found for found in columns)
    ]
    if not present:
        return None
    tops = [
        float(np.nanmax(found[s["column"]]))
        for s in present
        for found in columns
        if s["column"] in found and np.isfinite(found[s["column"]]).any()
    ]
    top = max(tops, default=0.0)
    return {
        "key": key,
        "title": title,
        "unit": unit,
        "series": present,
        "counts": counts,
        "domain": [0.0, top * PAD or 1.0],
    }


def latencies(captures: Sequence[CaptureAnalysis]) -> dict[str, Any] | None:
    """Histograms of the most frequent operations, on scales that all share."""
    lines: dict[str, list[dict[str, Any]]] = {}
    calls: dict[str, int] = {}
    for k, capture in enumerate(captures):
        for row in capture.content.get("operations", []):
            parts = row.get("histogram")
            if not parts or not row.get("latency_ns"):
                continue
            name = _operation(row)
            n = sum(count for _, _, count in parts)
            calls[name] = calls.get(name, 0) + n
            lines.setdefault(name, []).append(
                {
                    "capture": k,
                    "calls": n,
                    "parts": [
                        [math.log10(max(low, 1)) - 9, math.log10(max(below, 2)) - 9, count]
                        for low, below, count in parts
                    ],
                    "quantiles": [row["latency_ns"].get(q) for q in QUANTILES],
                }
            )
    names = sorted(calls, key=lambda name: -calls[name])[:HISTOGRAMS_MOST]
    if not names:
        return None
    shown = [line for name in names for line in lines[name]]
    edges = [edge for line in shown for part in line["parts"] for edge in part[:2]]
    top = max(count / line["calls"] for line in shown for _, _, count in line["parts"])
    pad = max((max(edges) - min(edges)) * 0.02, 0.02)
    return {
        "panels": [{"name": name, "lines": lines[name]} for name in names],
        "left_out": len(calls) - len(names),
        "domain": [0.0, top * PAD],
        "x_domain": [min(edges) - pad, max(edges) + pad],
        "quantiles": [{"p999": "p99.9"}.get(q, q) for q in QUANTILES],
    }


SPLIT = (
    ("request", "request", "c1"),
    ("network", "network's round trip", "c2"),
    ("server", "server", "c3"),
    ("reply", "reply", "c4"),
)
"""Parts of a call's time as the core's lens `network` names them: label and colour."""


def split(captures: Sequence[CaptureAnalysis]) -> dict[str, Any] | None:
    """Shares of the calls' time by where it passed; None when no call could be split."""
    rows = []
    for capture in captures:
        for row in (capture.content.get("network") or {}).get("operations", []):
            label = row["operation"] if row["operation"] != "all" else "all calls"
            rows.append(
                {
                    "label": f"{label} · {capture.label}" if len(captures) > 1 else label,
                    "shares": [row[f"{part}_share"] for part, _, _ in SPLIT],
                    "means_s": [row[f"{part}_ns"]["mean"] / NS for part, _, _ in SPLIT],
                    "whole_s": row["whole_ns"]["mean"] / NS,
                    "calls": row["calls"],
                }
            )
    if not rows:
        return None
    rows.sort(key=lambda row: row["label"].startswith("all calls"), reverse=True)
    parts = [{"label": label, "colour": colour} for _, label, colour in SPLIT]
    return {"parts": parts, "rows": rows}


def _operation(row: Mapping[str, Any]) -> str:
    """ "READ" of NFSv3, "NFSv4 READ", "MOUNT MNT": the version where it matters."""
    name = str(row["operation"])
    if row.get("program") == NFS_PROGRAM:
        return name if row["version"] != 4 else f"{name} (v4)"
    return f"{row.get('program_name') or row.get('program')} {name}"


NFS_PROGRAM = 100_003
